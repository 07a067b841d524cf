"""A release in Python: from a spec, or said word by word; planned, explained and run."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from dp_spark.errors import SetupRefused, SpecRefused
from dp_spark.notebook import asking, choosing, grouping, places
from dp_spark.notebook.explanation import Explanation, explained
from dp_spark.notebook.missing import missing, require_complete
from dp_spark.notebook.words import Number
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.profile import Profile, load_profile
from dp_spark.release.spec import FROM_BUDGET, ReleaseSpec, load_spec, parse_spec, spec_yaml
from dp_spark.report import RunResult

if TYPE_CHECKING:  # nothing but `run` needs Spark
    from pyspark.sql import DataFrame, SparkSession

Chosen: TypeAlias = Profile | str | os.PathLike[str] | None


@dataclass(frozen=True, init=False, repr=False)
class Release:
    """A release, whole or still to be completed; every word gives a new one and changes none.

    A word that is said again replaces what it said before, with these exceptions: a second `where` narrows
    the first, and `derived`, the queries and `published` add to what is there. Each word is checked as it is
    said, and what words must be together when the release is planned, explained or run.

    Numbers are exact: an int, a text such as "1e-6" or "1/3", a Decimal, a Fraction; a float counts as the
    decimal that Python prints for it.

    Args:
        spec: a spec, or a mapping with the keys of one.

    Raises:
        SpecRefused: the mapping, or a word, is wrong; names everything that is.
    """

    parts: Mapping[str, Any]

    def __init__(self, spec: ReleaseSpec | Mapping[str, Any]) -> None:
        if isinstance(spec, str | os.PathLike):
            raise SpecRefused(
                "spec_invalid",
                "Release(...) takes a ReleaseSpec or a mapping, not a text or a path",
                way_out="write Release.read(PATH), Release.parse(YAML) or Release.named(NAME)",
            )
        whole = spec if isinstance(spec, ReleaseSpec) else ReleaseSpec.read(spec, source="spec")
        object.__setattr__(self, "parts", {key: each for key, each in whole if each is not None})

    @classmethod
    def named(cls, name: str) -> Self:
        """A release of this name that says nothing else yet."""
        release = object.__new__(cls)
        object.__setattr__(release, "parts", {})
        return release._with("release", name)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The release in a YAML file."""
        return cls(load_spec(Path(path)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The release that a YAML text writes."""
        return cls(parse_spec(text))

    def of_units(self, *columns: str, per: str | None = None) -> Self:
        """Protect all rows that share the values of these columns; rows with a NULL there count nowhere.

        Args:
            columns: of text, whole numbers, dates or booleans.
            per: `day`, `week` or `month`: protect only the rows of one such period together.
        """
        period = {} if per is None else {"per": per}
        return self._with("unit", {"columns": list(columns), "on_null": "drop", **period})

    def of_rows(self) -> Self:
        """Protect each row by itself, and nobody as the whole of their rows; a row needs no bounds."""
        rows = self._with("unit", {"row": True})
        return rows._without("bounds")

    def neighbours(self, relation: str) -> Self:
        """Hide whether a unit is there (`add_remove`), or which unit stands in its place (`replace`)."""
        return self._with("neighbours", relation)

    def bounded(
        self,
        *,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        max_rows: int | None = None,
    ) -> Self:
        """Use at most so much of one unit: `max_rows`, or both of the others, or any of them with it.

        Args:
            max_groups: groups in which its rows count.
            max_rows_per_group: rows in each of them.
            max_rows: rows in all.
        """
        bounds = {"max_groups": max_groups, "max_rows_per_group": max_rows_per_group, "max_rows": max_rows}
        return self._with("bounds", {key: each for key, each in bounds.items() if each is not None})

    reading = places.reading
    published = places.published
    period = choosing.period
    ready = choosing.ready
    compared = choosing.compared
    where = choosing.where
    derived = choosing.derived

    grouped_by = grouping.grouped_by
    groups_in_file = grouping.groups_in_file
    groups_in_table = grouping.groups_in_table
    groups_selected = grouping.groups_selected
    rolled_up = grouping.rolled_up
    labelled = grouping.labelled

    count = asking.ask_count
    ids = asking.ask_ids
    sum = asking.ask_sum
    mean = asking.ask_mean
    variance = asking.ask_variance
    std = asking.ask_std
    distinct = asking.ask_distinct
    histogram = asking.ask_histogram
    quantiles = asking.ask_quantiles
    min = asking.ask_min
    max = asking.ask_max
    ratio = asking.ask_ratio

    def guaranteed(self, *, epsilon: Number, delta: Number) -> Self:
        """Promise (epsilon, delta) for one release: 0 < epsilon <= 100, 0 < delta <= 0.1."""
        return self._with("guarantee", {"epsilon": epsilon, "delta": delta})

    def noise(self, law: str | Mapping[str, Any]) -> Self:
        """Draw noise of this law: `auto` (the least variance), `laplace`, `logistic`, `gaussian`.

        Between laplace (1) and gaussian (2) and beyond them lies `{"subbotin": "1.5"}`.
        """
        return self._with("noise", law)

    def guaranteed_from_budget(self) -> Self:
        """Promise what the account allows if so many releases as `paid_by` says use it up together.

        It is run once `dp-spark ledger schedule add` has enrolled the spec.
        """
        return self._with("guarantee", FROM_BUDGET)

    def paid_by(self, population: str, *, horizon: int | None = None, pool: str | None = None) -> Self:
        """Charge the account of this population, which `dp-spark ledger budget set` opens; never a run.

        Args:
            population: its name.
            horizon: how many releases `dp-spark ledger schedule add` enrols.
            pool: `sums` or `zcdp`: the pool that pays, of an account that has both; no slot is taken then.
        """
        written = {"population": population, "horizon": horizon, "pool": pool}
        return self._with("budget", {key: each for key, each in written.items() if each is not None})

    @cached_property
    def spec(self) -> ReleaseSpec:
        """The spec, of the same digest as the YAML that says the same.

        Raises:
            SpecRefused: something is not said yet, or does not go together.
        """
        require_complete(self.parts["release"], self.parts)
        return ReleaseSpec.read(self.parts, source=self._source())

    def to_yaml(self) -> str:
        """The YAML text of the spec, for a file that `dp-spark run` reads."""
        return spec_yaml(self.spec)

    @cached_property
    def _plan(self) -> ReleasePlan:
        return plan_release(self.spec)

    def plan(self) -> ReleasePlan:
        """The plan: noise and error of every number, before a row is read; made once.

        Raises:
            SpecRefused: as `spec`.
            PlanRefused: no noise meets the guarantee, or numbers do not fit.
        """
        return self._plan

    def explain(self, *, profile: Chosen = None) -> Explanation:
        """The plan in words: whom it protects, what it costs and how wrong each number may be.

        Raises:
            Refusal: as `plan`, or the profile cannot be read. Without a ledger the words say so.
        """
        return explained(self.spec, self.plan, _profile(profile))

    def run(
        self,
        spark: "SparkSession",
        df: "DataFrame | None" = None,
        *,
        key: str | date,
        revise: str | None = None,
        profile: Chosen = None,
        observe: Callable[[str], None] = lambda step: None,
    ) -> RunResult:
        """Privatize, check, publish and seal one period; again: go on, or serve what is sealed.

        It is what `dp-spark run` does: the same ledger and charge, gates, copies and statement.

        Args:
            spark: a session, classic or Connect. It keeps its settings and its log level.
            df: the rows, of a release without `reading` or `input`; read in its own session. What computes
                it must give the same rows each time, and must not fail on the value of one.
            key: first day of the period, YYYY-MM-DD.
            revise: why the period is released again, with noise and a charge of its own.
            profile: a profile or its path; else as on the command line, `./.dp_spark` in the end.
            observe: told each step before it begins.

        Raises:
            Refusal: with a code and a way out; running again goes on where this run stopped.
        """
        spec, places = self.spec, _profile(profile)
        try:
            from dp_spark.notebook.running import run_in_session  # noqa: PLC0415  # needs Spark
        except ModuleNotFoundError as failure:
            raise SetupRefused(
                "extra_missing", f"{failure.name} is not installed", way_out="pip install 'dp-spark[spark]'"
            ) from None
        return run_in_session(
            spec,
            key.isoformat() if isinstance(key, date) else key,
            spark=spark,
            frame=df,
            profile=places,
            revise=revise,
            observe=observe,
        )

    def __repr__(self) -> str:
        """What is said so far as YAML, and what is not."""
        return spec_yaml(self.parts) + "".join(f"# not said yet: {each}\n" for each in missing(self.parts))

    def _source(self) -> str:
        return f"release {self.parts['release']!r}" if "release" in self.parts else "release"

    def _with(self, key: str, written: object) -> Self:
        changed = object.__new__(type(self))
        value = ReleaseSpec.read_key(key, written, source=self._source())
        object.__setattr__(changed, "parts", {**self.parts, key: value})
        return changed

    def _without(self, key: str) -> Self:
        changed = object.__new__(type(self))
        object.__setattr__(
            changed, "parts", {each: value for each, value in self.parts.items() if each != key}
        )
        return changed

    def _added(self, key: str, written: object) -> Self:
        return self._with(key, [*self.parts.get(key, ()), written])


def _profile(chosen: Chosen) -> Profile:
    """The profile, or the one that is found as on the command line."""
    if isinstance(chosen, Profile):
        return chosen
    return load_profile(None if chosen is None else os.fspath(chosen))
