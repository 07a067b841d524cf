"""What sinks hold of a wave: by the ledger's records, and where they tell of nothing, by a look."""

from collections.abc import Mapping
from dataclasses import dataclass

from dp_spark.errors import Refusal
from dp_spark.publish import Part, Reach, local_path, open_sink
from dp_spark.publish.survey_tables import WAVE
from dp_spark.release.ledger import StoredFile, WaveRecord
from dp_spark.release.spec import SinkSpec
from dp_spark.release.survey import survey_plan_from_bytes
from dp_spark.surveys.run import ESTIMATES, REPORTS, release_id_of

_PLAN = "the sinks of the wave's plan, which cannot be read"


@dataclass(frozen=True, slots=True)
class Copies:
    """Where tables of a wave are; a copy that is under way, or was made from another directory, is not here.

    Attributes:
        recorded: places that were given both tables.
        found: places of tables that a sink holds and no record tells of: whoever made them was killed.
        empty: places where such tables could be, and are not.
        unknown: places that could not be looked at.
    """

    recorded: tuple[str, ...]
    found: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def published(self) -> list[str]:
        """All places that are known to have something of the wave."""
        return sorted({*self.recorded, *self.found})


def placed(sink: SinkSpec, publications: Mapping[str, str]) -> SinkSpec:
    """The sink of a plan where it is for all directories: where it was recorded, or as seen from here.

    Raises:
        PublishRefused: its path is none that can serve.
    """
    if sink.path is None:
        return sink
    local = local_path(sink.path)
    here = sink.path if local is None else str(local)
    return sink.model_copy(update={"path": publications.get(sink.name, here)})


def copies_of(record: WaveRecord, reach: Reach) -> Copies:
    """Where tables of a wave are; nothing is refused: what cannot be looked at is not known."""
    recorded = tuple(sorted(record.publications.values()))
    tables = {REPORTS: record.counts, ESTIMATES: record.estimates}
    if record.estimates is None:  # both tables are copied together, after they are staged
        return Copies(recorded)
    try:
        sinks = survey_plan_from_bytes(record.plan_bytes).spec.publish
    except Refusal:
        return Copies(recorded, unknown=(_PLAN,))
    told: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for sink in sinks:
        if sink.name in record.publications:
            continue
        for name, staged in tables.items():
            assert staged is not None  # a wave with estimates has counts
            place, holds = _look(sink, name, staged, record, reach)
            told[holds].append(place)
    return Copies(recorded, *(tuple(told[holds]) for holds in (True, False, None)))


def _look(
    sink: SinkSpec, name: str, staged: StoredFile, record: WaveRecord, reach: Reach
) -> tuple[str, bool | None]:
    """The place of a table, and whether it is there; None where that cannot be known now."""
    table = sink.beside(name)
    part, wave = Part(WAVE, record.wave_id.wave), release_id_of(record.wave_id)
    try:
        table = placed(sink, record.publications).beside(name)
        return table.place, open_sink(table, reach).holds(part, wave, staged.digest)
    except Exception:  # noqa: BLE001 - a look that fails, however, must not hide the decision
        return table.place, None
