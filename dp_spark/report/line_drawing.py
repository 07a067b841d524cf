"""Lines with their names at their ends; matplotlib is imported when the first figure is made.

Colours are those of Okabe and Ito, which colour-blind people tell apart; lines differ in their dashes too.
"""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dp_spark.report.figures import figures
from dp_spark.report.noise_curves import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_STYLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "laplace": {"color": "#0072B2"},
        "logistic": {"color": "#56B4E9", "dashes": (6, 1.5)},
        "gaussian": {"color": "#D55E00", "dashes": (4, 1.5, 1, 1.5)},
        "subbotin": {"color": "#009E73", "dashes": (3, 1.5)},
        "best subbotin": {"color": "#009E73", "dashes": (3, 1.5)},
        "hyperbolic": {"color": "#CC79A7"},
        "truncated laplace": {"color": "#E69F00", "dashes": (8, 2, 2, 2)},
        "tightest table": {"color": "#E69F00", "linewidth": 3.0},
        "chosen": {"color": "black", "linewidth": 2.2},
        "floor": {"color": "black", "linewidth": 1.0, "dashes": (1, 1.5)},
    }
)
_UNKNOWN = MappingProxyType({"color": "#999999"})
_LEADER = MappingProxyType(
    {"arrowstyle": "-", "linewidth": 0.6, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 0}
)
_NEAREST_NAMES = 0.062  # of the height of an axis
_CAPTION_LETTERS = 15.5  # in an inch


def new_figure(rows: int, columns: int, title: str) -> tuple["Figure", list[list["Axes"]]]:
    """An empty figure, with its axes by rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # takes half a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9.8 if columns > 1 else 8.4, 6.0 if rows > 1 else 5.6))
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.02, ha="left")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=rows > 1)
    for axes in grid.flat:
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(
        left=0.09, right=0.88 if columns > 1 else 0.82, top=0.9, bottom=0.18, wspace=0.5, hspace=0.13
    )
    return figure, [list(row) for row in grid]


def line_style(name: str) -> Mapping[str, Any]:
    """Colour and dashes of a line of this name, whatever its parameter."""
    return _STYLES.get(name.partition("(")[0], _UNKNOWN)


def draw_lines(axes: "Axes", lines: Iterable[Curve]) -> None:
    """Draw lines in the order given."""
    for line in lines:
        axes.plot(line.x, line.y, **{"linewidth": 1.6, **line_style(line.name)})


def set_plain_ticks(axis: "Axis", places: Sequence[float]) -> None:
    """Ticks at these places only, written as plain numbers."""
    axis.set_ticks(places, [figures(place) for place in places])
    axis.set_ticks([], minor=True)


def name_ends(axes: "Axes", lines: Sequence[Curve]) -> None:
    """Names at the right ends of lines, moved apart where they would touch."""
    axes.autoscale_view()  # else limits that nobody set are not yet known
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted((*to_axes.transform((line.x[-1], line.y[-1]))[::-1], line.name) for line in lines)
    shown = [end for end in ends if end[0] <= 1]
    for (height, x, name), place in zip(shown, _apart([height for height, *_ in shown]), strict=True):
        colour = line_style(name)["color"]
        axes.annotate(
            name,
            (x + 0.005, height),
            (1.05, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontsize=9,
            va="center",
            arrowprops={**_LEADER, "color": colour},
        )


def _apart(heights: Sequence[float]) -> list[float]:
    """Ascending heights, moved as little as keeps neighbours apart and all inside an axis.

    Names that would touch form a block about the mean of their heights; blocks that would touch join.
    """
    blocks: list[list[float]] = []
    for height in heights:
        block = [height]
        while blocks and _lowest(block) < _lowest(blocks[-1]) + len(blocks[-1]) * _NEAREST_NAMES:
            block = blocks.pop() + block
        blocks.append(block)
    return [_lowest(block) + i * _NEAREST_NAMES for block in blocks for i in range(len(block))]


def _lowest(block: Sequence[float]) -> float:
    length = (len(block) - 1) * _NEAREST_NAMES
    return min(max(sum(block) / len(block) - length / 2, 0.0), 1.0 - length)


def write_caption(figure: "Figure", text: str) -> None:
    """The text below the axes, as wide as the figure."""
    width = round(_CAPTION_LETTERS * figure.get_figwidth())
    figure.text(0.02, 0.015, fill(text, width), fontsize=8.5, va="bottom", color="#333333")
