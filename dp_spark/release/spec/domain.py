"""The domain of a survey as it is written: categories with their flags, or a public file that has them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.errors import PlanRefused
from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import read_each, read_normal_text, read_truth, word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import Location
from dp_spark.uldp import Domain, SensitiveIf

SENSITIVE_COLUMN = "sensitive"  # of a file that has the domain
_FORMS = "{category: true | false} | {column: {category: true | false}}"


@dataclass(frozen=True, slots=True)
class Categories:
    """Categories of one column, each with whether it is sensitive, in code point order.

    Attributes:
        column: which of several; None where the answer is one column.
        flags: pairs of a text and whether it is sensitive.
    """

    column: str | None
    flags: tuple[tuple[str, bool], ...]


def read_categories(value: object) -> tuple[Categories, ...]:
    """The categories of one column, or of each of several in the order of their names."""
    if isinstance(value, tuple) and value and all(isinstance(each, Categories) for each in value):
        return value
    if not isinstance(value, Mapping):
        way_out = "say of each category whether it is sensitive: {at school: false, ill: true}"
        raise wrong(value, "is not a mapping", allowed=_FORMS, way_out=way_out)
    if not value:
        raise wrong(value, "is empty", allowed="1 category or more", way_out="list those that are known")
    nested = [isinstance(each, Mapping) for each in value.values()]
    if not any(nested):
        return (Categories(None, _read_flags(value)),)
    if not all(nested):
        way_out = "write {column: {category: true | false}} for every column, or flags alone for one"
        raise wrong(dict(value), "mixes flags and columns", allowed=_FORMS, way_out=way_out)
    return tuple(
        read_each(((str(column), (column, value[column])) for column in sorted(value, key=str)), _read_column)
    )


def _read_column(written: object) -> Categories:
    assert isinstance(written, tuple)
    column, flags = written
    if not flags:
        raise wrong(
            dict(flags), "is empty", allowed="1 category or more", way_out="list those that are known"
        )
    return Categories(read_normal_text(column), _read_flags(flags))


def _read_flags(flags: Mapping[object, object]) -> tuple[tuple[str, bool], ...]:
    texts = read_each(((str(text), text) for text in flags), read_normal_text)
    said = read_each(((str(text), flag) for text, flag in flags.items()), read_truth)
    return tuple(sorted(zip(texts, said, strict=True)))


class DomainSpec(Part, frozen=True):
    """Which answers are told apart, and which of them are sensitive.

    Whatever is not listed, NULL or unknown counts as the catch-all, which is sensitive. With a file the flag
    of a category, or of a cell of several columns, stands beside it in the column `sensitive`.
    """

    categories: Annotated[tuple[Categories, ...], PlainValidator(read_categories)] | None = Field(
        None, examples=["{at school: false, ill: true}"]
    )
    sensitive: Annotated[SensitiveIf, BeforeValidator(word_of(SensitiveIf))] = SensitiveIf.ANY
    file: Location | None = Field(None, examples=["codes.csv"])

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.categories is None and self.file is None:
            way_out = "add `categories: {at school: false, ill: true}`, or `file: codes.csv`"
            raise Wrong(Problem("missing key 'categories'", way_out, "categories | file"))
        if self.categories is not None and self.file is not None:
            why = "stands beside categories: a domain has one source"
            raise Wrong(Problem(why, "keep one of the two", "categories | file", shown(self.file), ("file",)))
        if self.sensitive is not SensitiveIf.ANY and not self._is_crossed:
            why = "says nothing: the rule is for cells of several columns that `categories` lists"
            allowed, rule = "with several columns only", shown(str(self.sensitive))
            raise Wrong(Problem(why, "remove it", allowed, rule, ("sensitive",)))
        return self

    @property
    def _is_crossed(self) -> bool:
        return bool(self.categories) and self.categories[0].column is not None  # type: ignore[index]

    def written(self) -> dict[str, object]:
        """What is said, without what is left at its default: the canonical form."""
        if self.file is not None:
            return {"file": self.file}
        assert self.categories is not None
        listed = {each.column: dict(each.flags) for each in self.categories}
        rule = {} if self.sensitive is SensitiveIf.ANY else {SENSITIVE_COLUMN: self.sensitive}
        return {"categories": listed if self._is_crossed else dict(self.categories[0].flags), **rule}

    def listed(self, answer: Sequence[str]) -> Domain | None:
        """The domain that the spec itself lists for these columns; None where a file has it.

        Raises:
            PlanRefused: as `Domain.crossed`.
        """
        if self.categories is None:
            return None
        columns = {each.column or answer[0]: dict(each.flags) for each in self.categories}
        return Domain.crossed(columns, self.sensitive)


def domain_problems(domain: DomainSpec, answer: Sequence[str]) -> Iterator[Problem]:
    """Categories of other columns than the answer has, or such as no domain can have."""
    place = ("domain", "categories")
    if domain.file is not None:
        return
    assert domain.categories is not None
    columns = [each.column for each in domain.categories if each.column is not None]
    if len(answer) == 1 and columns:
        why, way_out = "names columns, and the answer is one", "write {category: true | false} alone"
        yield Problem(why, way_out, "{category: true | false}", shown(columns), place)
    elif len(answer) > 1 and sorted(columns) != sorted(answer):
        why = (
            "has other columns than the answer"
            if columns
            else "does not say of which column each category is"
        )
        way_out = f"write {{category: true | false}} for each of {', '.join(answer)}"
        yield Problem(why, way_out, shown(list(answer)), shown(columns) if columns else "", place)
    else:
        try:
            domain.listed(answer)
        except PlanRefused as refusal:
            yield Problem(refusal.message, refusal.way_out, at=place)
