"""Specs from where they are kept: a file, a YAML text, the canonical JSON of a stored plan."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from dp_spark.release.problems import Problem, refused
from dp_spark.release.reading import MAX_BYTES
from dp_spark.release.spec.release import ReleaseSpec
from dp_spark.release.spec.survey import SurveySpec
from dp_spark.release.spec.yaml_text import read_tree

_Spec = TypeVar("_Spec", ReleaseSpec, SurveySpec)


def load_spec(path: Path | str) -> ReleaseSpec:
    """The spec of a release in a YAML file.

    Raises:
        SpecRefused: there is no such file, or as `parse_spec`.
    """
    return parse_spec(_text(path), source=_source(path))


def load_survey(path: Path | str) -> SurveySpec:
    """The spec of a survey in a YAML file.

    Raises:
        SpecRefused: there is no such file, or as `parse_survey`.
    """
    return parse_survey(_text(path), source=_source(path))


def parse_spec(text: str, *, source: str = "spec") -> ReleaseSpec:
    """The spec of a release that a YAML text writes.

    Raises:
        SpecRefused: it is that of a survey, or names everything that is wrong, each with key, value, allowed
            range and way out.
    """
    return _read(ReleaseSpec, read_tree(text, source=source), source)


def parse_survey(text: str, *, source: str = "spec") -> SurveySpec:
    """The spec of a survey that a YAML text writes.

    Raises:
        SpecRefused: it is that of a release, or as `parse_spec`.
    """
    return _read(SurveySpec, read_tree(text, source=source), source)


def spec_from_canonical(text: str) -> ReleaseSpec:
    """The spec of which `canonical_json` is `text`.

    Raises:
        SpecRefused: it is not the canonical JSON of a release's spec.
    """
    return ReleaseSpec.read(_tree(text), source=_STORED)


def survey_from_canonical(text: str) -> SurveySpec:
    """The survey of which `canonical_json` is `text`.

    Raises:
        SpecRefused: it is not the canonical JSON of a survey's spec.
    """
    return SurveySpec.read(_tree(text), source=_STORED)


_STORED = "stored spec"


def _source(path: Path | str) -> str:
    return f"spec {str(path)!r}"


def _text(path: Path | str) -> str:
    file, source = Path(path), _source(path)
    try:
        if not file.is_file():
            raise refused("spec_not_found", source, [Problem("is not a file", "check the path of the spec")])
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as failure:
        problem = Problem(f"cannot be read ({type(failure).__name__})", "check the path and its permissions")
        raise refused("spec_not_found", source, [problem]) from None
    cut = len(content) > MAX_BYTES  # perhaps within a character; `read_tree` refuses it as too long
    try:
        return content.decode(errors="replace" if cut else "strict")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        problem = Problem(f"line {line} is not UTF-8", "save the file as UTF-8")
        raise refused("spec_not_utf8", source, [problem]) from None


def _read(model: type[_Spec], tree: Mapping[str, object], source: str) -> _Spec:
    """The spec that the tree holds, if it is of that kind."""
    if "survey" in tree and "release" not in tree and model is ReleaseSpec:
        way_out = "give it to `dp-spark survey`, or give the spec of a release"
        raise refused(
            "spec_is_survey", source, [Problem("is the spec of a survey, not of a release", way_out)]
        )
    if "release" in tree and "survey" not in tree and model is SurveySpec:
        way_out = "give it to `dp-spark plan` or `dp-spark run`, or give the spec of a survey"
        raise refused(
            "spec_is_release", source, [Problem("is the spec of a release, not of a survey", way_out)]
        )
    return model.read(tree, source=source)


def _tree(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        problem = Problem("is not JSON", "the stored spec is damaged: restore it from a backup")
        raise refused("spec_not_canonical", _STORED, [problem]) from None
