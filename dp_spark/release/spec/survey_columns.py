"""The columns that a survey reads and writes, and names that would say too much or mean two things."""

from collections.abc import Iterator, Sequence

from dp_spark.release.problems import Place, Problem, path_text, shown

# Of the reports that a survey stores; the number of a group is its place in the plan.
TOKEN_COLUMN, GROUP_COLUMN, REPORT_COLUMN = "token", "group", "report"
# Of the tables that it publishes, beside group and answer columns.
WAVE_COLUMN, SURVEY_COLUMN = "wave", "survey_id"
COUNT_COLUMN = "n"
SENSITIVE_COLUMN = "sensitive"
SHARE_COLUMNS = ("share", "share_std", "share_low", "share_high")
REPORTS_COLUMN = "reports"
FLAG_COLUMNS = ("small", "biased", "boundary")
OWN_COLUMNS = (
    WAVE_COLUMN, REPORT_COLUMN, COUNT_COLUMN, TOKEN_COLUMN, SENSITIVE_COLUMN, *SHARE_COLUMNS, REPORTS_COLUMN,
    *FLAG_COLUMNS, SURVEY_COLUMN,
)  # fmt: skip


def column_problems(
    unit: Sequence[str], answer: Sequence[str], group_by: Sequence[str], first: str | None
) -> Iterator[Problem]:
    """Columns that stand for two things; case makes no difference: Spark and warehouses fold it."""
    people = {column.casefold(): ("unit",) for column in unit}
    own = {column.casefold() for column in OWN_COLUMNS}
    seen: dict[str, Place] = {}
    for place, column, is_group in _columns(answer, group_by):
        folded = column.casefold()
        if folded in people:
            why = "is a column of unit: " + (
                "a group would name people" if is_group else "who answers is not what is answered"
            )
            yield Problem(why, "name another column", "no column of unit", shown(column), place)
        if folded in own:
            why = "is a column that the survey itself writes"
            yield Problem(
                why, "rename it in the input", "other than " + ", ".join(OWN_COLUMNS), shown(column), place
            )
        if folded in seen:
            why = f"is {path_text(seen[folded])} too"
            if is_group and seen[folded][0] == "answer":
                why += ": the answer would stand beside its report, in clear"
            yield Problem(why, "list it once", "distinct columns, whatever their case", shown(column), place)
        seen.setdefault(folded, place)
    if first is not None and first.casefold() in people:
        why = "is a column of unit: all answers of one person have one value of it"
        yield Problem(why, "name the time of an answer, or remove first", "", shown(first), ("first",))


def _columns(answer: Sequence[str], group_by: Sequence[str]) -> Iterator[tuple[Place, str, bool]]:
    single = len(answer) == 1
    yield from ((("answer",) if single else ("answer", i), name, False) for i, name in enumerate(answer))
    yield from ((("group_by", i), name, True) for i, name in enumerate(group_by))
