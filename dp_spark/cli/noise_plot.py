"""`noise plot`: pictures of what the noise families cost, as files."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dp_spark.cli.guard import ERRORS
from dp_spark.errors import SetupRefused, SpecRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.problems import Wrong, nearest, refused, shown
from dp_spark.release.reading import exact_number
from dp_spark.report.noise_curves import Track
from dp_spark.report.noise_pictures import PictureName, picture, write_picture

FILE_PREFIX = "noise_"

Point = TypeVar("Point")


def noise_plot(directory: Path, *, which: str | None, epsilon: str, delta: str, as_json: bool) -> None:
    """Draw all pictures, or the one called `which`, into `directory`.

    Raises:
        SpecRefused: there is no such picture, or a number is out of range.
        SetupRefused: the directory cannot be written.
    """
    names = tuple(PictureName) if which is None else (_picture_name(which),)
    guarantee = _guarantee(epsilon, delta)
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=ERRORS,
    ) as progress:
        for name in names:
            figure = picture(name, guarantee, _shown_on(progress, name))
            with _writing(directory):
                written += write_picture(figure, directory / f"{FILE_PREFIX}{name}")
    paths = [str(path) for path in written]
    told = json.dumps({"written": paths}) if as_json else "\n".join(f"written  {path}" for path in paths)
    sys.stdout.write(told + "\n")


def _shown_on(progress: Progress, name: PictureName) -> Track:
    def track(points: Sequence[Point], /) -> Iterable[Point]:
        return progress.track(points, description=name)

    return track


def _picture_name(text: str) -> PictureName:
    known = [name.value for name in PictureName]
    if text in known:
        return PictureName(text)
    guess = nearest(text, known)
    raise SpecRefused(
        "picture_unknown",
        f"there is no picture {shown(text)}" + (f": did you mean {guess!r}?" if guess else ""),
        way_out=f"take one of: {', '.join(known)}",
    )


def _guarantee(epsilon: str, delta: str) -> PrivacyGuarantee:
    """The guarantee of the pictures, in a range in which all of them can be drawn.

    Raises:
        SpecRefused: one of the two is no number, or out of range.
    """
    read_epsilon = exact_number(
        "0.1 <= epsilon <= 10", lambda value: 1 <= 10 * value <= 100, "write for instance 1"
    )
    read_delta = exact_number(
        "1e-9 <= delta <= 0.01", lambda value: 1 <= 10**9 * value <= 10**7, "write for instance 1e-6"
    )
    try:
        return PrivacyGuarantee(read_epsilon(epsilon), read_delta(delta))
    except Wrong as failure:
        raise refused("guarantee_invalid", "noise plot", failure.problems) from None


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"{directory} cannot be written ({failure.strerror})",
            way_out="give a directory that you may write",
        ) from None
