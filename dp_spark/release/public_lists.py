"""What is declared public must not be read from what is private: keys found in rows betray their units.

A copy of private rows elsewhere cannot be recognised; nobody but the operator knows where a list is from.
"""

from collections.abc import Iterable
from pathlib import PurePath
from urllib.parse import unquote

from dp_spark.errors import InputRefused
from dp_spark.release.ledger import source_name


def require_public_path(path: str, private: Iterable[str], *, told: str) -> None:
    """Check that no private source is the file, holds it, or lies within it; links are followed.

    Args:
        path: local, or a URL.
        private: the input of the release and the sources of all populations, as `source_name` names them.
        told: what the path is, in the words of the spec.

    Raises:
        InputRefused: one does.
    """
    asked, known = PurePath(source_name(path)), tuple(private)
    within = (source for source in known if PurePath(source).is_relative_to(asked))
    source = _source_of([path], known) or next(within, None)
    if source is not None:
        raise _refused(told, source)


def require_public_table(table: str, files: Iterable[str], private: Iterable[str]) -> None:
    """Check that a table of the catalog is no private source, and reads none, be it through views.

    `files` are the URLs of the files that Spark reads for it.

    Raises:
        InputRefused: it does.
    """
    known, name = tuple(private), table.replace("`", "")
    names = {name, source_name(name), source_name(f"table:{name}")}
    named = next((source for source in known if source in names), None)
    source = named or _source_of(map(unquote, files), known)
    if source is not None:
        raise _refused(f"public_table {table!r}", source)


def _source_of(paths: Iterable[str], private: Iterable[str]) -> str | None:
    """A private source that one of the paths is, or lies within."""
    asked = map(PurePath, map(source_name, paths))
    holding = {each for path in asked for each in (path, *path.parents)}
    return next((source for source in private if PurePath(source) in holding), None)


def _refused(told: str, source: str) -> InputRefused:
    return InputRefused(
        "groups_from_private_source",
        f"{told} is read from {source!r}, whose rows are private: which groups have rows is what a release "
        "protects, and no list of them is public",
        way_out="name a list that is kept apart from the rows and is known without them, or let the release "
        "select its groups: groups: {private: {select: optimal}}",
    )
