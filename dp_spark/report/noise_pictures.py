"""Pictures of the noise, drawn from the numbers of `noise_curves`."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.report import noise_curves as curves
from dp_spark.report.figures import exact, figures
from dp_spark.report.line_drawing import (
    draw_lines,
    line_style,
    name_ends,
    new_figure,
    set_plain_ticks,
    write_caption,
)
from dp_spark.report.noise_curves import AgainstDraws, AgainstEpsilon, Curve, Profiles, Separation, Track

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
ENDINGS = ("png", "svg")

_RATIOS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MOST_OVER_CHOSEN = 2.0
_LEAST_SHOWN_DELTA = 1e-9
_LETTER = 0.011  # of the width of an axis


class PictureName(StrEnum):
    """The pictures, by what stands on their x axis or what they are."""

    EPSILON = "epsilon"
    CELLS = "cells"
    HORIZON = "horizon"
    PROFILES = "profiles"
    SEPARATION = "separation"


def picture(name: PictureName, guarantee: PrivacyGuarantee, track: Track = curves.untracked) -> "Figure":
    """Compute and draw one picture; `epsilon` has its own grid and takes nothing from the guarantee."""
    return _PICTURES[name](guarantee, track)


def write_picture(figure: "Figure", stem: Path) -> tuple[Path, ...]:
    """Write the figure as stem.png and stem.svg.

    Raises:
        OSError: one of them cannot be written.
    """
    from matplotlib import rc_context  # noqa: PLC0415  # takes half a second

    paths = tuple(stem.with_name(f"{stem.name}.{ending}") for ending in ENDINGS)
    with rc_context({"svg.hashsalt": stem.name}):  # so that the same numbers give the same file
        for path, metadata in zip(paths, ({}, {"Date": None}), strict=True):
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)
    return paths


def draw_epsilon(panels: Sequence[AgainstEpsilon]) -> "Figure":
    """Variance against epsilon above, divided by the floor below; a column for each delta."""
    figure, grid = new_figure(2, len(panels), "Variance of the noise of one count (sensitivity 1, one cell)")
    for numbers, above, below in zip(panels, *grid, strict=True):
        draw_lines(above, [*numbers.families, numbers.floor])
        above.set(xscale="log", yscale="log", title=f"delta = {figures(numbers.delta)}", ylabel="variance")
        draw_lines(below, numbers.over_floor)
        below.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="variance / floor")
        set_plain_ticks(below.yaxis, _ratios(numbers.over_floor))
        for axes in (above, below):
            axes.minorticks_off()
            set_plain_ticks(axes.xaxis, (0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8))
        name_ends(above, [*numbers.families, numbers.floor])
        name_ends(below, numbers.over_floor)
    powers = f"{figures(min(curves.SUBBOTIN_POWERS))} to {figures(max(curves.SUBBOTIN_POWERS))}"
    write_caption(
        figure,
        "Each family at its least scale, as a certified integer table. Floor: the least variance of any"
        " integer noise, by linear program; the tightest table is truncated geometric noise. Best subbotin:"
        f" of {len(curves.SUBBOTIN_POWERS)} powers p from {powers}, Laplace (p = 1) and Gaussian (p = 2)."
        " Where epsilon and delta are large tables have few values: lines jump, and meet.",
    )
    return figure


def draw_cells(numbers: AgainstDraws) -> "Figure":
    """Variance per cell against the cells that one unit moves."""
    return _draw_draws(
        numbers,
        title="Variance per cell, one release",
        xlabel="cells that one unit moves (l0)",
        ticks=(1, 2, 4, 8, 16, 32, 64),
    )


def draw_horizon(numbers: AgainstDraws) -> "Figure":
    """Variance per night against the nights that share the guarantee."""
    return _draw_draws(
        numbers,
        title="Variance per night, one cell a unit",
        xlabel="nights that share the guarantee (horizon)",
        ticks=(1, 2, 5, 10, 30, 90, 180, 365),
    )


def draw_profiles(numbers: Profiles) -> "Figure":
    """Privacy profiles on a logarithmic axis."""
    figure, ((axes,),) = new_figure(1, 1, "Privacy profiles of tables of equal variance")
    draw_lines(axes, numbers.curves)
    axes.set(yscale="log", ylim=(_LEAST_SHOWN_DELTA, 1), xlabel="epsilon", ylabel="delta(epsilon)")
    axes.set_xlim(0, numbers.curves[0].x[-1])
    leaving = [line for line in numbers.curves if line.y[-1] < _LEAST_SHOWN_DELTA]
    for line in leaving:
        left = next(x for x, y in zip(line.x, line.y, strict=True) if y < _LEAST_SHOWN_DELTA)
        axes.annotate(
            line.name,
            (left, _LEAST_SHOWN_DELTA),
            (4, 5),
            textcoords="offset points",
            color=line_style(line.name)["color"],
            fontsize=9,
        )
    name_ends(axes, [line for line in numbers.curves if line not in leaving])
    write_caption(
        figure,
        "Exact profiles of frozen tables, all with the variance of Laplace noise of epsilon ="
        f" {figures(numbers.epsilon)}. None is the best everywhere: Gaussian noise has the lowest delta at"
        " small epsilon; Laplace and logistic noise reach delta = 0 at a finite epsilon, where their lines"
        " fall; truncated noise never goes below the mass that its cut exposes.",
    )
    return figure


def draw_separation(numbers: Separation) -> "Figure":
    """The least std against delta, which falls to the right."""
    title = f"Separation: the least noise at epsilon = {figures(numbers.epsilon)} as delta goes to 0"
    figure, ((axes,),) = new_figure(1, 1, title)
    draw_lines(axes, numbers.curves)
    for limit in numbers.limits:
        axes.plot(
            limit.x[-1], limit.y[-1], "o", color=line_style(limit.name)["color"], mfc="white", clip_on=False
        )
    axes.set(xscale="log", xlabel="delta", ylabel="std at the least scale, in sensitivities")
    axes.set_xlim(numbers.curves[0].x[0], numbers.curves[0].x[-1])
    axes.set_ylim(bottom=0)
    axes.set_xticks(numbers.curves[0].x[19::20])
    name_ends(axes, numbers.curves)
    write_caption(
        figure,
        "Continuous noise, in floats. Gaussian and subbotin noise (p > 1) need a scale that grows without"
        " limit as delta goes to 0. Laplace and logistic noise reach delta = 0 at a finite scale, the circle"
        " (Vinterbo 2022, Theorem 6).",
    )
    return figure


_PICTURES: Mapping[PictureName, Callable[[PrivacyGuarantee, Track], "Figure"]] = MappingProxyType(
    {
        PictureName.EPSILON: lambda _, track: draw_epsilon(
            [curves.against_epsilon(delta, track=track) for delta in curves.DELTAS]
        ),
        PictureName.CELLS: lambda guarantee, track: draw_cells(curves.against_cells(guarantee, track=track)),
        PictureName.HORIZON: lambda guarantee, track: draw_horizon(
            curves.against_horizon(guarantee, track=track)
        ),
        PictureName.PROFILES: lambda guarantee, track: draw_profiles(curves.profiles(guarantee, track=track)),
        PictureName.SEPARATION: lambda guarantee, track: draw_separation(
            curves.separation(guarantee, track=track)
        ),
    }
)


def _draw_draws(numbers: AgainstDraws, *, title: str, xlabel: str, ticks: Sequence[float]) -> "Figure":
    """Variance above, divided by that of the chosen noise below; what is chosen is shaded."""
    epsilon, delta = exact(numbers.guarantee.epsilon), exact(numbers.guarantee.delta)
    figure, ((above,), (below,)) = new_figure(2, 1, f"{title}: epsilon = {epsilon}, delta = {delta} in all")
    draw_lines(above, [*numbers.families, numbers.chosen])
    above.set(xscale="log", yscale="log", ylabel="variance / sensitivity^2")
    draw_lines(below, numbers.over_chosen)
    below.axhline(1, **line_style(numbers.chosen.name))
    below.set(xscale="log", ylim=(0.96, _MOST_OVER_CHOSEN), xlabel=xlabel, ylabel="variance / chosen")
    for axes in (above, below):
        axes.set_xlim(numbers.chosen.x[0], numbers.chosen.x[-1])
        set_plain_ticks(axes.xaxis, ticks)
        for band in numbers.bands:
            axes.axvspan(band.start, band.stop, color=line_style(band.kind)["color"], alpha=0.14, linewidth=0)
    _name_bands(above, numbers)
    name_ends(above, [*numbers.families, numbers.chosen])
    level = Curve(numbers.chosen.name, numbers.chosen.x, (1.0,) * len(numbers.chosen.x))
    name_ends(below, [*numbers.over_chosen, level])
    write_caption(
        figure,
        "Certified tables, composed over all draws. Chosen: the least variance over all families, their"
        " shapes and truncations, as a plan chooses it. The shade says which kind that is at the"
        f" {len(numbers.chosen.x)} points computed; where kinds differ by 0.1 % or less they take turns."
        f" Ratios above {figures(_MOST_OVER_CHOSEN)} leave the lower panel.",
    )
    return figure


def _ratios(lines: Sequence[Curve]) -> list[float]:
    """Ticks up to the first beyond the greatest ratio."""
    most = max(max(line.y) for line in lines)
    return [ratio for i, ratio in enumerate(_RATIOS) if i == 0 or _RATIOS[i - 1] < most]


def _name_bands(axes: "Axes", numbers: AgainstDraws) -> None:
    """The kind that is chosen, above the middle of its band, or upright inside where the band is narrow."""
    to_axes = axes.transData + axes.transAxes.inverted()
    for band in numbers.bands:
        left, right = (to_axes.transform((edge, 1.0))[0] for edge in (band.start, band.stop))
        narrow = right - left < _LETTER * len(band.kind)
        axes.text(
            (left + right) / 2,
            0.03 if narrow else 1.01,
            band.kind,
            transform=axes.transAxes,
            rotation=90 if narrow else 0,
            ha="center",
            va="bottom",
            fontsize=9,
        )
