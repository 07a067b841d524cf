"""Where a path of a spec leads: a local directory, or an object store."""

import os
import re
from pathlib import Path

from dp_spark.errors import PublishRefused


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


def scheme_of(root: Path | str) -> str | None:
    """The scheme of a URL; None of a path. A URL that was a `Path` has lost one of its slashes."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", os.fspath(root))
    return scheme[1] if scheme else None


def located(root: str) -> str:
    """The absolute path that `root` leads to, or its URL in an object store.

    Raises:
        PublishRefused: as `local_path`.
    """
    path = local_path(root)
    return root if path is None else str(path)
