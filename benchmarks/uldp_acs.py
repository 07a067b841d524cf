"""The ULDP paper's evaluation on ACS 2023, reproduced with its decoders and passed with ours.

50,000 people are drawn without replacement in each replicate; the error is the mean over 277 categories
against the shares of all 1,732,343 people. "and" has 35 sensitive categories, "or" 253. All mechanisms,
decoders and epsilons have the same people; the two decoders have the very same reports.

DP_SPARK_SHARED_DATA=FOLDER python benchmarks/uldp_acs.py [--every 9] [--explain] [--figure docs/uldp_acs.svg]

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173, its figure of mean squared errors on ACS.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
from acs import CASES, Acs, Case, load
from numpy.typing import NDArray
from printing import arguments
from uldp_acs_tables import Point, best_channels, errors_by_epsilon, reproduced, targets
from uldp_channels import block_sizes, hardest_truth
from uldp_errors import (
    LIKELIHOOD,
    PUBLISHED,
    decoder_errors,
    drawn_people,
    estimates,
    floor_errors,
    sampling_errors,
)
from uldp_figure import save_figure

from dp_spark.uldp import MechanismName, mechanism

SEED = 2509_24173
LEAST_STEP = 0.1  # between epsilons: a third of the grid of "or" lies between 5.18 and 5.39


def measured(acs: Acs, case: Case, index: int, people: list[NDArray[np.int64]]) -> Point:
    """One point of every curve, the people given."""
    epsilon = float(acs.curves[case.name, MechanismName.UBD].epsilons[index])
    seed = (SEED, case.n_sensitive, index)
    errors = {}
    for name in MechanismName:
        made = mechanism(name, len(case.truth), case.n_sensitive, epsilon)
        found = list(estimates(made, case, people, seed))
        errors[str(name)] = decoder_errors(case, found)
        if name is MechanismName.UBD:
            floors = floor_errors(case, [shares[LIKELIHOOD] for shares in found])
    return Point(index, epsilon, errors, floors)


@cache
def _shared(replicates: int) -> tuple[Acs, list[NDArray[np.int64]]]:
    acs = load()
    return acs, drawn_people(acs, replicates, SEED)


def _task(task: tuple[str, int, int]) -> Point:
    name, index, replicates = task
    acs, people = _shared(replicates)
    return measured(acs, acs.cases[name], index, people)


def chosen(epsilons: NDArray[np.float64], every: int) -> list[int]:
    """Places on the authors' grid; where it is dense, fewer."""
    places = [0]
    for place in range(every, len(epsilons), every):
        if epsilons[place] - epsilons[places[-1]] >= LEAST_STEP:
            places.append(place)
    return places


def all_points(acs: Acs, settings: argparse.Namespace) -> dict[str, list[Point]]:
    """Every point that was asked for, by case."""
    tasks = [
        (name, index, settings.replicates)
        for name in settings.case
        for index in chosen(acs.curves[name, MechanismName.UBD].epsilons, settings.every)
    ]
    points: dict[str, list[Point]] = {name: [] for name in settings.case}
    with ProcessPoolExecutor(settings.processes) as pool:
        for (name, *_), point in zip(tasks, pool.map(_task, tasks), strict=True):
            points[name].append(point)
            done = sum(map(len, points.values()))
            print(f"{done} of {len(tasks)}: {name}, epsilon {point.epsilon:.3f}", file=sys.stderr, flush=True)
    return points


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--every", type=int, default=10, help="point of the authors' 148 epsilons")
    parser.add_argument("--case", choices=CASES, action="append", help="both if not given")
    parser.add_argument("--figure", help="file of a picture, as .svg or .png")
    parser.add_argument("--explain", action="store_true", help="also other block sizes and the hardest truth")
    parser.add_argument("--processes", type=int, default=2)
    settings = parser.parse_args()
    settings.case = settings.case or list(CASES)
    started, acs = time.perf_counter(), load()
    print(f"{settings.replicates} replicates, seed {SEED}; the authors' have 20; ± is one standard error")
    people = drawn_people(acs, settings.replicates, SEED)
    points = all_points(acs, settings)
    sampling = {name: sampling_errors(acs.cases[name], people) for name in points}
    for name, found in points.items():
        case = acs.cases[name]
        reproduced(acs, case, found, sampling[name])
        for decoder in (PUBLISHED, LIKELIHOOD):
            errors_by_epsilon(case, found, decoder, sampling[name])
        targets(acs, case, found)
        best_channels(case, found)
        if settings.explain:
            block_sizes(case, people, SEED)
            hardest_truth(len(case.truth), case.n_sensitive, settings.replicates, SEED)
    if settings.figure:
        save_figure(settings.figure, acs, points, sampling)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
