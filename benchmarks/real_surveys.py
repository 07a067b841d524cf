"""Two real surveys: occupation by state, and marital status x employment x disability by region; ACS 2024.

The people are those of a public sample of the census, 249,789 in 48 states and DC: true shares may be shown.
The files are not part of the project: they are looked for in the folder that the environment variable
DP_SPARK_SHARED_DATA names, else in `shared/data` beside the project.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import embedded_profile
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import close_survey, estimate_survey, open_survey, randomize_survey

FOLDER = "DP_SPARK_SHARED_DATA"
PEOPLE, OCCUPATIONS, CODES = "acs2024_person_sample250k.parquet", "acs2024_occp.csv", "acs_codebook.csv"
UNIT, TOTAL, OTHER = ("household", "SPORDER"), "(all)", "(other)"

# Whose holders are threatened, harassed or doxed for the job that they have, in families where it is listed:
# law enforcement and correction (supervisors of both, bailiffs, officers, detectives, wardens, probation),
# the armed forces, courts and counsel (but not those who examine titles), and religion, where the job tells
# the faith. 9920 and the catch-all, (other), are those without an occupation: to have none is held against
# people who look for work, rent or credit, and (other) is sensitive in any survey.
SENSITIVE_OCCUPATIONS = {
    3700, 3710, 3801, 3802, 3820, 3840, 3870, 3910, 2015,
    9800, 9810, 9825, 9830,
    2100, 2105, 2145, 2180,
    2040, 2050, 2060,
    9920,
}  # fmt: skip

# A cell is sensitive that has any such part. Divorced and separated, which landlords, employers and one's own
# family hold against people; a death is announced, so widowed is not. Unemployed, which costs the next job, a
# flat or credit. The armed forces, as above. A disability, which is about health.
MARRIED = {1: "married", 2: "widowed", 3: "divorced", 4: "separated", 5: "never married"}
WORKS = {
    1: "at work",
    2: "absent",
    3: "unemployed",
    4: "armed forces",
    5: "armed forces",
    6: "no work sought",
}
CHILD = "under 16"  # is not asked about work
DISABLED = {1: "disabled", 2: "not disabled"}
SENSITIVE_STATES = {"divorced", "separated", "unemployed", "armed forces", "disabled"}

# The census regions, by FIPS codes of states.
REGIONS = {
    "Northeast": "09 23 25 33 34 36 42 44 50",
    "Midwest": "17 18 19 20 26 27 29 31 38 39 46 55",
    "South": "01 05 10 11 12 13 21 22 24 28 37 40 45 47 48 51 54",
    "West": "02 04 06 08 15 16 30 32 35 41 49 53 56",
}


@dataclass(frozen=True, slots=True)
class RealSurvey:
    """A survey and the people who answer it.

    Attributes:
        name: of the question.
        spec: YAML.
        answers: columns of the unit, of the answer and of the group.
        answer: columns of the answer, in the order of their names.
        group: column of the group.
    """

    name: str
    spec: str
    answers: pd.DataFrame
    answer: tuple[str, ...]
    group: str

    def truth(self, listed: Iterable[tuple[str, ...]]) -> "pd.Series[float]":
        """The share of each cell in each group and in all, by group and cell; unlisted ones are (other)."""
        texts = self.answers[list(self.answer)].astype("string")
        cells = pd.Series(list(texts.fillna("").itertuples(index=False, name=None)), index=self.answers.index)
        known = set(listed)
        cells = cells.where(cells.isin(known), pd.Series([(OTHER,) * len(self.answer)] * len(cells)))
        told = pd.DataFrame({"group": self.answers[self.group], "cell": cells})
        everybody = told.assign(group=TOTAL)
        return pd.concat([told, everybody]).groupby("group")["cell"].value_counts(normalize=True)


def folder() -> Path:
    """Where the files should be."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get(FOLDER, beside))


def missing() -> str | None:
    """Which files are not there, and what to do; None where all are."""
    absent = [name for name in (PEOPLE, OCCUPATIONS, CODES) if not (folder() / name).exists()]
    if not absent:
        return None
    return f"{', '.join(absent)} not found: name the folder of the ACS files in {FOLDER}"


def occupation(codes: Path) -> RealSurvey:
    """Occupation, 530 codes, by state; writes the codes with their flags to a file, the domain's."""
    people = pd.read_parquet(folder() / PEOPLE, columns=[*UNIT, "STATE", "OCCP"])
    occupations = pd.read_csv(folder() / OCCUPATIONS)["occp"]
    pd.DataFrame({"occp": occupations, "sensitive": occupations.isin(SENSITIVE_OCCUPATIONS)}).replace(
        {True: "true", False: "false"}
    ).to_csv(codes, index=False)
    book = pd.read_csv(folder() / CODES, dtype="string")
    states = book.loc[book["column"] == "STATE", "value_min"].tolist()
    answers = people.rename(columns={"OCCP": "occp", "STATE": "state"})
    spec = _spec("occupation", "occp", f"{{file: {codes}}}", "state", states)
    return RealSurvey("occupation", spec, answers, ("occp",), "state")


def status() -> RealSurvey:
    """Marital status, employment and disability, crossed, by region."""
    people = pd.read_parquet(folder() / PEOPLE, columns=[*UNIT, "STATE", "MAR", "ESR", "DIS"])
    region_of = {state: region for region, states in REGIONS.items() for state in states.split()}
    answers = people[list(UNIT)].assign(
        marital=people["MAR"].map(MARRIED),
        work=people["ESR"].map(WORKS).fillna(CHILD),
        disability=people["DIS"].map(DISABLED),
        region=people["STATE"].map(region_of),
    )
    columns = {"marital": MARRIED.values(), "work": {*WORKS.values(), CHILD}, "disability": DISABLED.values()}
    flags = {
        name: {text: text in SENSITIVE_STATES for text in sorted(set(of))} for name, of in columns.items()
    }
    listed = ", ".join(f"{name}: {_yaml(of)}" for name, of in flags.items())
    spec = _spec("status", f"[{', '.join(columns)}]", f"{{categories: {{{listed}}}}}", "region", REGIONS)
    return RealSurvey("status", spec, answers, tuple(sorted(columns)), "region")


def live(survey: RealSurvey, home: Path, spark: Callable[[], SparkSession]) -> pd.DataFrame:
    """Run one wave of the survey in `home`, from account to seal; estimates beside `true` shares."""
    profile = embedded_profile(home)
    table = pa.Table.from_pandas(survey.answers, preserve_index=False)
    (home / "in").mkdir(parents=True)
    pq.write_table(table, home / "in" / "answers.parquet")
    text = survey.spec.replace("path: in", f"path: {home}/in").replace("path: out", f"path: {home}/out")
    spec = parse_survey(text)
    make_places(profile)
    open_ledger(profile).set_survey_limit(
        "acs_persons", survey.name, Fraction(1), unit=PrivacyUnit(UNIT), reason="public people, in a trial"
    )
    open_survey(spec, "2024", profile=profile, reason="a trial")
    randomize_survey(spec, "2024", profile=profile, spark=spark)
    close_survey(spec, "2024", profile=profile, spark=spark)
    found = estimate_survey(spec, "2024", profile=profile, spark=spark).table.to_pandas()
    cells = list(found[list(survey.answer)].itertuples(index=False, name=None))
    keys = pd.MultiIndex.from_arrays([found[survey.group], pd.Series(cells)])
    true = survey.truth(cells).reindex(keys, fill_value=0.0)
    return found.assign(cell=cells, true=true.to_numpy())


def _spec(name: str, answer: str, domain: str, group: str, groups: Iterable[str]) -> str:
    listed = ", ".join(f'"{each}"' for each in groups)
    return f"""
survey: {name}
input: {{format: parquet, path: in}}
unit: {{columns: [{", ".join(UNIT)}], on_null: drop}}
answer: {answer}
domain: {domain}
epsilon: 1
group_by: [{group}]
groups: {{public: [{listed}]}}
budget: {{population: acs_persons}}
publish: [{{sink: parquet, path: out}}]
"""


def _yaml(flags: Mapping[str, bool]) -> str:
    return "{" + ", ".join(f"{text}: {str(flag).lower()}" for text, flag in flags.items()) + "}"
