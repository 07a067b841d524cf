"""Packed answers to reports: what a worker does behind the shuffle of a survey.

Of a person's answers one is kept, and it alone is randomized, by words that are a function of the wave's key
and the person: whoever evaluates it, whenever and in however many parts, each person has one report.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.bound import Integers, id_starts
from dp_spark.frames.coding import ListedCoding
from dp_spark.frames.identity import Ids
from dp_spark.frames.packing import Packing
from dp_spark.frames.partition import Buckets
from dp_spark.noise import encode_label, words
from dp_spark.release.spec.survey_columns import GROUP_COLUMN, REPORT_COLUMN, TOKEN_COLUMN

_ROWS_AT_ONCE = 2**17  # what fits a cache sorts twice as fast
_WORDS_OF_A_BLOCK = 2
REPORT_COLUMNS = (TOKEN_COLUMN, GROUP_COLUMN, REPORT_COLUMN)
_ODD = np.uint64(0x9E3779B97F4A7C15)

Randomize: TypeAlias = Callable[[Integers, NDArray[np.uint64]], NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What `drawn_reports` needs to know; travels to the workers.

    Attributes:
        packing: of each column of the answer its texts, then, if there is one, what says which of a person's
            answers comes first.
        code_of_cell: of each cell of listed texts, the last column fastest, its code in the domain.
        catch_all: the code of every other answer.
        report_type: an integer type that holds all reports.
        n_words: uniform words of 64 bits that a report uses.
        randomize: (n,) codes and (n, n_words) words to (n,) reports.
    """

    packing: Packing
    code_of_cell: Integers
    catch_all: int
    report_type: np.dtype[Any]
    n_words: int
    randomize: Randomize


def drawn_reports(
    batches: Iterator[pa.RecordBatch], *, drawing: Drawing, words_key: bytes
) -> Iterator[pa.RecordBatch]:
    """Token, number of the group and report of each person in the buckets of one partition, by tokens."""
    buckets = Buckets(drawing.packing)
    for batch in batches:
        buckets.add(batch)
    for columns in buckets.portions(_ROWS_AT_ONCE):
        ids, group, *rest = columns
        yield _reports(ids.view(np.uint64).reshape(-1, 2), group, rest, drawing, words_key)


def _reports(
    ids: Ids, group: NDArray[Any], values: list[NDArray[Any]], drawing: Drawing, key: bytes
) -> pa.RecordBatch:
    codes = codes_of(values, drawing)
    first = values[-1] if len(values) > _answers(drawing) else None
    chosen = first_answers(ids, group, codes, first)
    return reports_of(np.take(ids, chosen, axis=0), group[chosen], codes[chosen], drawing, key)


def reports_of(
    ids: Ids, group: NDArray[Any], codes: Integers, drawing: Drawing, key: bytes
) -> pa.RecordBatch:
    """The report of each person, (n, 2) identities, (n,) numbers of groups and (n,) codes of answers."""
    reports = drawing.randomize(codes, report_words(key, ids, drawing.n_words))
    columns = [_tokens(ids), pa.array(group.astype(np.int32)), pa.array(reports.astype(drawing.report_type))]
    return pa.RecordBatch.from_arrays(columns, names=[*REPORT_COLUMNS])


def first_answers(ids: Ids, group: NDArray[Any], codes: Integers, first: NDArray[Any] | None) -> Integers:
    """For each person one row, in the order of identities: that of the least `first`.

    Among several of these a function of the identity and of what they say decides, which is a fair coin
    between any two and the same wherever they stand.

    Args:
        ids: identities, shape (rows, 2).
        group: numbers of groups, shape (rows,).
        codes: answers, shape (rows,).
        first: unsigned integers, shape (rows,), or None where nothing orders answers.

    Returns:
        Indices of the rows, shape (people,).
    """
    order = np.argsort(ids[:, 0])
    high = ids[order, 0]
    again = np.append(high[1:] == high[:-1], False)
    if not again.any():
        return order
    crowded = again | np.append(False, again[:-1])
    rows = order[crowded]
    said = group[rows].astype(np.uint64) << np.uint64(32) | codes[rows].astype(np.uint64)
    tied = said * _ODD ^ ids[rows, 1]  # one to one in what is said
    at_first = np.zeros(len(rows)) if first is None else first[rows]
    order[crowded] = rows[np.lexsort((tied, at_first, ids[rows, 1], ids[rows, 0]))]
    return order[id_starts(ids[order])]


def report_words(key: bytes, ids: Ids, n_words: int) -> NDArray[np.uint64]:
    """Uniform words for each identity, (n, 2) to (n, n_words): blocks of AES, each under a key of its own."""
    blocks = [words(key, encode_label("report", i), ids) for i in range(-(-n_words // _WORDS_OF_A_BLOCK))]
    return blocks[0] if n_words == _WORDS_OF_A_BLOCK else np.hstack(blocks)[:, :n_words]


def _answers(drawing: Drawing) -> int:
    """How many columns the answer has."""
    return sum(isinstance(each, ListedCoding) for each in drawing.packing.values)


def codes_of(values: list[NDArray[Any]], drawing: Drawing) -> Integers:
    """The code of each answer, shape (rows,); one with an unlisted text is the catch-all."""
    cell = np.zeros(len(values[0]), dtype=np.int64)
    known = np.ones(len(cell), dtype=bool)
    for coding, places in zip(drawing.packing.values, values, strict=False):
        if isinstance(coding, ListedCoding):
            known &= places != coding.missing
            cell = cell * coding.of.bins + places
    if known.all():
        return drawing.code_of_cell[cell]
    cell[~known] = 0
    return np.where(known, drawing.code_of_cell[cell], drawing.catch_all)


def _tokens(ids: Ids) -> "pa.Array[Any]":
    """Identities as values of 16 bytes."""
    offsets = np.arange(0, 16 * len(ids) + 1, 16, dtype=np.int32)
    body = pa.py_buffer(np.ascontiguousarray(ids).data)
    return pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(offsets.data), body])
