"""Where the rows of a run are: the input of its spec, or a frame that somebody gives."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import InputRefused, PublishRefused, Refusal
from dp_spark.frames.session import pinned, require_one_machine
from dp_spark.frames.source_age import written_at
from dp_spark.frames.source_iceberg import Within
from dp_spark.frames.sources import open_source, source_version
from dp_spark.release.ledger import source_name
from dp_spark.release.profile import Connection
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import FrameInput, InputFormat, InputSpec

SparkSource = Callable[[], SparkSession]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one run.

    Attributes:
        input: of the spec.
        whose: the release or the survey, as messages name it.
        spark: gives the session; not asked where there is a frame, which has its own.
        frame: the rows themselves.
        one_machine: whether the ledger is a file, and Spark has to run on this machine alone.
        connections: of the profile, by name.
        version: of an input that has versions; None is the newest.
        within: the only rows that are asked for, where others can be left unread.

    Raises:
        InputRefused: at once, if they would be in both places; by `require`, if in neither.
    """

    input: InputSpec | FrameInput
    whose: str
    spark: SparkSource
    frame: DataFrame | None
    one_machine: bool
    connections: Mapping[str, Connection] = field(default_factory=dict)
    version: SourceVersion | None = None
    within: Within | None = None

    def __post_init__(self) -> None:
        if self.frame is not None and isinstance(self.input, InputSpec):
            raise InputRefused(
                "input_twice",
                f"the rows are to come from a frame and from input = {self.input.place!r}",
                way_out="leave out one of them",
            )

    def require(self) -> None:
        """Check that there are rows to read."""
        if self.frame is None and not isinstance(self.input, InputSpec):
            raise InputRefused(
                "input_missing",
                f"the spec of {self.whose} has no input, and no frame was given",
                way_out="add `input: {format: parquet, path: PATH}` to the spec, or give the rows as a "
                "frame, of a release in a notebook: Release.read(SPEC).run(spark, frame, key=KEY)",
            )

    def require_no_stream(self, frame: DataFrame) -> None:
        """Refuse rows that are still coming in."""
        if frame.isStreaming:
            raise InputRefused(
                "input_streams",
                "the frame is a stream, and its rows are to be read as they are at one time",
                way_out="write its rows to a table and give a frame of that",
            )

    def session(self) -> SparkSession:
        """The session that reads them.

        Raises:
            SetupRefused: the ledger is a file, and the session may run on other machines.
        """
        session = self.spark() if self.frame is None else self.frame.sparkSession
        if self.one_machine:
            # Only the session knows its master: under spark-submit the profile does not say.
            require_one_machine(session)
        return session

    def pinned(self) -> AbstractContextManager[None]:
        """Hold the settings of the session that the answer depends on."""
        return pinned(self.session(), frame_given=self.frame is not None)

    def opened(self, session: SparkSession) -> DataFrame:
        """The rows as a lazy frame."""
        if self.frame is not None:
            return self.frame
        assert isinstance(self.input, InputSpec)
        return open_source(
            session,
            self.input,
            connections=self.connections,
            version=self.version,
            within=self.within,
        )

    def at_newest(self) -> Self:
        """The rows of the version that the spec names, else of the newest: whatever is written meanwhile.

        Raises:
            InputRefused: there is no such table, or no such version of it.
        """
        if self.frame is not None or not isinstance(self.input, InputSpec):
            return self
        return replace(self, version=source_version(self.input, self.connections))

    def written_at(self) -> datetime | None:
        """When the newest rows of the input were written; None: never. See `source_age`."""
        assert isinstance(self.input, InputSpec)  # a spec that asks has an input
        return written_at(self.input, self.connections)

    def at(self, version: str | None) -> Self:
        """The rows of the version that the ledger has; None where they have no versions."""
        return replace(self, version=None if version is None else SourceVersion.parse(version))

    def on_spark(self, action: Callable[[], T]) -> T:
        """The action's result; a failure keeps its class and loses its text, which may quote a row."""
        try:
            with self.pinned():
                return action()
        except Refusal:
            raise
        except Exception as failure:  # noqa: BLE001  # whatever it is, its text stays here
            condition = getattr(failure, "getCondition", lambda: None)()
            raise InputRefused(
                "reading_failed",
                f"Spark failed while it read the input ({condition or type(failure).__name__}); "
                "its message is withheld, for it may quote rows",
                way_out="look at the cluster (memory, lost executors, files replaced while they were read; "
                "for PYTHON_EXCEPTION, whether PYSPARK_PYTHON names a Python that has dp_spark) and run "
                "again: the charge stands and is not taken twice",
            ) from None

    def source(self) -> str | None:
        """The input's name in the ledger; a frame has none."""
        return source_name(self.input.place) if isinstance(self.input, InputSpec) else None

    def private(self) -> frozenset[str]:
        """What holds them, as sources are named in the ledger."""
        source = self.source()
        return frozenset({*map(str, self.places()), *([] if source is None else [source])})

    def places(self) -> set[Path]:
        """Local directories that hold them; of a frame, as far as Spark tells."""
        if self.frame is None:
            if not isinstance(self.input, InputSpec):  # nobody has said where they are
                return set()
            path = self.input.path
            return set() if path is None else {Path(os.path.realpath(path.removeprefix("file:")))}
        return _directories(self.frame)

    def below(self) -> frozenset[str]:
        """Local directories that hold a table of Spark's catalog, also through a view; asks Spark."""
        if not isinstance(self.input, InputSpec) or self.input.format is not InputFormat.TABLE:
            return frozenset()
        return frozenset(map(str, _directories(self.opened(self.session()))))

    def require_apart(self, path: str, root: Path) -> None:
        """Refuse a sink whose `path`, that leads to `root`, lies within the rows or holds them.

        Raises:
            PublishRefused: it does.
        """
        if any(root.is_relative_to(source) or source.is_relative_to(root) for source in self.places()):
            read = self.input.place if isinstance(self.input, InputSpec) else "files of the frame"
            raise PublishRefused(
                "sink_in_input",
                f"publish path {path!r} and the input, {read!r}, lie within each other",
                way_out="publish to a directory of its own (a link between the two does not make it one)",
            )


def _directories(frame: DataFrame) -> set[Path]:
    """Local directories of the frame's files, as far as Spark tells."""
    try:
        names = frame.inputFiles()
    except Exception:  # noqa: BLE001  # a frame that cannot be looked at is refused with its columns
        return set()
    files = (Path(os.path.realpath(unquote(name[5:]))) for name in names if name.startswith("file:"))
    return {_above_partitions(file.parent) for file in files}


def _above_partitions(directory: Path) -> Path:
    """The directory, or the first above it that is not called COLUMN=VALUE."""
    return next(each for each in (directory, *directory.parents) if "=" not in each.name)
