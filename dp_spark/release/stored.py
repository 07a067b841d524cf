"""Plans as bytes: what the ledger keeps at reservation, and what resume uses."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import NoiseTable, Part
from dp_spark.queries import Binning, ClampedColumn, Edges, Listed, Measure, MeasureKind, Total
from dp_spark.release.asking import query_of
from dp_spark.release.group_keys import packed_keys, unpacked_keys
from dp_spark.release.plan import (
    BudgetShare,
    ColumnRole,
    ColumnType,
    NoiseDecision,
    OutputColumn,
    PlannedQuery,
    PlannedTotal,
    ReleasePlan,
)
from dp_spark.release.pricing import Form, Priced
from dp_spark.release.selection import GroupSelection
from dp_spark.release.spec import spec_from_canonical

FORMAT = 2


def plan_to_bytes(plan: ReleasePlan) -> bytes:
    """The plan as canonical JSON; its noise tables stand by digest."""
    document = {
        "format": FORMAT,
        "spec": json.loads(plan.spec.canonical_json()),
        "noise": asdict(plan.noise),
        "queries": [
            [[_total_to_json(planned) for planned in totals] for totals in query.levels]
            for query in plan.queries
        ],
        "columns": [_column_to_json(column) for column in plan.columns],
    }
    if plan.selection is not None:
        document["selection"] = {
            "table": plan.selection.table.digest,
            "part": asdict(plan.selection.part),
            "min_units": plan.selection.min_units,
            "shared": plan.selection.shared,
        }
    if plan.share is not None:
        document["share"] = _share_to_json(plan.share)
    if plan.listed is not None:
        document["groups"] = packed_keys(plan.listed)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def plan_from_bytes(body: bytes, tables: Mapping[str, bytes]) -> ReleasePlan:
    """The plan that `plan_to_bytes` wrote; `tables` holds the bytes of its noise tables by digest.

    Raises:
        ValueError: the bytes are of another format, or a table or the groups are missing or damaged.
    """
    document = json.loads(body)
    if document["format"] == 1:
        document = _from_first_format(document)
    if document["format"] != FORMAT:
        raise ValueError(f"a stored plan of format {document['format']}; this version reads {FORMAT}")
    spec = spec_from_canonical(json.dumps(document["spec"]))
    read = map(NoiseTable.from_bytes, tables.values())
    noise = {table.digest: table for table in read}  # by what it is, not by the name it came under
    queries = []
    for entry, levels in zip(spec.queries, document["queries"], strict=True):
        of_groups, *rolled = (tuple(_total_from_json(total, noise) for total in totals) for totals in levels)
        queries.append(PlannedQuery(entry.name, entry.kind, query_of(entry, spec), of_groups, tuple(rolled)))
    decision = NoiseDecision(**document["noise"])
    columns = tuple(map(_column_from_json, document["columns"]))
    share = _share_from_json(document.get("share"))
    listed = unpacked_keys(document["groups"]) if "groups" in document else None
    selection = _selection_from_json(document.get("selection"), noise)
    return ReleasePlan(spec, decision, tuple(queries), columns, share, listed, selection)


def _selection_from_json(
    stored: Mapping[str, Any] | None, noise: Mapping[str, NoiseTable]
) -> GroupSelection | None:
    if stored is None:
        return None
    if stored["table"] not in noise:
        raise ValueError(f"noise table {stored['table']} of the stored plan is missing")
    return GroupSelection(
        noise[stored["table"]], Part(**stored["part"]), stored["min_units"], stored["shared"]
    )


def _from_first_format(document: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as it was written before groupings, weights and bins: every total of one cell in one level."""

    def total(stored: Mapping[str, Any]) -> dict[str, Any]:
        measure = {"kind": stored["measure"], "of": stored["of"], "weight": None, "binning": None}
        return {**stored, "measure": {**measure, "merged": 1}}

    queries = [[[total(stored) for stored in totals]] for totals in document["queries"]]
    return {**document, "format": FORMAT, "queries": queries}


def _share_to_json(share: BudgetShare) -> dict[str, Any]:
    pairs = {"whole": share.whole, "each": share.each}
    texts = {name: [str(pair.epsilon), str(pair.delta)] for name, pair in pairs.items()}
    return {**texts, "horizon": share.horizon}


def _share_from_json(stored: Mapping[str, Any] | None) -> BudgetShare | None:
    if stored is None:
        return None
    whole, each = (PrivacyGuarantee(*map(Fraction, stored[name])) for name in ("whole", "each"))
    return BudgetShare(whole, stored["horizon"], each)


def _total_to_json(planned: PlannedTotal) -> dict[str, Any]:
    total = planned.total
    return {
        "name": total.name,
        "measure": _measure_to_json(total.measure),
        "step": str(total.step),
        "moves": [total.sensitivity, total.cells, total.in_all, total.overlap, total.bins],
        "form": planned.priced.form.value,
        "grid_steps": planned.grid_steps,
        "part": asdict(planned.priced.part),
        "epsilon_alone": planned.epsilon_alone,
        "table": planned.table.digest,
        "saturation": planned.saturation,
    }


def _total_from_json(stored: Mapping[str, Any], noise: Mapping[str, NoiseTable]) -> PlannedTotal:
    if stored["table"] not in noise:
        raise ValueError(f"noise table {stored['table']} of the stored plan is missing")
    return PlannedTotal(
        total=Total(
            stored["name"], _measure_from_json(stored["measure"]), Fraction(stored["step"]), *stored["moves"]
        ),
        priced=Priced(Form(stored["form"]), stored["grid_steps"], Part(**stored["part"])),
        epsilon_alone=stored["epsilon_alone"],
        table=noise[stored["table"]],
        saturation=stored["saturation"],
    )


def _measure_to_json(measure: Measure) -> dict[str, Any]:
    binning: dict[str, Any] | None = None
    match measure.binning:
        case Edges(column=column, edges=edges):
            binning = {"column": column, "edges": [str(edge) for edge in edges]}
        case Listed(column=column, values=values):
            binning = {"column": column, "values": list(values)}
    return {
        "kind": measure.kind.value,
        "of": _clamped_to_json(measure.of),
        "weight": _clamped_to_json(measure.weight),
        "binning": binning,
        "merged": measure.merged,
    }


def _measure_from_json(stored: Mapping[str, Any]) -> Measure:
    binning: Binning | None = None
    match stored["binning"]:
        case {"column": column, "edges": edges}:
            binning = Edges(column, tuple(map(Fraction, edges)))
        case {"column": column, "values": values}:
            binning = Listed(column, tuple(values))
    of, weight = (_clamped_from_json(stored[key]) for key in ("of", "weight"))
    return Measure(MeasureKind(stored["kind"]), of, weight, binning, stored["merged"])


def _clamped_to_json(of: ClampedColumn | None) -> dict[str, Any] | None:
    if of is None:
        return None
    return asdict(of) | {"lower": str(of.lower), "upper": str(of.upper), "step": str(of.step)}


def _clamped_from_json(stored: Mapping[str, Any] | None) -> ClampedColumn | None:
    if stored is None:
        return None
    exact = {key: Fraction(stored[key]) for key in ("lower", "upper", "step")}
    return ClampedColumn(**{**stored, **exact})


def _column_to_json(column: OutputColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type.value,
        "role": column.role.value,
        "comment": column.comment,
        "query": column.query,
        "answer": column.answer,
        "grid": None if column.grid is None else str(column.grid),
        "constant": column.constant,
        "decimals": column.decimals,
    }


def _column_from_json(stored: Mapping[str, Any]) -> OutputColumn:
    column = OutputColumn(
        **{**stored, "type": ColumnType(stored["type"]), "role": ColumnRole(stored["role"])}
    )
    return replace(column, grid=None if stored["grid"] is None else Fraction(stored["grid"]))
