"""A release in a session that somebody else has started."""

from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import InputRefused, SetupRefused
from dp_spark.frames.session import refuse_unknown_engine, silence_cell_printing_loggers
from dp_spark.pipeline import Observer, run_release
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec
from dp_spark.report import RunResult


def run_in_session(
    spec: ReleaseSpec,
    key: str,
    *,
    spark: SparkSession,
    frame: DataFrame | None,
    profile: Profile,
    revise: str | None,
    observe: Observer,
) -> RunResult:
    """Run a release, in the frame's session if there is a frame; its settings are the same afterwards.

    Its log level stays as it is: it belongs to whoever has started it.

    Raises:
        SetupRefused: the session's engine is unknown.
        Refusal: as `run_release`.
    """
    _require_kinds(spark, frame)
    session = spark if frame is None else frame.sparkSession
    refuse_unknown_engine(session)
    silence_cell_printing_loggers()
    return run_release(
        spec,
        key,
        profile=profile,
        spark=lambda: session,
        frame=frame,
        revise=revise,
        observe=observe,
    )


def _require_kinds(spark: object, frame: object) -> None:
    """Classic Spark and Spark Connect have classes of their own, so that both are known by what they do."""
    if not hasattr(spark, "createDataFrame"):
        raise SetupRefused(
            "no_session",
            f"spark is a {type(spark).__name__}, not a Spark session",
            way_out="write run(spark, df, key=...)",
        )
    if frame is not None and not hasattr(frame, "mapInArrow"):
        raise InputRefused(
            "no_frame",
            f"df is a {type(frame).__name__} of {type(frame).__module__}, not a frame of Spark",
            way_out="make one: spark.createDataFrame(df)",
        )
