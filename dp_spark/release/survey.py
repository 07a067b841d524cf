"""The plan of a wave: everything that its runs need, with nothing left to decide."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_spark.errors import LedgerRefused, PlanRefused, Refusal
from dp_spark.release.group_keys import Keys, packed_keys, unpacked_keys
from dp_spark.release.ledger import WaveRecord, source_name
from dp_spark.release.spec import InputSpec, SurveySpec, canonical_document, survey_from_canonical
from dp_spark.release.stored_mechanism import mechanism_from_json, mechanism_to_json
from dp_spark.release.stored_spec import domain_from_json, domain_to_json, told_spec_changes
from dp_spark.release.survey_lists import survey_domain, survey_groups, survey_weights
from dp_spark.uldp import Domain, Mechanism, MechanismName, efficiency, mechanism
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.choice import best_designs

FORMAT = 1
# Of groups and categories together: Spark broadcasts a function of a megabyte through files.
MOST_TEXTS, MOST_CHARACTERS, MOST_CELLS = 10_000, 200_000, 20_000


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """A spec with what was resolved at the wave's opening.

    Attributes:
        spec: as it was written.
        domain: categories, which of them are sensitive, their codes.
        mechanism: the randomizer, its designs fixed.
        efficiency: of its designs against the limit, at the hardest truth.
        groups: public keys in code point order, (()) of the one key () for a spec without groups.
        weights: of each group, public and above 0; None where groups count by their reports.
        source: the input's name in the ledger, wherever the commands are run from; None of a frame.
    """

    spec: SurveySpec
    domain: Domain
    mechanism: Mechanism
    efficiency: float
    groups: Keys
    weights: tuple[Fraction, ...] | None
    source: str | None = None


def plan_survey(spec: SurveySpec, *, private: Iterable[str] = ()) -> SurveyPlan:
    """The plan of a wave; the same spec and lists always give the same plan.

    `private` are the sources that no list may be read from, by their names in the ledger; the input of the
    spec is one of them.

    Raises:
        InputRefused: a list is private, cannot be read, or says what it may not.
        PlanRefused: the mechanism cannot be made for so many categories.
    """
    source = source_name(spec.input.place) if isinstance(spec.input, InputSpec) else None
    known = frozenset(private) | (frozenset() if source is None else {source})
    domain, groups = survey_domain(spec, known), survey_groups(spec, known)
    _require_small(spec, domain, groups)
    made = mechanism(spec.mechanism, domain.n_categories, domain.n_sensitive, spec.epsilon)
    return SurveyPlan(
        spec=spec,
        domain=domain,
        mechanism=made,
        efficiency=_efficiency(made),
        groups=groups,
        weights=survey_weights(spec, groups),
        source=source,
    )


def _require_small(spec: SurveySpec, domain: Domain, groups: Keys) -> None:
    """Refuse so many texts or cells that Spark would keep functions with them, and keys, in files."""
    texts = [text for key in groups for text in key] + [text for each in domain.categories for text in each]
    cells = domain.n_categories
    if len(texts) > MOST_TEXTS or sum(map(len, texts)) > MOST_CHARACTERS or cells > MOST_CELLS:
        raise PlanRefused(
            "survey_too_large",
            f"survey {spec.survey} has {len(texts):,} texts of groups and categories with "
            f"{sum(map(len, texts)):,} characters, and {cells:,} cells (allowed: {MOST_TEXTS:,} with "
            f"{MOST_CHARACTERS:,}, and {MOST_CELLS:,})",
            way_out="ask with fewer groups or categories: with more, Spark writes the functions of its "
            "workers, which hold keys, to local files",
        )


def _efficiency(made: Mechanism) -> float:
    """The limit over the error; what uSS reports beside an answer says no more than the answer."""
    if made.name is MechanismName.UBD:
        return best_designs(made.n_categories, made.n_sensitive, made.epsilon).efficiency.value
    assert isinstance(made, BlockMechanism)  # a spec names no other
    return efficiency(made.n_categories, made.sampler.components, made.epsilon).value


def require_spec_of(record: WaveRecord, spec: SurveySpec) -> None:
    """Check that a wave was opened with this spec.

    Raises:
        LedgerRefused: with another one; says what differs.
    """
    if record.spec_digest != spec.digest:
        told = told_spec_changes(record.plan_bytes, canonical_document(spec))
        raise LedgerRefused(
            "wave_of_another_spec",
            f"wave {record.wave_id} was opened with another spec, and a wave has one question, one set of "
            f"categories, one epsilon{told}",
            way_out="run it with the spec that opened it, or open another wave with this one",
        )


def survey_plan_to_bytes(plan: SurveyPlan) -> bytes:
    """The plan as canonical JSON, under its own digest."""
    body = {
        "spec": json.loads(plan.spec.canonical_json()),
        "domain": domain_to_json(plan.domain),
        "mechanism": mechanism_to_json(plan.mechanism),
        "efficiency": plan.efficiency,
        "groups": packed_keys(plan.groups),
        "weights": None if plan.weights is None else [str(weight) for weight in plan.weights],
        "source": plan.source,
    }
    return _canonical({"format": FORMAT, "sha256": _digest(body), "plan": body})


def survey_plan_from_bytes(body: bytes) -> SurveyPlan:
    """The plan that `survey_plan_to_bytes` wrote, whatever this version would plan today.

    Raises:
        LedgerRefused: the bytes are damaged, or of another format.
    """
    try:
        document = json.loads(body)
        if document["format"] != FORMAT:
            raise _refused(f"has format {document['format']!r}; this version reads {FORMAT}")
        stored = document["plan"]
        if document["sha256"] != _digest(stored):
            raise _refused("does not have the digest that it states")
        return _plan_from_json(stored)
    except LedgerRefused:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error, Refusal) as failure:
        raise _refused(f"cannot be read ({type(failure).__name__})") from None


def _plan_from_json(stored: Mapping[str, Any]) -> SurveyPlan:
    weights = stored["weights"]
    return SurveyPlan(
        spec=survey_from_canonical(json.dumps(stored["spec"])),
        domain=domain_from_json(stored["domain"]),
        mechanism=mechanism_from_json(stored["mechanism"]),
        efficiency=float(stored["efficiency"]),
        groups=unpacked_keys(stored["groups"]),
        weights=None if weights is None else tuple(map(Fraction, weights)),
        source=stored.get("source"),
    )


def _digest(body: object) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _refused(why: str) -> LedgerRefused:
    return LedgerRefused(
        "survey_plan_damaged",
        f"the stored plan of the wave {why}",
        way_out="restore the ledger from a backup, or run the version of dp_spark that opened the wave",
    )
