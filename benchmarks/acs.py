"""People of ACS 2023 in the categories of the ULDP paper's evaluation, and its authors' curves.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173. The files are not part of the project: they are looked for in
the folder that the environment variable DP_SPARK_SHARED_DATA names, else in `shared/data` beside the project.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FOLDER = "DP_SPARK_SHARED_DATA"
CELLS, ROWS, CURVES = "acs2023_uldp_cells.csv", "acs2023_uldp_rows.parquet", "uldp_paper_mse_curves.csv"
CASES = ("and", "or")
PEOPLE = 50_000  # of one replicate of the paper
AUTHORS_REPLICATES = 20
NO_PRIVACY = "no_privacy"


@dataclass(frozen=True, slots=True)
class Case:
    """One way of the paper to say which categories are sensitive.

    Attributes:
        name: "and" or "or".
        n_sensitive: v.
        truth: (w,) shares of all people, sensitive categories first.
        code_of: (w,) the category of each label of `Acs.labels`.
    """

    name: str
    n_sensitive: int
    truth: NDArray[np.float64]
    code_of: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Curve:
    """The authors' mean squared errors of one mechanism.

    Attributes:
        epsilons: (m,) rising.
        means: (m,) over 20 replicates.
        stds: (m,) of one replicate.
    """

    epsilons: NDArray[np.float64]
    means: NDArray[np.float64]
    stds: NDArray[np.float64]

    def at(self, places: Sequence[int]) -> "Curve":
        """The points at these places."""
        chosen = np.asarray(places)
        return Curve(self.epsilons[chosen], self.means[chosen], self.stds[chosen])


@dataclass(frozen=True, slots=True)
class Acs:
    """What the evaluation needs.

    Attributes:
        labels: (1732343,) of each person, from 0.
        cases: by name.
        curves: by case and mechanism, whose names are in small letters; `no_privacy` has one point, whose
            epsilon is not a number.
    """

    labels: NDArray[np.int64]
    cases: dict[str, Case]
    curves: dict[tuple[str, str], Curve]

    def people(self, rng: np.random.Generator, n: int = PEOPLE) -> NDArray[np.int64]:
        """The labels of n people, drawn without replacement."""
        return rng.choice(self.labels, n, replace=False)


def folder() -> Path:
    """Where the files should be."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get(FOLDER, beside))


def missing() -> str | None:
    """Which files are not there, and what to do; None where all are."""
    absent = [name for name in (CELLS, ROWS, CURVES) if not (folder() / name).exists()]
    if not absent:
        return None
    return f"{', '.join(absent)} not found: name the folder of the ACS files in {FOLDER}"


def load() -> Acs:
    """All files.

    Raises:
        SystemExit: they are not there.
    """
    if why := missing():
        raise SystemExit(why)
    cells = pd.read_csv(folder() / CELLS).sort_values("id_and")
    labels = pd.read_parquet(folder() / ROWS)["id_and"].to_numpy().astype(np.int64) - 1
    return Acs(labels, {name: _case(name, cells) for name in CASES}, _curves())


def _case(name: str, cells: pd.DataFrame) -> Case:
    code_of = cells[f"id_{name}"].to_numpy().astype(np.int64) - 1
    people = np.zeros(len(cells))
    people[code_of] = cells["n_2023"]
    return Case(name, int(cells[f"sensitive_{name}"].sum()), people / people.sum(), code_of)


def _curves() -> dict[tuple[str, str], Curve]:
    """Where two segments of the authors' grid meet, the first one's point."""
    points = pd.read_csv(folder() / CURVES).drop_duplicates(["case", "mechanism", "eps"]).sort_values("eps")
    return {
        (str(case), str(mechanism).lower()): Curve(
            part["eps"].to_numpy(), part["mse_mean"].to_numpy(), part["mse_sd"].to_numpy()
        )
        for (case, mechanism), part in points.groupby(["case", "mechanism"])
    }
