"""Two real surveys: true shares, estimates and intervals by group, and how many groups are small.

    python benchmarks/survey_real.py [--only occupation | status] [--groups N] [--rows N]

Prints of everybody and of the N largest groups the categories of largest share, sensitive ones marked. The
data are public: see `real_surveys`.
"""

import tempfile
from pathlib import Path

import pandas as pd
from printing import arguments, head, line
from real_surveys import OCCUPATIONS, TOTAL, RealSurvey, folder, live, missing, occupation, status

from dp_spark.frames.session import start_session

COLUMNS = ("category", "true", "estimate", "low", "high")


def shown(survey: RealSurvey, found: pd.DataFrame, labels: dict[str, str], groups: int, rows: int) -> None:
    """Print the tables of one survey."""
    by = found.groupby(survey.group)
    sizes = by["reports"].first().sort_values(ascending=False)  # the total is the largest
    for group in sizes.index[: groups + 1]:
        part = found[found[survey.group] == group].sort_values("true", ascending=False)
        largest = pd.concat([part[part["sensitive"]].head(rows), part[~part["sensitive"]].head(rows)])
        print(f"\n{survey.name}, {survey.group} {group}: {sizes[group]:,} reports")
        print(head(*COLUMNS))
        for row in largest.to_dict("records"):
            print(line(*_row(row, labels)))
        print(f"intervals that hold the true share: {_held(part)} of {len(part)}")
    in_groups = found[found[survey.group] != TOTAL]
    small = in_groups.groupby(survey.group)["small"].first()
    print(
        f"\n{survey.name}: {int(small.sum())} of {len(small)} groups are small; in all groups "
        f"{_held(in_groups):,} of {len(in_groups):,} intervals hold the true share"
    )


def _row(row: dict[str, object], labels: dict[str, str]) -> list[str]:
    cell = row["cell"]
    assert isinstance(cell, tuple)
    text = " / ".join(labels.get(part, part) for part in cell)[:60] + (" *" if row["sensitive"] else "")
    return [text, *(f"{row[name]:.3%}" for name in ("true", "share", "share_low", "share_high"))]


def _held(rows: pd.DataFrame) -> int:
    return int(((rows["share_low"] <= rows["true"]) & (rows["true"] <= rows["share_high"])).sum())


def main() -> None:
    """Run both surveys in a directory that is deleted."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--only", choices=["occupation", "status"])
    parser.add_argument("--groups", type=int, default=2, help="groups to print beside everybody")
    parser.add_argument("--rows", type=int, default=8, help="categories to print, sensitive and not")
    given = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    labels = dict(pd.read_csv(folder() / OCCUPATIONS, dtype="string")[["occp", "label"]].to_numpy().tolist())
    spark = start_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"})
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        surveys = {"occupation": lambda: occupation(home / "codes.csv"), "status": status}
        for name, make in surveys.items():
            if given.only in (None, name):
                survey = make()
                found = live(survey, home / name, lambda: spark)
                shown(survey, found, labels, given.groups, given.rows)
    spark.stop()


if __name__ == "__main__":
    main()
