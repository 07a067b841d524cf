"""Which designs uBD takes, and how near they come to the limit: at every v, at w = v + 24, v and 2 v.

python benchmarks/uldp_designs.py [--v 1-300] [--every 1] [--epsilons 0.1 0.5 ...] [--processes 2]

Efficiency is the limit over the error, by the Fisher information of all blocks; from v of about 350 on a
bound of it. Whatever --v says, a few larger v follow, with the seconds each choice takes.
"""

import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from multiprocessing import Pool

import numpy as np
from printing import arguments, head, line

from dp_spark.uldp.choice import Chosen, best_designs

EPSILONS = ("0.1", "0.25", "0.5", "0.75", "1", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
LARGER, AT = (500, 1_000, 2_000, 5_040, 8_192, 100_000, 1_000_000), ("0.1", "1", "4", "8")
WORST = 12
BINS = (0.0, 0.995, 0.996, 0.997, 0.998, 0.999, 0.9995, 1 - 1e-12)


@dataclass(frozen=True, slots=True)
class Case:
    """What was chosen for w, v and epsilon, and how long it took."""

    w: int
    v: int
    epsilon: str
    chosen: Chosen
    seconds: float

    @property
    def row(self) -> str:
        """As a line of a table."""
        designs = " + ".join(
            f"{float(weight):.2f} {design.name}" if weight < 1 else design.name
            for weight, design in self.chosen.components
        )
        blocks = sum(design.n_blocks for _, design in self.chosen.components)
        reached = self.chosen.efficiency
        shown = f"{reached.value:.6f}" if reached.exact else f"at most {reached.value:.6f}"
        return line(self.w, self.v, self.epsilon, designs, f"{blocks:,}", shown, f"{self.seconds:.2f}")


HEAD = head("w", "v", "epsilon", "designs", "blocks", "efficiency", "seconds")


def case(setting: tuple[int, int, str]) -> Case:
    """One choice, timed."""
    w, v, epsilon = setting
    start = time.perf_counter()
    chosen = best_designs(w, v, Fraction(epsilon))
    return Case(w, v, epsilon, chosen, time.perf_counter() - start)


def kinds(found: Case) -> str:
    """The kinds of design of a mixture, as "singletons + complete"."""
    return " + ".join(design.name.partition("(")[0] for _, design in found.chosen.components)


def main() -> None:
    """Choose and print."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--v", default="1-300", help="sensitive categories, from-to")
    parser.add_argument("--every", type=int, default=1, help="take each N-th v only")
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    first, last = map(int, given.v.split("-"))
    settings = [
        (w, v, epsilon)
        for v, epsilon in product(range(first, last + 1, given.every), given.epsilons)
        for w in sorted({v + 24, max(v, 2), 2 * v})
    ]
    with Pool(given.processes) as pool:
        cases = pool.map(case, settings, chunksize=8)
    values = np.array([each.chosen.efficiency.value for each in cases])
    print(f"{len(cases):,} choices; the slowest took {max(each.seconds for each in cases):.2f} s\n")
    print(head("efficiency from", "choices"))
    for low, high in zip(BINS, (*BINS[1:], 2.0), strict=True):
        print(line("1 (reached)" if high > 1 else low, int(((low <= values) & (values < high)).sum())))
    print(f"\n{head('designs', 'choices', 'least efficiency', 'most blocks')}")
    for kind, count in Counter(map(kinds, cases)).most_common():
        own = [each for each in cases if kinds(each) == kind]
        most = max(sum(design.n_blocks for _, design in each.chosen.components) for each in own)
        least = min(each.chosen.efficiency.value for each in own)
        print(line(kind, count, f"{least:.6f}", f"{most:,}"))
    print(f"\nThe worst:\n\n{HEAD}")
    for index in np.argsort(values, kind="stable")[:WORST]:
        print(cases[index].row)
    print(f"\nLarger v:\n\n{HEAD}")
    for v, epsilon in product(LARGER, AT):
        print(case((min(v + 24, 1_000_000), v, epsilon)).row)


if __name__ == "__main__":
    main()
