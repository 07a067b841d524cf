"""What each run leaves behind: a line in the profile's `metrics` file, events in its `lineage` file."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.progress import Step
from dp_spark.errors import ExitCode, Refusal
from dp_spark.release.connecting import require_extra
from dp_spark.release.ledger import Ledger, ReleaseId, ReleaseRecord, WaveId, utc_now
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec, SurveySpec

if TYPE_CHECKING:
    from dp_spark.cli.lineage import Trace

FORMAT = "dp_spark metrics 1"
Observer = Callable[[Step], None]
Outcome = dict[str, object]
_UNKNOWN: Outcome = {"state": None, "charge": None, "left": None}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run is about.

    Attributes:
        profile: says where lines and events go.
        spec: of the release or survey.
        key: of the period, or the wave's name.
        told: what the ledger has of it: id, state, what the run that began at a time charged, what is left;
            what it cannot be asked is None.
    """

    profile: Profile
    spec: ReleaseSpec | SurveySpec
    key: str
    told: Callable[[datetime], Outcome]


@dataclass(slots=True)
class _Clock:
    """The seconds of each step so far, in their order; a step that comes again adds to its own."""

    seconds: dict[str, float] = field(default_factory=dict)
    step: str | None = None
    since: float = field(default_factory=time.monotonic)

    def enter(self, step: str | None) -> None:
        """Note that a step begins, and the one before it ends."""
        now = time.monotonic()
        if self.step is not None:
            self.seconds[self.step] = self.seconds.get(self.step, 0.0) + now - self.since
        self.step, self.since = step or self.step, now


@contextmanager
def measured(observe: Observer, subject: Subject, command: str) -> Iterator[Observer]:
    """An observer that passes steps on; when the run is over, in whatever way, its line is written.

    Args:
        observe: is told each step too.
        subject: what the run is about; without `metrics` and `lineage` in its profile, nothing is written.
        command: what runs.

    Raises:
        SetupRefused: lineage is asked for, and OpenLineage's library is not installed.
    """
    profile = subject.profile
    if profile.metrics is None and profile.lineage is None:
        yield observe
        return
    trace = _trace(subject, command)
    clock, began, code, refusal = _Clock(), utc_now(), ExitCode.UNEXPECTED, None

    def passed_on(step: Step) -> None:
        clock.enter(str(step))
        observe(step)

    try:
        yield passed_on
        code = ExitCode.OK
    except Refusal as refused:
        code, refusal = refused.exit_code, refused.code
        raise
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
        raise
    finally:
        clock.enter(None)
        line = {
            "format": FORMAT,
            "at": began.astimezone(UTC).isoformat(timespec="milliseconds"),
            "command": command,
            **subject.told(began),
            "step": clock.step,
            "seconds": {step: round(each, 3) for step, each in clock.seconds.items()},
            "refusal": refusal,
            "exit_code": int(code),
        }
        if profile.metrics is not None:
            _append(profile.metrics, json.dumps(line) + "\n")
        if trace is not None:
            trace.ended(line)


def _trace(subject: Subject, command: str) -> "Trace | None":
    if subject.profile.lineage is None:
        return None
    require_extra("openlineage", "lineage")
    from dp_spark.cli.lineage import Trace  # noqa: PLC0415  # the library is an extra

    return Trace.begun(subject.profile, subject.spec, command, subject.key)


def of_release(profile: Profile, spec: ReleaseSpec, key: str, revise: str | None) -> Subject:
    """A run of a release."""

    def told(began: datetime) -> Outcome:
        asked: Outcome = {"release": f"{spec.budget.population}/{spec.release}/{key}", **_UNKNOWN}
        try:
            ledger = open_ledger(profile)
            record = _record(ledger, ReleaseId(spec.budget.population, spec.release, key), revise)
            left = ledger.budget(spec.budget.population).left
        except Refusal:  # it has been told, or was no fault of the run
            return asked
        asked["left"] = _pair(left.epsilon, left.delta)
        if record is not None:
            is_new = record.reserved_at >= began
            asked |= {"release": str(record.release_id), "state": record.state.value}
            asked["charge"] = _pair(record.charge.epsilon, record.charge.delta) if is_new else None
            asked["guarantee"] = _pair(record.charge.epsilon, record.charge.delta)
            asked["digest"] = record.artefact.digest if record.artefact else None
        return asked

    return Subject(profile, spec, key, told)


def of_wave(profile: Profile, spec: SurveySpec, wave: str) -> Subject:
    """A run of a step of a wave."""

    def told(began: datetime) -> Outcome:
        population, survey = spec.budget.population, spec.survey
        asked: Outcome = {"wave": f"{population}/{survey}/{wave}", **_UNKNOWN}
        try:
            ledger = open_ledger(profile)
            record, account = (
                ledger.wave(WaveId(population, survey, wave)),
                ledger.survey_account(population, survey),
            )
        except Refusal:
            return asked
        asked["left"] = _pair(account.limit - account.spent, 0)
        if record is not None:
            is_new = datetime.fromisoformat(record.opened_at) >= began
            asked |= {"state": record.state.value, "charge": _pair(record.epsilon, 0) if is_new else None}
            asked["guarantee"] = _pair(record.epsilon, 0)
        return asked

    return Subject(profile, spec, wave, told)


def _record(ledger: Ledger, first: ReleaseId, revise: str | None) -> ReleaseRecord | None:
    return ledger.find(
        ledger.current_revision(first) if revise is None else ledger.revision_for(first, revise)
    )


def _pair(epsilon: object, delta: object) -> dict[str, str]:
    return {"epsilon": str(epsilon), "delta": str(delta)}


def _append(path: Path, line: str) -> None:
    """Add the line by one write, so that lines of two runs do not mix; a failure is only told."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o640)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as failure:
        text = f"warning: metrics cannot be written to {path} ({failure.strerror}); the run is not affected"
        ERRORS.print(text, markup=False, soft_wrap=True)
