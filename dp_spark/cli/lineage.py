"""What each run reads and writes, as OpenLineage events in the profile's `lineage` file.

An event holds names, cost and state, as the metrics line does, and no value of a row or group.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    dataset_version_dataset,
    job_type_job,
    nominal_time_run,
    parent_run,
    set_producer,
)
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.uuid import generate_new_uuid

from dp_spark.cli.guard import ERRORS
from dp_spark.errors import ExitCode
from dp_spark.release.ledger import utc_now
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, ReleaseSpec, SinkSpec, SurveySpec

NAMESPACE = "dp_spark"
PARENT_VARIABLE = "OPENLINEAGE_PARENT_ID"  # NAMESPACE/JOB/RUN, as schedulers hand it on
FACET = "dp_spark"
_READING = frozenset({"run", "privatize", "survey randomize"})
_WRITING = frozenset({"run", "publish", "survey estimate"})
_SCHEMES = {"postgresql": "postgres"}  # as OpenLineage names them
_SPARK_TABLES = "spark_catalog"

Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one run.

    Attributes:
        profile: says where they go, and what connections are.
        spec: of the release or survey.
        command: what runs.
        key: of the release's period, or the wave's name.
        run: its id, the same in all its events.
    """

    profile: Profile
    spec: ReleaseSpec | SurveySpec
    command: str
    key: str
    run: str

    @classmethod
    def begun(cls, profile: Profile, spec: ReleaseSpec | SurveySpec, command: str, key: str) -> "Trace":
        """The trace of a run that begins now, which is told."""
        trace = cls(profile, spec, command, key, str(generate_new_uuid()))
        trace._emit(RunState.START, {})
        return trace

    def ended(self, facts: Facts) -> None:
        """Tell how it ended: what its metrics line says."""
        ends = {ExitCode.OK: RunState.COMPLETE, ExitCode.INTERRUPTED: RunState.ABORT}
        code = ExitCode(int(str(facts["exit_code"])))
        self._emit(ends.get(code, RunState.FAIL), facts)

    def _emit(self, state: RunState, facts: Facts) -> None:
        """Append an event; a failure is only told."""
        assert self.profile.lineage is not None
        set_producer(f"dp-spark://{version('dp-spark')}")
        event = RunEvent(
            eventType=state,
            eventTime=utc_now().astimezone(UTC).isoformat(),
            producer=f"dp-spark://{version('dp-spark')}",
            run=Run(self.run, self._run_facets(facts)),
            job=Job(NAMESPACE, self._job, self._job_facets()),
            inputs=[InputDataset(*name) for name in self._inputs()],
            outputs=[OutputDataset(*name, facets=_versions(facts)) for name in self._outputs()],
        )
        try:
            self.profile.lineage.parent.mkdir(parents=True, exist_ok=True)
            if self.profile.lineage.exists() and not self.profile.lineage.is_file():
                raise OSError  # to open a pipe would wait for its reader
            FileTransport(FileConfig(str(self.profile.lineage), append=True)).emit(event)
        except (OSError, RuntimeError):
            text = f"warning: lineage cannot be written to {self.profile.lineage}; the run is not affected"
            ERRORS.print(text, markup=False, soft_wrap=True)

    @property
    def _job(self) -> str:
        named = self.spec.release if isinstance(self.spec, ReleaseSpec) else self.spec.survey
        return f"{self.spec.budget.population}/{named}.{self.command.replace(' ', '_')}"

    def _job_facets(self) -> dict[str, JobFacet]:
        kind = "RELEASE" if isinstance(self.spec, ReleaseSpec) else "SURVEY"
        return {"jobType": job_type_job.JobTypeJobFacet("BATCH", "DP_SPARK", kind)}

    def _run_facets(self, facts: Facts) -> dict[str, RunFacet]:
        found: dict[str, RunFacet] = {}
        if facts:
            own = {name: fact for name, fact in facts.items() if name not in {"format", "at", "command"}}
            found[FACET] = _open(RunFacet(), own)
        if isinstance(self.spec, ReleaseSpec):
            with suppress(ValueError):  # a key that is no day: the run is refused, and says so
                day = datetime.combine(date.fromisoformat(self.key), datetime.min.time())
                found["nominalTime"] = nominal_time_run.NominalTimeRunFacet(day.isoformat() + "Z")
        namespace, _, rest = os.environ.get(PARENT_VARIABLE, "").partition("/")
        job, _, run = rest.rpartition("/")
        if namespace and job:
            with suppress(ValueError):  # no id of a run: whoever set it is not told by a failed release
                found["parent"] = parent_run.ParentRunFacet(
                    parent_run.Run(run), parent_run.Job(namespace, job)
                )
        return found

    def _inputs(self) -> list[tuple[str, str]]:
        source = self.spec.input
        reads = self.command in _READING and isinstance(source, InputSpec)
        return [self._dataset(source)] if reads and isinstance(source, InputSpec) else []

    def _outputs(self) -> list[tuple[str, str]]:
        return [self._dataset(sink) for sink in self.spec.publish] if self.command in _WRITING else []

    def _dataset(self, place: InputSpec | SinkSpec) -> tuple[str, str]:
        """Namespace and name of a table, as OpenLineage's naming has them."""
        if place.path is not None:
            scheme, there, rest = place.path.partition("://")
            if not there:
                return "file", os.path.abspath(place.path)
            authority, _, name = rest.partition("/")
            authority = re.sub(r"^.*:.*@", "", authority)  # a key and its secret, which are no part of a name
            if scheme == "file":
                return "file", f"/{name}"
            return f"{scheme}://{authority}", re.sub(r"\?.*=.*$", "", name)  # nor is a signature
        connection = self.profile.connections.get(place.connection or "")
        if connection is None:
            return _SPARK_TABLES if place.connection is None else NAMESPACE, str(place.table)
        url = sa.make_url(connection.url)
        scheme = url.get_backend_name()
        at = f"://{url.host}:{url.port}" if url.port else f"://{url.host}" if url.host else ""
        return f"{_SCHEMES.get(scheme, scheme)}{at}", ".".join(filter(None, (url.database, place.table)))


def _versions(facts: Facts) -> dict[str, Any]:
    """What is published, by its digest."""
    digest = facts.get("digest")
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(str(digest))} if digest else {}


def _open(facet: RunFacet, facts: Facts) -> RunFacet:
    """A facet with fields of ours."""
    made: Any = facet.with_additional_properties(**facts)
    assert isinstance(made, RunFacet)
    return made
