"""Who may import whom, where Spark actions may stand, and what may occur nowhere in the package."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dp_spark"

# A room may import itself and these. Outer rooms know inner ones, never the other way round.
SHARED = {"errors", "guarantee", "rationals"}
INNER = {"noise", "queries", "uldp", *SHARED}
RELEASE = {"release", *INNER}
ROOMS = {
    "errors": set[str](),
    "guarantee": set[str](),
    "rationals": {"errors"},
    "noise": SHARED,
    "queries": SHARED,
    "uldp": SHARED,
    "release": INNER,
    "frames": RELEASE,
    "checks": {"publish", *RELEASE},  # the staged artefact, which they look at, is defined there
    "publish": RELEASE,
    "report": RELEASE,
    "pipeline": {"frames", "checks", "publish", "report", *RELEASE},
    "surveys": {"frames", "checks", "publish", "report", *RELEASE},
    "notebook": {"pipeline", "frames", "report", *RELEASE},
    "cli": {"pipeline", "surveys", "frames", "checks", "report", *RELEASE},
    "__init__": set[str](),
}
NUMBERS_ONLY = {"pyspark", "pandas", "pydantic", "pyarrow", "sqlalchemy", "pathlib", "os", "time", "datetime"}
FORBIDDEN = {
    **dict.fromkeys(("noise", "queries", "uldp"), NUMBERS_ONLY),
    "release": {"pyspark", "pandas", "pyarrow"},
}
# A list of public groups is a file of an operator, and no row: what `release` reads with Arrow.
READS_FILES = {f"release/{name}.py": {"pyarrow"} for name in ("listing", "list_files")}
SPARK_ROOMS = {"frames", "pipeline", "surveys", "notebook", "cli"}

# Methods that make Spark run, and the only functions that may call them.
ACTIONS = {
    "collect", "toPandas", "toArrow", "count", "first", "head", "take", "show", "foreach", "foreachPartition",
    "toLocalIterator", "isEmpty", "save", "saveAsTable", "insertInto", "write", "writeTo", "cache", "persist",
    "checkpoint", "localCheckpoint", "tail",
}  # fmt: skip
ALLOWED_ACTIONS = {
    ("frames/collect.py", "to_arrow"),
    ("frames/spark_table.py", "replace"),
    ("frames/spark_table.py", "_told"),
    ("frames/stored_reports.py", "write_reports"),
}
# Randomness that is not keyed, and names that Spark Connect lacks.
BANNED_NAMES = {
    "rand", "randn", "sample", "sampleBy", "uuid4", "monotonically_increasing_id", "default_rng", "rdd",
    "sparkContext", "_jdf", "_jvm", "randomSplit", "shuffle",
}  # fmt: skip
BANNED_MODULES = {"random", "uuid", "numpy.random"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_rooms(path: Path) -> set[str]:
    names = (name.split(".") for name in imported(path) if name.startswith("dp_spark."))
    return {parts[1] for parts in names if parts[1] != "__version__"} - {room_of(path)}


def of_library(called: ast.Attribute) -> bool:
    """Whether it is a function of NumPy, of Arrow or of Spark's expressions, and no method of a frame."""
    return isinstance(called.value, ast.Name) and called.value.id in {"np", "F", "pc"}


def actions(path: Path) -> Iterator[tuple[str, str]]:
    """(function, method) of every call of a name in ACTIONS in a file of the frames."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr in ACTIONS and not of_library(called):
                    yield function.name, called.attr


def test_every_module_lies_in_a_room_of_the_map() -> None:
    assert {room_of(path) for path in modules()} == set(ROOMS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_inner_rooms_only(path: Path) -> None:
    assert own_rooms(path) <= ROOMS[room_of(path)]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_inner_rooms_know_no_frames_files_or_clocks(path: Path) -> None:
    top_level = {name.split(".")[0] for name in imported(path)}
    allowed = READS_FILES.get(str(path.relative_to(PACKAGE)), set())
    assert not top_level & FORBIDDEN.get(room_of(path), set()) - allowed
    assert room_of(path) in SPARK_ROOMS or "pyspark" not in top_level


@pytest.mark.parametrize("path", sorted((PACKAGE / "frames").glob("*.py")), ids=lambda path: path.name)
def test_spark_actions_stand_in_named_places(path: Path) -> None:
    found = {(str(path.relative_to(PACKAGE)), function) for function, _ in actions(path)}
    assert found <= ALLOWED_ACTIONS


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_unkeyed_randomness_and_nothing_that_connect_lacks(path: Path) -> None:
    names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not names & BANNED_NAMES
    assert not set(imported(path)) & BANNED_MODULES


def test_jobs_only_parse_and_call() -> None:
    for path in (ROOT / "jobs").glob("*.py"):
        assert own_names(path) <= {"dp_spark.cli", "dp_spark.pipeline"}


@pytest.mark.parametrize("path", sorted((ROOT / "airflow_dags").rglob("*.py")), ids=lambda path: path.name)
def test_dags_know_airflow_and_nothing_of_spark_or_of_the_package(path: Path) -> None:
    """They are read in an environment that has neither."""
    top_level = {name.split(".")[0] for name in imported(path)}
    assert top_level <= {"airflow", "openlineage", "dp_spark_dags", "yaml", *sys.stdlib_module_names}


def own_names(path: Path) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in imported(path) if name.startswith("dp_spark")}


def test_the_walk_would_notice(tmp_path: Path) -> None:
    guilty = tmp_path / "guilty.py"
    guilty.write_text(
        "import random\nfrom dp_spark.frames import bound\ndef f(df):\n    return df.collect()\n"
    )
    assert "random" in set(imported(guilty))
    assert list(actions(guilty)) == [("f", "collect")]
    assert "dp_spark.frames" in own_names(guilty)


def imports(code: str, *modules: str) -> bool:
    """Whether a fresh interpreter that runs the code has loaded one of the modules."""
    import subprocess

    told = f"{code}; import sys; print(bool({set(modules)} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def test_the_package_imports_without_spark_or_great_expectations() -> None:
    code = "import dp_spark, dp_spark.release.planner, dp_spark.cli.main"
    assert not imports(code, "pyspark", "great_expectations")


def test_the_package_alone_imports_next_to_nothing() -> None:
    assert not imports("import dp_spark", "pyspark", "pandas", "numpy", "pydantic")
    assert imports("import dp_spark; dp_spark.Release", "pydantic")


def test_what_runs_in_workers_loads_no_plan() -> None:
    """Some 40 MB for each of them, and the time to read it."""
    names = ("packing", "survey_reports", "numbering", "iceberg_tasks")
    worked = f"import {', '.join(f'dp_spark.frames.{name}' for name in names)}"
    assert not imports(worked, "pyspark", "pydantic", "dp_spark.release")
    decoding = "import dp_spark.frames.group_shares, dp_spark.uldp.block_mechanism"
    assert not imports(decoding, "pyspark", "pandas", "pydantic", "sqlalchemy", "dp_spark.release")


def test_a_release_is_said_and_planned_without_spark() -> None:
    assert not imports("from dp_spark import Release; Release.named('visits')", "pyspark", "pandas")
