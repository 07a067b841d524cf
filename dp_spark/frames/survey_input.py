"""The input of a survey, checked against its spec before anybody's answer is read."""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.frames.column_checks import KEY_TYPES, PERIOD_TYPES, VALUE_TYPES, Kinds, column_problem
from dp_spark.release.spec import InputFormat, SurveySpec

_ANSWER_TYPES: Kinds = (*VALUE_TYPES, T.DateType, T.BooleanType)
_FIRST_TYPES: Kinds = (T.IntegralType, *PERIOD_TYPES)


def check_survey_columns(frame: DataFrame, spec: SurveySpec) -> None:
    """Refuse a frame that lacks a column of the spec, or has it in a type that cannot serve.

    Raises:
        InputRefused: names every such column, with its type and the types allowed.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = spec.input.format is not InputFormat.CSV
    found = (column_problem(*needed, types, named=named) for needed in _needed(spec))
    if problems := [*filter(None, found)]:
        raise InputRefused(
            "input_columns",
            "the input does not have what the spec names:\n  " + "\n  ".join(problems),
            way_out="name the columns as the input has them, or cast them in the view that writes it; "
            "nobody's answer was read",
        )


def unit_kinds(frame: DataFrame, spec: SurveySpec) -> tuple[str, ...]:
    """As what each column of the unit makes a person: a number and its text are two."""
    return tuple(_kind(frame.schema[column].dataType) for column in spec.unit.columns)


def _kind(of: T.DataType) -> str:
    match of:
        case T.IntegralType():
            return "number"
        case T.DateType():
            return "day"
        case _:
            return "text"


def _needed(spec: SurveySpec) -> Iterator[tuple[str, str, Kinds]]:
    """Where the spec names a column, the column, and the types that it may have."""
    yield from (("unit.column", column, KEY_TYPES) for column in spec.unit.columns)
    yield from (("answer", column, _ANSWER_TYPES) for column in spec.answer)
    yield from (("group_by", column, KEY_TYPES) for column in spec.group_columns)
    if spec.first is not None:
        yield "first", spec.first, _FIRST_TYPES
