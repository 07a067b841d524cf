"""What a survey reads before anybody answers: categories with their flags, groups, weights of groups.

All of it is public, read once when a wave is opened, and part of the stored plan. A refusal may quote it.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from dp_spark.errors import InputRefused, PlanRefused
from dp_spark.release.group_keys import Keys
from dp_spark.release.list_files import file_texts, told_file
from dp_spark.release.listing import keys_in_files
from dp_spark.release.problems import Wrong, shown, shown_key
from dp_spark.release.public_lists import require_public_path
from dp_spark.release.reading import exact_number
from dp_spark.release.spec import MAX_GROUP_KEYS, GroupWeight, SurveySpec
from dp_spark.release.spec.domain import SENSITIVE_COLUMN
from dp_spark.uldp import Domain

_MOST_CELLS = 1_000_000
_FLAGS = {"true": True, "false": False}
_WAYS_OUT = {  # where a release could name another label
    "groups_null": "remove such rows: a NULL belongs to no public group of a survey",
    "groups_label": "write another text in the list: the labels of a survey's tables are fixed",
}
EVERYBODY: Keys = ((),)  # the groups of a spec without group_by


def survey_domain(spec: SurveySpec, private: Iterable[str]) -> Domain:
    """The categories of a survey, from its spec or its file.

    Raises:
        InputRefused: the file is private or cannot be read, lacks a column, lists a cell twice or without a
            flag; or its categories are no domain.
    """
    listed = spec.domain.listed(spec.answer)
    if listed is not None:
        return listed
    path = spec.domain.file
    assert path is not None  # the one other source
    told = f"domain.file {path!r}"
    _require_public([path], private, told=told)
    rows = file_texts(path, [*spec.answer, SENSITIVE_COLUMN], most=_MOST_CELLS, told=told)
    flags = _flags(rows, told)
    try:
        return domain_of_cells(spec.answer, flags)
    except PlanRefused as refusal:
        raise InputRefused("domain_file", f"{told}: {refusal.message}", way_out=refusal.way_out) from None


def domain_of_cells(columns: Sequence[str], flags: dict[tuple[str, ...], bool]) -> Domain:
    """The domain of columns in the order of their names, by cell; a cell that is not there is sensitive.

    Raises:
        PlanRefused: as `Domain.of_cells`.
    """
    categories = {column: {cell[i] for cell in flags} for i, column in enumerate(columns)}
    every = Domain.of_cells(categories, ())
    sizes = [len(each) for each in every.categories]
    places = [{text: i for i, text in enumerate(each)} for each in every.categories]
    marks = bytearray(b"\1" * len(every.flags))
    for cell, is_sensitive in flags.items():
        at = 0
        for place, size, text in zip(places, sizes, cell, strict=True):
            at = at * size + place[text]
        marks[at] = is_sensitive
    return Domain(every.columns, every.categories, bytes(marks))


def _flags(rows: Iterable[tuple[str | None, ...]], told: str) -> dict[tuple[str, ...], bool]:
    flags: dict[tuple[str, ...], bool] = {}
    for *cell, flag in rows:
        texts = tuple(text for text in cell if text is not None)
        if len(texts) < len(cell):
            way_out = "remove the row: a NULL counts as the catch-all, which is sensitive"
            raise InputRefused("domain_file", f"{told} lists a NULL", way_out=way_out)
        if flag not in _FLAGS:
            raise InputRefused(
                "domain_file",
                f"{told}: {shown_key(texts)} has {SENSITIVE_COLUMN} = {shown(flag)} (allowed: true | false)",
                way_out="say of each category whether it is sensitive, true or false",
            )
        if texts in flags:
            why = f"{told} lists {shown_key(texts)} twice, perhaps in two spellings"
            raise InputRefused("domain_file", why, way_out="list it once")
        flags[texts] = _FLAGS[flag]
    return flags


def survey_groups(spec: SurveySpec, private: Iterable[str]) -> Keys:
    """The groups of a survey in code point order; EVERYBODY where it has no group_by.

    Raises:
        InputRefused: as `keys_in_files`.
    """
    if spec.groups is None:
        return EVERYBODY
    if spec.groups.in_spec:
        return spec.groups.listed(spec.group_columns)
    known = tuple(private)
    for path in spec.groups.files:
        _require_public([path], known, told=told_file(path))
    try:
        return keys_in_files(spec.groups, spec.group_columns, known, rolled=True)
    except InputRefused as refusal:
        way_out = _WAYS_OUT.get(refusal.code, refusal.way_out)
        raise InputRefused(refusal.code, refusal.message, way_out=way_out) from None


def survey_weights(spec: SurveySpec, groups: Keys) -> tuple[Fraction, ...] | None:
    """The weight of each group, exact; None where the spec names none.

    Raises:
        InputRefused: a weight is missing, no number, out of range, or a group has two.
    """
    if spec.weight is None:
        return None
    assert spec.groups is not None and spec.groups.public_file is not None  # noqa: PT018  # checked by the spec
    path, column = spec.groups.public_file, spec.weight.column
    told = told_file(path)
    columns = [*spec.group_columns, column]
    rows = file_texts(path, columns, most=MAX_GROUP_KEYS, told=told, numbers=[column])
    weights: dict[tuple[str | None, ...], Fraction] = {}
    for *key, text in rows:
        weight = _weight(text, spec.weight, told)
        if weights.setdefault(tuple(key), weight) != weight:
            why = f"{told}: group {shown_key(key)} has two weights in column {column!r}"
            raise InputRefused("weight_twice", why, way_out="list each group once")
    return tuple(weights[key] for key in groups)


def _weight(text: str | None, of: GroupWeight, told: str) -> Fraction:
    allowed = f"0 < weight <= {of.upper}"
    read = exact_number(allowed, lambda weight: 0 < weight <= of.upper, "write a larger weight.upper")
    try:
        return read(text)
    except Wrong as failure:
        (problem,) = failure.problems
        why = f"{told}: column {of.column!r}: {problem.told()}"
        raise InputRefused("weight_out_of_range", why, way_out=problem.way_out) from None


def _require_public(paths: Iterable[str], private: Iterable[str], *, told: str) -> None:
    known = tuple(private)
    for path in paths:
        try:
            require_public_path(path, known, told=told)
        except InputRefused:
            raise InputRefused(
                "list_from_private_source",
                f"{told} is read from a source whose rows are private: what occurs in them is what a survey "
                "protects",
                way_out="name a list that is kept apart from the rows and is known before anybody answers",
            ) from None
