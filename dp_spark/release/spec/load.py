"""Specs from where they are kept: a file, a YAML text, the canonical JSON of a stored plan."""

import json
from pathlib import Path

from dp_spark.release.problems import Problem, refused
from dp_spark.release.reading import MAX_BYTES
from dp_spark.release.spec.release import ReleaseSpec
from dp_spark.release.spec.yaml_text import read_tree


def load_spec(path: Path | str) -> ReleaseSpec:
    """The spec in a YAML file.

    Raises:
        SpecRefused: there is no such file, or as `parse_spec`.
    """
    file, source = Path(path), f"spec {str(path)!r}"
    try:
        if not file.is_file():
            raise refused("spec_not_found", source, [Problem("is not a file", "check the path of the spec")])
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as failure:
        problem = Problem(f"cannot be read ({type(failure).__name__})", "check the path and its permissions")
        raise refused("spec_not_found", source, [problem]) from None
    cut = len(content) > MAX_BYTES  # perhaps within a character; `parse_spec` refuses it as too long
    try:
        text = content.decode(errors="replace" if cut else "strict")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        problem = Problem(f"line {line} is not UTF-8", "save the file as UTF-8")
        raise refused("spec_not_utf8", source, [problem]) from None
    return parse_spec(text, source=source)


def parse_spec(text: str, *, source: str = "spec") -> ReleaseSpec:
    """The spec that a YAML text writes.

    Raises:
        SpecRefused: names everything that is wrong, each with key, value, allowed range and way out.
    """
    return ReleaseSpec.read(read_tree(text, source=source), source=source)


def spec_from_canonical(text: str) -> ReleaseSpec:
    """The spec of which `canonical_json` is `text`.

    Raises:
        SpecRefused: it is not the canonical JSON of a spec.
    """
    source = "stored spec"
    try:
        tree = json.loads(text)
    except ValueError:
        problem = Problem("is not JSON", "the stored spec is damaged: restore it from a backup")
        raise refused("spec_not_canonical", source, [problem]) from None
    return ReleaseSpec.read(tree, source=source)
