"""The numbers of the pictures obey what theory says of them; the drawings are files that can be looked at."""

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.report import noise_curves as curves
from dp_spark.report.line_drawing import name_ends, new_figure
from dp_spark.report.noise_curves import AgainstDraws, AgainstEpsilon, Band, Curve, Profiles, Separation
from dp_spark.report.noise_pictures import (
    draw_cells,
    draw_epsilon,
    draw_horizon,
    draw_profiles,
    draw_separation,
    write_picture,
)

GUARANTEE = PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))
SEARCHED = 2e-3  # relative: how near the least the search for the least variance comes


@pytest.fixture(scope="module", params=curves.DELTAS)
def epsilon(request: pytest.FixtureRequest) -> AgainstEpsilon:
    return curves.against_epsilon(request.param, epsilons=(0.05, 0.5, 1.0, 8.0))


@pytest.fixture(scope="module")
def cells() -> AgainstDraws:
    return curves.against_cells(GUARANTEE, cells=(1, 4, 8, 16))


@pytest.fixture(scope="module")
def horizon() -> AgainstDraws:
    return curves.against_horizon(GUARANTEE, nights=(1, 8))


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    return curves.profiles(GUARANTEE)


@pytest.fixture(scope="module")
def separation() -> Separation:
    return curves.separation(GUARANTEE)


def named(lines: tuple[Curve, ...], name: str) -> tuple[float, ...]:
    return next(line.y for line in lines if line.name == name)


def test_no_family_lies_below_the_floor(epsilon: AgainstEpsilon) -> None:
    assert min(min(line.y) for line in epsilon.over_floor) >= 1 - 1e-6


def test_the_tightest_table_lies_on_the_floor(epsilon: AgainstEpsilon) -> None:
    assert named(epsilon.over_floor, curves.TIGHTEST) == pytest.approx([1.0] * 4, rel=1e-6)


def test_the_best_subbotin_is_no_worse_than_its_members_laplace_and_gaussian(epsilon: AgainstEpsilon) -> None:
    best, *members = (
        named(epsilon.families, name) for name in (curves.BEST_SUBBOTIN, curves.LAPLACE, curves.GAUSSIAN)
    )
    assert all(least <= min(others) for least, *others in zip(best, *members, strict=True))


def test_variance_falls_as_epsilon_grows(epsilon: AgainstEpsilon) -> None:
    for line in (*epsilon.families, epsilon.floor):
        assert all(a > b for a, b in pairwise(line.y))


def test_laplace_wins_over_few_cells_and_gaussian_over_many(cells: AgainstDraws) -> None:
    laplace, gaussian = (named(cells.families, name) for name in (curves.LAPLACE, curves.GAUSSIAN))
    assert laplace[0] < gaussian[0] / 8
    assert laplace[-1] > gaussian[-1]


def test_the_lines_of_cells_are_those_of_continuous_noise(cells: AgainstDraws) -> None:
    assert named(cells.families, curves.LAPLACE) == pytest.approx([2, 32, 127.9, 460.4], rel=5e-3)
    assert named(cells.families, curves.GAUSSIAN) == pytest.approx([17.85, 71.39, 142.78, 285.57], rel=5e-3)
    assert named(cells.families, "subbotin(1.5)") == pytest.approx([7.26, 47.9, 120.1, 276.5], rel=5e-3)


@pytest.mark.parametrize("picture", ["cells", "horizon"])
def test_what_is_chosen_is_the_minimum(picture: str, request: pytest.FixtureRequest) -> None:
    numbers: AgainstDraws = request.getfixturevalue(picture)
    assert min(min(line.y) for line in numbers.over_chosen) >= 1 - SEARCHED


def test_as_many_nights_as_cells_cost_the_same(cells: AgainstDraws, horizon: AgainstDraws) -> None:
    assert horizon.chosen.y[1] == pytest.approx(cells.chosen.y[2], rel=SEARCHED)


def test_bands_cover_the_axis_and_meet(cells: AgainstDraws) -> None:
    assert (cells.bands[0].start, cells.bands[-1].stop) == (1, 16)
    assert all(a.stop == b.start and a.kind != b.kind for a, b in pairwise(cells.bands))


def test_a_band_ends_halfway_to_the_next_kind_on_a_logarithmic_axis() -> None:
    assert curves.winning_bands((1, 2, 8, 16), ("a", "a", "b", "b")) == (
        Band("a", 1, 4.0),
        Band("b", 4.0, 16),
    )


def test_profiles_fall_and_laplace_ends_at_its_epsilon(profiles: Profiles) -> None:
    for line in profiles.curves:
        shown = [delta for delta in line.y if delta > 1e-30]  # below, a certificate counts units of 2^-128
        assert all(a >= b for a, b in pairwise(shown))
    laplace = next(line for line in profiles.curves if line.name == curves.LAPLACE)
    ends = next(x for x, y in zip(laplace.x, laplace.y, strict=True) if y < 1e-30)
    assert ends == pytest.approx(1.0, abs=0.02)


def test_at_epsilon_0_gaussian_noise_has_the_lowest_delta_of_equal_variance(profiles: Profiles) -> None:
    assert min(profiles.curves, key=lambda line: line.y[0]).name == curves.GAUSSIAN


def test_laplace_and_logistic_noise_stay_below_their_limit_and_gaussian_noise_has_none(
    separation: Separation,
) -> None:
    limits = {line.name: line.y[-1] for line in separation.limits}
    assert limits == pytest.approx({curves.LAPLACE: math.sqrt(2), curves.LOGISTIC: math.pi / math.sqrt(3)})
    for name, limit in limits.items():
        stds = named(separation.curves, name)
        assert max(stds) <= limit * (1 + 1e-9)
        assert stds[-1] == pytest.approx(limit)
    gaussian = named(separation.curves, curves.GAUSSIAN)
    assert all(a < b for a, b in pairwise(gaussian))
    assert gaussian[-1] / gaussian[24] == pytest.approx(2, rel=0.1)  # as sqrt(log(1 / delta)), delta^4


def test_names_at_the_ends_of_lines_do_not_touch() -> None:
    figure, ((axes,),) = new_figure(1, 1, "ten lines that end together")
    lines = [Curve(f"line {i}", (0.0, 1.0), (0.0, 1.0 + i * 1e-3)) for i in range(10)]
    for line in lines:
        axes.plot(line.x, line.y)
    name_ends(axes, lines)
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: float(box.y0))
    assert len(boxes) == 10
    assert all(low.y0 + low.height / 2 + 12 < high.y0 + high.height / 2 for low, high in pairwise(boxes))


def test_every_picture_is_drawn_as_png_and_svg(
    tmp_path: Path,
    cells: AgainstDraws,
    horizon: AgainstDraws,
    profiles: Profiles,
    separation: Separation,
) -> None:
    panels = [curves.against_epsilon(delta, epsilons=(0.1, 4.0)) for delta in curves.DELTAS]
    figures = {
        "epsilon": draw_epsilon(panels),
        "cells": draw_cells(cells),
        "horizon": draw_horizon(horizon),
        "profiles": draw_profiles(profiles),
        "separation": draw_separation(separation),
    }
    for name, figure in figures.items():
        png, svg = write_picture(figure, tmp_path / name)
        assert png.read_bytes().startswith(b"\x89PNG\r\n")
        assert "<svg" in svg.read_text()


def test_the_same_numbers_give_the_same_file(tmp_path: Path, separation: Separation) -> None:
    texts = []
    for directory in ("one", "other"):
        (tmp_path / directory).mkdir()
        texts.append(write_picture(draw_separation(separation), tmp_path / directory / "p")[1].read_text())
    assert texts[0] == texts[1]
