"""Secrets by reference: a private file, a variable of the environment, or what a command prints."""

import os
import re
import shlex
import stat
import subprocess
from enum import StrEnum
from pathlib import Path

from dp_spark.errors import SetupRefused

FORMS = "file:PATH, env:NAME or command:PROGRAM ARGUMENTS"
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 4096
_PATIENCE_SECONDS = 30


class Source(StrEnum):
    """Where a reference leads."""

    FILE = "file"
    ENV = "env"
    COMMAND = "command"


def parse_reference(text: str) -> tuple[Source, str] | None:
    """Source and place of a reference; None for any other text, which may be the secret itself."""
    kind, _, place = text.partition(":")
    if kind not in set(Source) or not place.strip():
        return None
    if kind == Source.ENV and not _NAME.fullmatch(place):
        return None
    return Source(kind), place


def read_secret(what: str, reference: str) -> str:
    """The text that a reference leads to, without blanks around it.

    Args:
        what: what the secret is, for a refusal, such as `master key`.
        reference: in one of `FORMS`.

    Raises:
        SetupRefused: it leads nowhere, or to a file that others than its owner can open. The text of the
            refusal never quotes what was found.
    """
    parsed = parse_reference(reference)
    if parsed is None:
        raise refused_secret(what, f"the reference to the {what} has no known form", f"write {FORMS}")
    source, place = parsed
    readers = {Source.FILE: _of_file, Source.ENV: _of_variable, Source.COMMAND: _of_command}
    return readers[source](what, place).strip()


def refused_secret(what: str, message: str, way_out: str) -> SetupRefused:
    """The refusal of a secret; its code is the name of what was asked for."""
    return SetupRefused(what.replace(" ", "_"), message, way_out=way_out)


def _of_file(what: str, place: str) -> str:
    try:
        with Path(place).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no path"
        raise refused_secret(
            what,
            f"the {what} file {place!r} cannot be read: {reason}",
            "name the right file; `dp-spark ledger init` makes a new master key for a new ledger",
        ) from None
    if mode & 0o077:
        message = f"the {what} file {place!r} has mode {mode:03o} and must be its owner's alone"
        raise refused_secret(what, message, f"chmod 600 {place!r}")
    return content.decode("utf-8", errors="replace")


def _of_variable(what: str, name: str) -> str:
    text = os.environ.get(name)
    if text is None:
        raise refused_secret(what, f"the environment variable {name} is not set", f"put the {what} in {name}")
    return text


def _of_command(what: str, line: str) -> str:
    way_out = f"name a program that prints the {what} and nothing else; it runs without a shell"
    try:
        # What it says on standard error is its own affair: it may quote the secret.
        done = subprocess.run(  # noqa: S603  # the platform team wrote the line
            shlex.split(line),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_SECONDS,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        message = f"the command for the {what} failed ({type(error).__name__})"
        raise refused_secret(what, message, way_out) from None
    if len(done.stdout) > _MOST_BYTES:
        raise refused_secret(what, f"the command for the {what} prints too much", way_out)
    return done.stdout.decode("utf-8", errors="replace")
