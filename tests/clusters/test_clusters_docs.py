"""What docs/clusters.md tells to type: launcher and jobs know every option, and Spark every setting."""

import json
import re
import shlex
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from running import ROOT, Place, package_of, running

from dp_spark.release.profile import load_profile

PAGE = (ROOT / "docs" / "clusters.md").read_text()
PROGRAM = re.compile(r"[^-].*\.py")
SETTING = re.compile(r"(spark\.[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)=(\S+)")
SECRET = re.compile(r"key|password|token", re.IGNORECASE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> Iterator[list[str]]:
    """The words of each command line that starts a job, EMR's step among them."""
    for block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            if any(word.endswith(".py") for word in words):
                yield words
    for block in blocks("json"):
        for step in (each for each in json.loads(block) if isinstance(each, dict)):
            yield step["HadoopJarStep"]["Args"]


def parts(command: list[str]) -> tuple[list[str], str, list[str]]:
    """What the launcher is told, the job, and what the job is told."""
    at = next(i for i, word in enumerate(command) if PROGRAM.fullmatch(word))
    end = command.index("--") if "--" in command else at  # gcloud has options of its own behind the job
    return command[:at] + command[at + 1 : end], command[at], command[end + 1 :]


SUBMITTED = [command for command in commands() if command[0] == "spark-submit"]


def settings() -> Iterator[tuple[str, str]]:
    """Each setting of the lines, Databricks' and Dataproc's ways included."""
    for command in commands():
        told = parts(command)[0]
        given = [value for option, value in pairwise(told) if option == "--conf"]
        for word in told:
            given += word.removeprefix("--properties=").split(",") if word.startswith("--properties=") else []
        for setting in given:
            found = SETTING.fullmatch(setting)
            assert found, setting
            yield found[1], found[2]
    for block in blocks("toml"):
        yield from tomllib.loads(block).get("spark", {}).items()


def test_the_page_has_a_line_for_every_kind_of_cluster() -> None:
    masters = {told[told.index("--master") + 1].split(":")[0] for told in SUBMITTED if "--master" in told}
    assert masters == {"spark", "yarn", "k8s"}
    assert len(list(commands())) == 6


def test_spark_submit_knows_every_option(place: Place) -> None:
    with running([str(place.spark_home / "bin" / "spark-submit"), "--help"], place) as helping:
        known = set(re.findall(r"^ +(--[a-z-]+)", helping.wait().err, re.MULTILINE))
    used = {word for command in SUBMITTED for word in parts(command)[0] if word.startswith("--")}
    assert {"--archives", "--conf"} <= used <= known


@pytest.mark.parametrize("command", list(commands()), ids=lambda command: command[0])
def test_jobs_know_their_options(command: list[str]) -> None:
    _, job, told = parts(command)
    source = (ROOT / "jobs" / Path(job).name).read_text()
    known = set(re.findall(r'add_argument\("(--[a-z]+)"', source))
    assert {"--spec", "--key", "--profile"} <= {word for word in told if word.startswith("--")} <= known


def test_spark_knows_every_setting() -> None:
    """By the texts in its jars; after `driver.volumes.` and the like stand names that are the operator's."""
    jars = [
        jar
        for part in ("core", "launcher", "yarn", "kubernetes")
        for jar in (package_of(sys.executable) / "jars").glob(f"spark-{part}_*.jar")
    ]
    texts = b"".join(
        archive.read(name)
        for archive in map(zipfile.ZipFile, jars)
        for name in archive.namelist()
        if re.search(r"(config|Config|SparkLauncher|SparkSubmit|SparkConf)[^/]*\.class$", name)
        or "/config/" in name
    )

    def known(setting: str) -> bool:
        return any(text.encode() in texts for text in (setting, ".".join(setting.split(".")[:4]) + "."))

    names = {name for name, _ in settings()}
    assert len(names) > 8
    assert {name for name in names if not known(name)} == set()
    assert not known("spark.pyspark.pythons")


def test_no_line_holds_a_secret() -> None:
    """What is named so is a reference to where it is kept."""
    for name, value in settings():
        assert not SECRET.search(name) or (".secretKeyRef." in name and re.fullmatch(r"[\w-]+:[\w-]+", value))
    (job,) = (each for each in map(json.loads, blocks("json")) if isinstance(each, dict))
    variables = job["job_clusters"][0]["new_cluster"]["spark_env_vars"]
    assert all(re.fullmatch(r"\{\{secrets/\w+/\w+\}\}", value) for value in variables.values())


def test_the_profile_of_the_page_is_one(tmp_path: Path) -> None:
    file = tmp_path / "dp_spark.toml"
    file.write_text("".join(blocks("toml")))
    profile = load_profile(str(file), env={})
    assert profile.spark["spark.archives"].endswith("#env")
