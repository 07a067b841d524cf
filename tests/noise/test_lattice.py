"""Noise tables: exactness of the weights, of the profile, and of the draw."""

import bisect
import hashlib
import itertools
import math
import time
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy import stats

from dp_spark.noise import FAMILIES, Family, Gaussian, Laplace, Mass, NoiseTable, freeze, wide, words
from dp_spark.noise.families import HasTailBall, Subbotin, TruncatedLaplace
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.lattice import MAX_ENTRIES
from dp_spark.release.planner import LARGEST_TOTAL

TOTAL = 2**128
EPSILONS = [Fraction(n, 20) for n in range(0, 121, 3)]

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def small(family: Family, step: Fraction = Fraction(2, 5), support: int = 12, **unit: int) -> NoiseTable:
    return freeze(family, step, support, **{"sensitivity": 1, "max_groups": 1, **unit})


def law(table: NoiseTable) -> dict[int, int]:
    """Weight of every value, read from the stored half."""
    half = list(wide.to_ints(table.weights))
    return {n: half[abs(n)] for n in range(-table.support, table.support + 1)}


def exact_delta(weights: dict[int, int], shift: int, growth: Fraction) -> Fraction:
    """sum of (P(n) - growth P(n - shift))+ in fractions, as the definition says."""
    gaps = (weights.get(n, 0) - growth * weights.get(n - shift, 0) for n in weights)
    return sum((gap for gap in gaps if gap > 0), start=Fraction(0)) / TOTAL


def exponential(epsilon: Fraction) -> Fraction:
    context = Context(prec=60)
    quotient = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return Fraction(context.exp(quotient))


def slack(table: NoiseTable, epsilon: Fraction) -> Fraction:
    return (table.max_groups + 1) * table.entries * (1 + exponential(epsilon)) / TOTAL


@every_family
@pytest.mark.parametrize(
    ("step", "support"),
    [(Fraction(1, 3), 1), (Fraction(5), 7), (Fraction(1, 300), 4000), (Fraction(7, 2**9), 500)],
)
def test_weights_sum_to_the_total_and_are_within_one_unit(
    family: Family, step: Fraction, support: int
) -> None:
    weights = law(small(family, step, support))
    assert sum(weights.values()) == TOTAL
    with ctx.workprec(512):
        h = arb(fmpq(step.numerator, step.denominator))
        psi = {
            "laplace": lambda n: n * h,
            "gaussian": lambda n: (n * h) ** 2 / 2,
            "logistic": lambda n: 2 * (n * h / 2).cosh().log(),
        }[family.name]
        masses = [arb.exp(-psi(n)) for n in range(support + 1)]
        whole = masses[0] + 2 * sum(masses[1:], start=arb(0))
        assert all(abs(weights.get(n, 0) - TOTAL * mass / whole) <= 1 for n, mass in enumerate(masses))


def test_laplace_with_a_rational_ratio_is_the_geometric_law() -> None:
    table = small(Laplace(), Fraction(1), 30)
    ratio = 1 / exponential(Fraction(1))
    whole = 1 + 2 * sum(ratio**n for n in range(1, 31))
    for n, weight in law(table).items():
        assert abs(weight - TOTAL * ratio ** abs(n) / whole) <= 1 + Fraction(1, 10**15)


def test_large_table_is_frozen_exactly() -> None:
    table = small(Gaussian(), Fraction(1, 3000), 2**15)
    weights = wide.to_ints(table.weights)
    assert int(weights[0]) + 2 * int(weights[1:].sum()) == TOTAL
    assert np.all(np.diff(weights) <= 1)


@every_family
@pytest.mark.parametrize(("sensitivity", "max_groups"), [(1, 1), (2, 1), (1, 3), (4, 3), (40, 1)])
def test_profile_is_the_brute_force_sum(family: Family, sensitivity: int, max_groups: int) -> None:
    table = small(family, sensitivity=sensitivity, max_groups=max_groups)
    shift = sensitivity * max_groups
    for epsilon in EPSILONS:
        above = exact_delta(law(table), shift, exponential(epsilon))
        below = exact_delta(law(table), -shift, exponential(epsilon))
        assert above == below
        found = table.privacy_delta(epsilon)
        assert above <= found <= min(1, (above + slack(table, epsilon)) * (1 + Fraction(1, 10**15)))


@every_family
def test_profile_grows_with_the_shift_and_falls_with_epsilon(family: Family) -> None:
    profile = [
        [small(family, sensitivity=shift).privacy_delta(epsilon) for epsilon in EPSILONS]
        for shift in range(1, 27)
    ]
    assert np.all(np.diff(profile, axis=0) >= 0)
    assert np.all(np.diff(profile, axis=1) <= 0)


def test_profile_is_one_where_the_weights_resolve_nothing() -> None:
    assert small(Laplace()).privacy_delta(89.5) == 1.0
    assert small(Laplace()).privacy_delta(10**9) == 1.0


def test_negative_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        small(Laplace()).privacy_delta(-0.1)


def test_variance_of_discrete_laplace_is_the_closed_form() -> None:
    ratio = math.exp(-0.25)
    table = small(Laplace(), Fraction(1, 4), 300)
    assert table.variance == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=1e-11)
    assert table.std == math.sqrt(table.variance)


def test_variance_of_discrete_gaussian_is_its_scale_squared() -> None:
    assert small(Gaussian(), Fraction(1, 9), 120).variance == pytest.approx(81, rel=1e-11)


@every_family
def test_variance_is_never_below_the_exact_one(family: Family) -> None:
    table = small(family)
    exact = Fraction(sum(n * n * weight for n, weight in law(table).items()), TOTAL)
    assert exact <= table.variance <= exact * (1 + Fraction(1, 10**11))


@every_family
def test_quantile_is_the_least_value_that_reaches_q(family: Family) -> None:
    table = small(family)
    cumulative = dict(zip(law(table), accumulate(law(table).values()), strict=True))
    for q in (
        Fraction(1, 10**9),
        0.025,
        Fraction(1, 2),
        0.975,
        *(Fraction(c, TOTAL) for c in cumulative.values()),
    ):
        expected = min(n for n, total in cumulative.items() if Fraction(total, TOTAL) >= q)
        assert table.quantile(q) == expected


@every_family
@pytest.mark.parametrize("coverage", [0.01, 0.5, 0.9, 0.95, 0.999999, 1])
def test_half_width_is_the_least_symmetric_interval(family: Family, coverage: float) -> None:
    table = small(family)

    def covered(k: int) -> Fraction:
        return Fraction(sum(weight for n, weight in law(table).items() if abs(n) <= k), TOTAL)

    k = table.half_width(coverage)
    assert covered(k) >= coverage
    assert k == 0 or covered(k - 1) < coverage


@pytest.mark.parametrize("share", [0, -0.5, 1.01, math.nan])
def test_shares_outside_of_the_unit_interval_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        small(Laplace()).quantile(share)
    with pytest.raises(ValueError, match="must lie in"):
        small(Laplace()).half_width(share)


@every_family
def test_draw_is_the_inverse_cdf_on_adversarial_words(family: Family) -> None:
    table = small(family, Fraction(1, 2), 400)
    cumulative = list(accumulate(law(table).values()))
    assert len({total >> 64 for total in cumulative}) < len(cumulative)  # outer weights: high words tie
    near = {total + offset for total in cumulative for offset in (-1, 0, 1)}
    ties = {(total >> 64 << 64) + low for total in cumulative for low in (0, 1, 2**64 - 1)}
    probes = [word for word in {0, TOTAL - 1, TOTAL // 2} | near | ties if 0 <= word < TOTAL]
    expected = [bisect.bisect_right(cumulative, word) - table.support for word in probes]
    drawn = table.draw(wide.from_ints(probes))
    assert drawn.dtype == np.int64
    assert drawn.tolist() == expected


def test_a_table_ends_at_its_last_positive_weight() -> None:
    table = small(Gaussian(), Fraction(2), 30)
    assert table.support == 6  # exp(-98) is below 2^-128
    assert table.draw(wide.from_ints([0, TOTAL - 1])).tolist() == [-6, 6]
    padded = np.concatenate([table.weights, np.zeros((1, 2), dtype=np.uint64)])
    with pytest.raises(ValueError, match="outermost"):
        replace(table, weights=padded)


def test_drawing_nothing_gives_nothing() -> None:
    assert small(Laplace()).draw(np.empty((0, 2), dtype=np.uint64)).shape == (0,)


def sampling_p_value(claimed: NoiseTable, drawn_from: NoiseTable) -> float:
    """Chi-square p value of 400,000 draws in about 20 equally likely bins of the claimed table."""
    n = 400_000
    counters = np.stack([np.zeros(n), np.arange(n)], axis=1).astype(">u8")
    draws = drawn_from.draw(words(b"k" * 32, b"sampling test", counters.view(np.uint8).reshape(n, 16)))
    edges = sorted({claimed.quantile(Fraction(i, 20)) for i in range(1, 20)})
    cumulative = np.array(
        [float(Fraction(sum(w for v, w in law(claimed).items() if v <= e), TOTAL)) for e in edges]
    )
    expected = n * np.diff([0.0, *cumulative, 1.0])
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(expected))
    return float(stats.chisquare(observed, expected).pvalue)


@every_family
def test_draws_follow_the_table_and_a_scale_off_by_three_percent_is_seen(family: Family) -> None:
    """n = 400,000; false alarms at most 1e-9. The key is fixed, so the outcome is too."""
    table = small(family, Fraction(1, 20), 400)
    assert sampling_p_value(table, table) > 1e-9
    for factor in (Fraction(97, 100), Fraction(103, 100)):
        assert sampling_p_value(table, small(family, table.step * factor, 400)) < 1e-9


@every_family
def test_bytes_come_back_and_equality_is_by_digest(family: Family) -> None:
    table = small(family, Fraction(7, 64), 100, sensitivity=3, max_groups=2)
    again = NoiseTable.from_bytes(table.to_bytes())
    assert again == table
    assert hash(again) == hash(table)
    assert again.digest == hashlib.sha256(table.to_bytes()).hexdigest()
    assert (again.family, again.step, again.sensitivity, again.max_groups) == (family.name, table.step, 3, 2)
    assert len(table.to_bytes()) < 16 * 101 + 64


def test_digest_covers_every_field() -> None:
    table = small(Laplace())
    changed = [
        replace(table, family="gaussian"),
        replace(table, step=Fraction(3, 8)),
        replace(table, sensitivity=2),
        replace(table, max_groups=2),
        small(Laplace(), support=13),
    ]
    assert len({table.digest, *(other.digest for other in changed)}) == 6


def test_canonical_bytes_do_not_change() -> None:
    digest = small(Laplace(), Fraction(1, 2), 3).digest
    assert digest == "a149a6ceea6fe9c1d7f1c3a76055a99cd48c80455bcbfa45ba60018634559bae"


def test_any_changed_byte_of_the_weights_is_refused() -> None:
    data = small(Laplace(), support=3).to_bytes()
    for place in range(len(data) - 4 * 16, len(data)):
        tampered = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(ValueError, match="2\\^128"):
            NoiseTable.from_bytes(tampered)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"noise table 1", b"noise table 2"),
        (b"laplace 2 5 1 1", b"laplace 4 10 1 1"),
        (b"laplace 2 5 1 1", b"laplace 2 0 1 1"),
        (b"laplace 2 5 1 1", b"laplace 2 5 +1 1"),
        (b"laplace 2 5 1 1", b"laplace 2 5 0 1"),
        (b"laplace 2 5 1 1", b"laplace 2 5 1"),
        (b"laplace 2 5 1 1\n", b"laplace 2 5 1 1\nx"),
    ],
)
def test_other_bytes_than_the_canonical_ones_are_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(ValueError, match=r"noise table|invalid literal"):
        NoiseTable.from_bytes(small(Laplace()).to_bytes().replace(old, new))


def test_a_table_is_symmetric_whatever_its_bytes_are() -> None:
    table = NoiseTable.from_bytes(small(Gaussian()).to_bytes())
    size = len(table.weights)
    assert size == table.support + 1
    assert table.quantile(Fraction(1, 2)) == 0


def test_weights_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small(Laplace()).weights[0, 0] = 0


@pytest.mark.parametrize(
    ("step", "support"),
    [(Fraction(0), 5), (Fraction(-1), 5), (Fraction(1), 0), (Fraction(1), 2**21), (Fraction(200), 5)],
)
def test_parameters_without_a_table_are_refused(step: Fraction, support: int) -> None:
    with pytest.raises(ValueError, match="step"):
        small(Laplace(), step, support)


FREEZABLE = [
    *FAMILIES.values(),
    Subbotin(Fraction(3, 2)),
    Subbotin(Fraction("1.06")),
    TruncatedLaplace(9),
    Hyperbolic(Fraction(2, 3)),
    Hyperbolic(6),
]
every_freezable = pytest.mark.parametrize(
    ("family", "mass"),
    [
        pytest.param(family, mass, id=f"{family.name}-{mass}")
        for family in FREEZABLE
        for mass in Mass
        if mass is Mass.POINT or isinstance(family, HasTailBall)
    ],
)


def exact_masses(family: Family, step: Fraction, support: int, mass: Mass) -> list[arb]:
    """By definition, from psi and the tail alone, in 400 bits; a truncated family inside its cut."""
    whole = Laplace() if isinstance(family, TruncatedLaplace) else family
    h = arb(fmpq(step.numerator, step.denominator))
    if mass is Mass.POINT:
        return [(-whole.psi(h * n)).exp() for n in range(support + 1)]
    tails = [whole.tail_ball(h * (2 * n + 1) / 2) for n in range(support + 1)]
    return [1 - 2 * tails[0], *(inner - outer for inner, outer in itertools.pairwise(tails))]


@every_freezable
@pytest.mark.parametrize(
    ("step", "support", "edge"),
    [
        (Fraction(1, 2), 7, Fraction(1)),
        (Fraction(4), 3, Fraction(1, 7)),
        (Fraction(1, 700), 1500, Fraction(2, 3)),  # in panels of 4 to 16 values
    ],
)
def test_either_mass_with_any_edge_is_within_one_unit(
    family: Family, mass: Mass, step: Fraction, support: int, edge: Fraction
) -> None:
    table = freeze(family, step, support, sensitivity=1, max_groups=1, mass=mass, edge=edge)
    weights = law(table)
    assert sum(weights.values()) == TOTAL
    assert (table.mass, table.family) == (mass, family.name)
    with ctx.workprec(400):
        masses = exact_masses(family, step, support, mass)
        masses[-1] *= arb(fmpq(edge.numerator, edge.denominator))
        whole = masses[0] + 2 * sum(masses[1:], start=arb(0))
        assert all(abs(weights.get(n, 0) - TOTAL * mass / whole) <= 1 for n, mass in enumerate(masses))


@pytest.mark.parametrize(
    ("family", "mass", "limit"),
    [
        (Gaussian(), Mass.CELL, 3),
        (Laplace(), Mass.POINT, 3),
        (Subbotin(Fraction(3, 2)), Mass.CELL, 15),
        (Hyperbolic(4), Mass.POINT, 5),
    ],
)
def test_a_million_entries_are_frozen_and_certified_in_time(family: Family, mass: Mass, limit: float) -> None:
    reach = {"laplace": 75, "gaussian": 13, "subbotin(1.5)": 19, "hyperbolic(4)": 79}[family.name]
    started = time.process_time()
    table = freeze(family, Fraction(reach, 2**19), 2**19, sensitivity=1000, max_groups=1, mass=mass)
    assert time.process_time() - started < limit
    assert table.entries > 2**20 * 0.95
    started = time.process_time()
    table.privacy_delta(0.1)
    assert time.process_time() - started < 0.5


def test_profile_of_nearly_equal_ratios_is_decided_in_integers() -> None:
    """Laplace noise of epsilon exactly: every ratio is e^epsilon but for rounding, beyond floats."""
    table = small(Laplace(), Fraction(1, 2), 60)
    for epsilon in (Fraction(1, 2), Fraction(1, 2) - Fraction(1, 2**60), Fraction(1, 2) + Fraction(1, 2**60)):
        exact = exact_delta(law(table), 1, exponential(epsilon))
        assert (
            exact <= table.privacy_delta(epsilon) <= exact * (1 + Fraction(1, 10**12)) + slack(table, epsilon)
        )


def test_bytes_say_the_mass_and_the_edge() -> None:
    tables = [
        freeze(Laplace(), Fraction(1, 2), 9, sensitivity=1, max_groups=1, mass=mass, edge=edge)
        for mass in Mass
        for edge in (Fraction(1), Fraction(1, 3))
    ]
    assert [NoiseTable.from_bytes(table.to_bytes()) for table in tables] == tables
    assert len({table.digest for table in tables}) == 4
    assert b"laplace 1 2 1 1 cell 1 3\n" in tables[3].to_bytes()
    for wrong in (b"cell 2 6\n", b"cell 0 3\n", b"cell 1 0\n", b"disk 1 3\n", b"cell 1\n"):
        with pytest.raises(ValueError, match=r"noise table|Mass"):
            NoiseTable.from_bytes(tables[3].to_bytes().replace(b"cell 1 3\n", wrong))


def test_cells_of_a_family_without_a_tail_are_refused() -> None:
    class Unknown:
        name = "unknown"
        psi = Laplace.psi

    with pytest.raises(ValueError, match="point masses"):
        freeze(Unknown(), Fraction(1), 9, sensitivity=1, max_groups=1, mass=Mass.CELL)


def test_value_plus_noise_fits_its_column() -> None:
    """Totals saturate at 2^60: the sum fits 64 bits, and so DECIMAL(38, 0)."""
    assert LARGEST_TOTAL + MAX_ENTRIES // 2 < 2**63 - 1 < 10**38
