"""What a mechanism is given, checked: codes, words, counted reports. No message quotes a value of a row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Ids
from dp_spark.uldp.estimate import ReportCounts
from dp_spark.uldp.words import Words

MOST_REPORTS = 2**53  # what a float counts exactly


def checked_codes(codes: NDArray[Any], words: Words, n_categories: int, n_words: int) -> tuple[Ids, Words]:
    """The codes as int64, and the words.

    Raises:
        PlanRefused: a code lies outside 0..n_categories-1, or a shape or a type is another.
    """
    if isinstance(codes, np.ma.MaskedArray) or isinstance(words, np.ma.MaskedArray):
        raise PlanRefused(
            "masked_array",
            "codes or words are a masked array, whose masked entries are nobody's",
            way_out="give the code of the catch-all, 0, to whoever has no answer, in a plain array",
        )
    codes, words = np.asarray(codes), np.asarray(words)  # a Series would be indexed by its labels
    integers = codes.ndim == 1 and np.issubdtype(codes.dtype, np.integer)
    if not integers or (len(codes) and not (codes.min() >= 0 and codes.max() < n_categories)):
        raise PlanRefused(
            "codes_out_of_range",
            f"codes must be integers from 0 to {n_categories - 1}, in one dimension",
            way_out="take codes from `Domain.codes`, which gives one to every answer",
        )
    if words.shape != (len(codes), n_words) or words.dtype != np.uint64:
        raise PlanRefused(
            "words_of_another_shape",
            f"words of type {words.dtype} and shape {words.shape}; this mechanism takes uint64 of shape "
            f"({len(codes)}, {n_words})",
            way_out="draw `n_words` uniform words of 64 bits for each code",
        )
    return codes.astype(np.int64, copy=False), words


def checked_numbers(given: ReportCounts, size: int) -> tuple[Ids, Ids]:
    """Reports that are numbers below `size`, and how many people sent each.

    Raises:
        PlanRefused: a report is none of the mechanism's, or the counts do not belong to the reports.
    """
    reports, counts = np.asarray(given.reports), _checked_counts(given)
    numbers = reports.ndim == 1 and np.issubdtype(reports.dtype, np.integer)
    if not numbers or (len(reports) and not (reports.min() >= 0 and reports.max() < size)):
        raise _foreign(f"numbers from 0 to {size - 1}")
    return reports.astype(np.int64, copy=False), counts


def checked_bitmaps(given: ReportCounts, width: int) -> tuple[NDArray[np.uint8], Ids]:
    """Reports that are bitmaps of `width` bytes, and how many people sent each.

    Raises:
        PlanRefused: a report is none of the mechanism's, or the counts do not belong to the reports.
    """
    reports, counts = np.asarray(given.reports), _checked_counts(given)
    if reports.ndim != 2 or reports.shape[1] != width or reports.dtype != np.uint8:
        raise _foreign(f"bitmaps of {width} bytes")
    return reports.astype(np.uint8, copy=False), counts


def answered(bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which reports hold an answer in clear, from their non-sensitive bits: (m, w - v) to (m,).

    Raises:
        PlanRefused: one holds two.
    """
    found = bits.sum(axis=1)
    if (found > 1).any():
        raise _foreign("bitmaps with one non-sensitive bit at most")
    one: NDArray[np.bool_] = found == 1
    return one


def _checked_counts(given: ReportCounts) -> Ids:
    counts = np.asarray(given.counts)
    integers = counts.ndim == 1 and np.issubdtype(counts.dtype, np.integer)
    if not integers or len(counts) != len(given.reports) or (len(counts) and counts.min() < 0):
        raise PlanRefused(
            "counts_of_another_shape",
            f"counts of type {counts.dtype} and shape {counts.shape} for {len(given.reports)} reports; each "
            "report needs a whole number of at least 0",
            way_out="count reports by `ReportCounts.of`, or group them by report",
        )
    if float(counts.sum(dtype=np.float64)) > MOST_REPORTS:
        raise PlanRefused(
            "too_many_reports",
            f"the counts of {len(counts)} reports are more than {MOST_REPORTS:,} together",
            way_out="count people, each once",
        )
    return counts.astype(np.int64, copy=False)


def _foreign(wanted: str) -> PlanRefused:
    return PlanRefused(
        "foreign_report",
        f"a report is none of this mechanism's, whose reports are {wanted}",
        way_out="estimate with the mechanism, sizes and epsilon that randomized the answers",
    )
