"""What the Python of Spark's workers must have, looked at before anything is charged."""

import sys
from collections.abc import Callable, Iterator
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession

from dp_spark import __version__
from dp_spark.errors import SetupRefused
from dp_spark.frames.collect import to_arrow

_THEIRS = ("dp_spark.frames.packing", "dp_spark.frames.partition")  # what they import for a release
_fit: WeakSet[SparkSession] = WeakSet()


def require_workers(session: SparkSession) -> None:
    """Check, once for each session, that a worker can run what the driver sends it.

    One whose Python lacks a library would fail in the middle of a release that is paid for; one that has
    another dp_spark might draw otherwise.

    Raises:
        SetupRefused: it cannot.
    """
    if session in _fit:
        return
    own = {"dp_spark": __version__, "pyarrow": pa.__version__}  # pyarrow has the Unicode tables of NFC
    schema = ", ".join(f"{name} string" for name in ("missing", *own))
    looked = session.range(1).repartition(1).mapInArrow(_looking(_THEIRS), schema)
    try:
        (found,) = to_arrow(looked).to_pylist()
    except Exception as failure:  # noqa: BLE001  # no pyarrow, another Python, none at all: it says which
        raise _refused(f"run no function of ours ({type(failure).__name__})") from None
    if missing := found.pop("missing"):
        raise _refused(f"cannot import {missing}")
    for name, version in found.items():
        if version != own[name]:
            raise _refused(f"have {name} {version}, the driver has {own[name]}")
    _fit.add(session)


def _refused(trouble: str) -> SetupRefused:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return SetupRefused(
        "workers_python",
        f"Spark's Python workers {trouble}; nothing was charged",
        way_out=f"give them Python {python} with this dp_spark and its libraries: spark.pyspark.python names "
        "it, and spark.archives may bring it (docs/clusters.md)",
    )


def _looking(modules: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that travels whole: the module it is written in may not be there."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        for batch in batches:
            if batch.num_rows:
                try:
                    for name in modules:
                        importlib.import_module(name)
                    theirs = ["", importlib.import_module("dp_spark").__version__, pa.__version__]
                except ImportError as failure:
                    theirs = [failure.name or "a library", "", ""]
                columns = [pa.array([each]) for each in theirs]
                yield pa.RecordBatch.from_arrays(columns, names=["missing", "dp_spark", "pyarrow"])

    return look
