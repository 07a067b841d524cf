"""Refusals of an input: what is told of a failure, whose own text may quote a row or a password."""

from dp_spark.errors import InputRefused
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import InputSpec


def not_readable(source: InputSpec, why: str, way_out: str) -> InputRefused:
    """The refusal of an input that cannot be opened as what it is said to be."""
    at = f"input.path = {source.path!r}" if source.path is not None else f"input {source.place!r}"
    return InputRefused(
        "input_not_readable", f"{at} cannot be opened as {source.format}: {why}", way_out=way_out
    )


def not_supported(source: InputSpec, why: str, way_out: str) -> InputRefused:
    """The refusal of a table that has something which would be read wrong."""
    return InputRefused(
        "input_not_supported", f"input {source.place!r} cannot be read rightly here: {why}", way_out=way_out
    )


def version_gone(source: InputSpec, version: SourceVersion | int) -> InputRefused:
    """The refusal of a version that the table has no more; a release that was reserved with it is stuck."""
    number = version if isinstance(version, int) else version.number
    return InputRefused(
        "version_gone",
        f"input {source.place!r} does not have version {number} any more",
        way_out="before the charge: name another input.version, or none. After it, the charge stands: put "
        "back the version (its files and its log), or `dp-spark release abandon` the release and run the "
        "period with --revise REASON, which reads the newest version at a charge of its own",
    )


def condition_of(failure: Exception) -> str:
    """What Spark calls a failure, or else its class; never its text."""
    read = getattr(failure, "getCondition", None) or getattr(failure, "getErrorClass", None)
    condition = read() if read is not None else None
    if condition is None and "Illegal Parquet type" in str(failure):  # pyspark 3.5 has no class for it
        return "PARQUET_TYPE_ILLEGAL"
    return condition if isinstance(condition, str) else type(failure).__name__
