"""Where a path of a spec leads: a local directory, or an object store."""

import os
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from dp_spark.errors import PublishRefused
from dp_spark.release.connecting import scheme_of


def local_path(root: Path | str) -> Path | None:
    """The local directory that `root` names, as a path or as a `file:` URL; None in an object store.

    Raises:
        PublishRefused: `root` is the root of the file system, or a file of another machine.
    """
    text = os.fspath(root)
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/(?!/).*)", text)
    scheme = scheme_of(root)
    if scheme and not local:
        if scheme.lower() != "file":
            return None
        raise PublishRefused(
            "sink_not_local",
            f"path = {text}: it names a file of another machine",
            way_out="give a directory of a local or mounted file system",
        )
    path = Path(os.path.realpath(local[1] if local else text))
    if not path.name:
        raise PublishRefused(
            "sink_is_root",
            f"path = {text}: the root of the file system has nothing beside it to prepare a copy in",
            way_out="give a directory below it",
        )
    return path


def located(root: str) -> str:
    """The absolute path that `root` leads to, or its URL in an object store.

    Raises:
        PublishRefused: as `local_path`.
    """
    path = local_path(root)
    return root if path is None else str(path)


def require_apart(paths: Sequence[str]) -> None:
    """Refuse paths of sinks that lead into each other from where we run: an absolute one, a link.

    Raises:
        PublishRefused: two do, or as `local_path`.
    """
    roots = [(path, root) for path in paths if (root := local_path(path)) is not None]
    for (one, at), (other, beside) in combinations(roots, 2):
        if at.is_relative_to(beside) or beside.is_relative_to(at):
            raise PublishRefused(
                "sinks_overlap",
                f"publish paths {one!r} and {other!r} are the same directory, or lie within each other",
                way_out="publish to directories of their own (a link does not make one)",
            )
