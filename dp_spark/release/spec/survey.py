"""The spec of a survey: one question to a population, each answer randomized before it is stored."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.release.problems import Place, Problem, Wrong, shown, wrong
from dp_spark.release.reading import exact_number, read_each, read_list, read_normal_text, word_of
from dp_spark.release.spec.canonical import canonical_json, digest
from dp_spark.release.spec.domain import DomainSpec, domain_problems
from dp_spark.release.spec.groups import OTHER_LABEL, TOTAL_LABEL, GroupsSpec, group_problems
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.survey_columns import column_problems
from dp_spark.release.spec.tables import FrameInput, InputSpec, SinkSpec, path_problems, read_input
from dp_spark.release.spec.unit import UnitSpec
from dp_spark.release.spec.values import Column, Population, ReleaseName, Shape
from dp_spark.uldp import Consistency, MechanismName, Method

_NO_GROUPS = {
    "private": "attributes beside a report are not protected, so its groups must be public before anybody "
    "answers",
    "public_table": "its groups are fixed when a wave is opened, from the spec or a file",
}
NUMBERED = tuple(name for name in MechanismName if name not in (MechanismName.URAP, MechanismName.UOUE))

Epsilon = Annotated[
    Fraction,
    BeforeValidator(
        exact_number(
            "0.0001 <= epsilon <= 20",
            lambda epsilon: Fraction(1, 10_000) <= epsilon <= 20,
            "write for instance 1.0; 0.5 to 3 is usual for one question",
        )
    ),
]
_Upper = Annotated[
    Fraction,
    BeforeValidator(
        exact_number("0 < upper <= 1e15", lambda upper: 0 < upper <= 10**15, "write the largest that occurs")
    ),
]


def _read_answer(value: object) -> tuple[str, ...]:
    """One column, or a list of those that are crossed, in the order of their names."""
    if not isinstance(value, list | tuple):
        return (read_normal_text(value),)
    columns = read_each(enumerate(read_list(value)), read_normal_text)
    twice = [
        Problem("is listed twice", "list it once", "distinct columns", shown(column), (i,))
        for i, column in enumerate(columns)
        if column in columns[:i]
    ]
    if twice:
        raise Wrong(*twice)
    return tuple(sorted(columns))


def _read_mechanism(value: object) -> MechanismName:
    if value in (MechanismName.URAP, MechanismName.UOUE):
        raise wrong(
            value,
            "reports a bitmap of all categories, which is offered for comparisons only",
            allowed=" | ".join(NUMBERED),
            way_out=f"write {MechanismName.UBD}: its report is one number",
        )
    return word_of(NUMBERED)(value)


class GroupWeight(Part, frozen=True):
    """What a group counts in the total: a public number, 0 < w <= upper, in a column of its file."""

    column: Column = Field(examples=["population"])
    upper: _Upper = Field(examples=["1e6"])


class EstimateSpec(Part, frozen=True):
    """How shares are estimated from the reports."""

    method: Annotated[Method, BeforeValidator(word_of(Method))] = Method.LIKELIHOOD
    consistency: Annotated[Consistency, BeforeValidator(word_of(Consistency))] = Consistency.NONE


class SurveyBudget(Part, frozen=True):
    """Whose account pays: that of this population for this question, which `dp-spark ledger` keeps."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("horizon", "pool"), "remove it: each wave costs epsilon, of an account of its own"
    )

    population: Population = Field(examples=["us_persons"])


class SurveySpec(Part, frozen=True):
    """One question: whose answers, which categories, how well each answer is hidden, where estimates go.

    Built in Python, parts are mappings or parts, and numbers may be int, Fraction, Decimal, text, or a
    float, which counts as the decimal that Python prints for it.

    Raises:
        SpecRefused: names everything that is wrong.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "wave": "remove it: the command names it, --wave 2024q1",
        "bounds": "remove it: a person has one report",
        "guarantee": "write `epsilon: 1.0`: a report is hidden by epsilon alone",
        "delta": "remove it: a report is hidden by epsilon alone",
        "queries": "remove it: the shares of all categories are estimated",
        "where": "remove it: leave rows out of the input, or make what they answer a category",
        "period": "remove it: a wave is opened and closed by commands",
    }

    survey: ReleaseName = Field(examples=["work_status"])
    input: Annotated[InputSpec | FrameInput, PlainValidator(read_input)] = FrameInput()
    unit: UnitSpec = Field(examples=["{column: COLUMN, on_null: drop}"])
    answer: Annotated[tuple[str, ...], PlainValidator(_read_answer)] = Field(examples=["work"])
    domain: DomainSpec = Field(examples=["{categories: {at school: false, ill: true}}"])
    first: Column | None = Field(None, examples=["answered_at"])
    epsilon: Epsilon = Field(examples=["1.0"])
    mechanism: Annotated[MechanismName, PlainValidator(_read_mechanism)] = MechanismName.UBD
    group_by: Annotated[tuple[Column, ...], BeforeValidator(read_list)] | None = Field(
        None, examples=["[state]"]
    )
    groups: GroupsSpec | None = Field(None, examples=["{public: [CA, NY]}"])
    weight: GroupWeight | None = Field(None, examples=["{column: population, upper: 1e6}"])
    estimate: EstimateSpec = EstimateSpec()
    budget: SurveyBudget = Field(examples=["{population: us_persons}"])
    publish: Annotated[tuple[SinkSpec, ...], BeforeValidator(read_list)] = Field(
        examples=["[{sink: parquet, path: out/work_status}]"]
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *_unit_problems(self.unit),
            *column_problems(self.unit.columns, self.answer, self.group_by or (), self.first),
            *domain_problems(self.domain, self.answer),
            *_group_problems(self),
            *_weight_problems(self),
            *path_problems(self.input, self.publish),
            *_shape_problems(self.publish),
        ]
        if problems:
            raise Wrong(*problems)
        return self

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of a group; none where everybody is one."""
        return self.group_by or ()

    def canonical_json(self) -> str:
        """The same text for every way to write this spec; `parse_survey` reads it too."""
        return canonical_json(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return digest(self)


def _shape_problems(publish: Sequence[SinkSpec]) -> Iterator[Problem]:
    for i, sink in enumerate(publish):
        if sink.shape is Shape.LONG:
            why = "is none of a survey, whose tables have a row for each category already"
            yield Problem(why, "remove it", "wide", shown(sink.shape.value), ("publish", i, "shape"))


def _unit_problems(unit: UnitSpec) -> Iterator[Problem]:
    """A unit that is less than a person."""
    if unit.is_row:
        why = "does not go with a survey: a person answers once, and two rows of one would be two reports"
        way_out = "name the column that tells people apart: {column: person, on_null: drop}"
        yield Problem(why, way_out, "column | columns", "'true'", ("unit", "row"))
    if unit.per is not None:
        why = "does not go with a survey: a person answers once in a wave, and each wave is charged"
        yield Problem(why, "remove per", "no per", shown(str(unit.per)), ("unit", "per"))


def _group_problems(spec: SurveySpec) -> Iterator[Problem]:
    """Groups without columns or the reverse, or groups that rows would have to tell."""
    groups = spec.groups
    if groups is None:
        if spec.group_by:
            way_out = "add `groups: {public: [..]}`, or public_file, or remove group_by"
            yield Problem("missing key 'groups': group_by needs a public list", way_out)
        return
    if not spec.group_by:
        why = "says nothing without group_by: everybody is one group"
        yield Problem(why, "add `group_by: [COLUMN]`, or remove groups", at=("groups",))
        return
    if groups.source in ("private", "public_table"):
        why = f"does not go with a survey: {_NO_GROUPS[groups.source]}"
        place = ("groups", groups.source)
        yield Problem(why, "write public or public_file", "public | public_file", at=place)
        return
    yield from group_problems(groups, spec.group_by, (), rolled=True)
    yield from _label_problems(groups)


def _label_problems(groups: GroupsSpec) -> Iterator[Problem]:
    if groups.null_label is not None:
        why = "does not go with a survey: a NULL in a group column belongs to no public group"
        place = ("groups", "null_label")
        yield Problem(why, "remove it, or name the NULL in the input", "", shown(groups.null_label), place)
    for key, label in (("total_label", TOTAL_LABEL), ("other_label", OTHER_LABEL)):
        if getattr(groups, key) != label:
            why = "does not go with a survey: its tables have labels of their own"
            yield Problem(why, "remove it", shown(label), shown(getattr(groups, key)), ("groups", key))


def _weight_problems(spec: SurveySpec) -> Iterator[Problem]:
    """A weight that no public file has, or that is a group column."""
    if spec.weight is None:
        return
    place: Place = ("weight", "column")
    if spec.groups is None or spec.groups.public_file is None:
        why = "needs groups.public_file: it is a column of that file, one public value for each group"
        way_out = "write groups: {public_file: states.csv}, or remove weight"
        yield Problem(why, way_out, "with groups.public_file only", shown(spec.weight.column), place)
    elif spec.weight.column in spec.group_columns:
        why = "is a column of group_by: a weight is a number beside a group"
        yield Problem(why, "name the column that has the weights", "", shown(spec.weight.column), place)
