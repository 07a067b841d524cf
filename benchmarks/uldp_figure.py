"""The picture of the evaluation on ACS: the authors' curves thin, ours by the likelihood bold.

Colours are those of Okabe and Ito, which colour-blind people tell apart; marks do so without colour.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
from acs import Acs, Case
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from uldp_acs_tables import Point
from uldp_errors import LIKELIHOOD, PUBLISHED, Errors

from dp_spark.uldp import MechanismName

_STYLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        MechanismName.UBD: {"color": "black", "marker": "o"},
        MechanismName.URR: {"color": "#D55E00", "marker": "s"},
        MechanismName.URAP: {"color": "#E69F00", "marker": "^"},
        MechanismName.UOUE: {"color": "#009E73", "marker": "D"},
        MechanismName.UOLH: {"color": "#56B4E9", "marker": "v"},
        MechanismName.UHR: {"color": "#CC79A7", "marker": "P"},
        MechanismName.USS: {"color": "#0072B2", "marker": "X"},
    }
)
_NAMES = {name: f"u{name[1:].upper()}" for name in MechanismName}
_FLOOR = "mass and the others known"
_SAVED = MappingProxyType({"svg.hashsalt": "uldp_acs", "svg.fonttype": "path"})


def save_figure(
    file: str, acs: Acs, points: Mapping[str, Sequence[Point]], sampling: Mapping[str, Errors]
) -> None:
    """Draw a panel for each case and write the picture."""
    figure = Figure(figsize=(9.8, 6.0), layout="constrained")
    row = figure.subplots(1, len(points), squeeze=False, sharey=True)[0]
    for axes, (name, found) in zip(row, points.items(), strict=True):
        _draw(axes, acs, acs.cases[name], found, sampling[name])
    row[0].set_ylabel("mean squared error of a category")
    figure.legend(handles=_handles(), loc="outside lower center", ncols=6, frameon=False, fontsize=8.5)
    with mpl.rc_context(dict(_SAVED)):
        figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None, dpi=110)


def _draw(axes: Axes, acs: Acs, case: Case, points: Sequence[Point], sampling: Errors) -> None:
    epsilons = [point.epsilon for point in points]
    for name, style in _STYLES.items():
        first = name == MechanismName.UBD
        published = [point.errors[name][PUBLISHED].mean for point in points]
        ours = [point.errors[name][LIKELIHOOD].mean for point in points]
        if curve := acs.curves.get((case.name, name)):
            axes.plot(curve.epsilons, curve.means, color=style["color"], linewidth=0.8)
        marks = {**style, "markersize": 3.5, "markerfacecolor": "white", "linestyle": ""}
        axes.plot(epsilons, published, **marks, markeredgewidth=0.8)
        width = 2.6 if first else 1.8
        axes.plot(epsilons, ours, **style, linewidth=width, markersize=5, zorder=3 if first else 2.5)
    axes.axhline(points[0].floors[_FLOOR].mean, color="#555555", linewidth=1.4, dashes=(5, 2))
    axes.axhline(sampling.mean, color="#555555", linewidth=1.4, dashes=(1, 1.5))
    axes.set_yscale("log")
    axes.set_xlabel("epsilon")
    axes.set_title(f'"{case.name}": {case.n_sensitive} of {len(case.truth)} sensitive', fontsize=10)
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _handles() -> list[Line2D]:
    """The legend: mechanisms, then what widths and dashes mean."""
    lines = [
        Line2D([], [], **style, linewidth=1.8, markersize=5, label=_NAMES[MechanismName(name)])
        for name, style in _STYLES.items()
    ]
    grey = "#555555"
    return [
        *lines,
        Line2D([], [], color=grey, linewidth=2.2, marker="o", markersize=5, label="ours: likelihood"),
        Line2D([], [], color=grey, linewidth=0.8, label="the authors' curves"),
        Line2D(
            [], [], color=grey, linestyle="", marker="o", markerfacecolor="white", markersize=3.5,
            label="their decoders, run here",
        ),
        Line2D([], [], color=grey, linewidth=1.4, dashes=(5, 2), label="even inside S, all else known"),
        Line2D([], [], color=grey, linewidth=1.4, dashes=(1, 1.5), label="no privacy"),
    ]  # fmt: skip
