"""Lists of categories as an operator writes them: brought to NFC and in order, each once, not too many."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from dp_spark.errors import PlanRefused
from dp_spark.uldp.checking import MOST_CATEGORIES
from dp_spark.uldp.texts import checked_text, shown

MOST_COLUMNS = 32
OTHER = "(other)"  # how the catch-all is shown; no category may be called so


def in_order(
    columns: Mapping[str, Collection[str]],
) -> tuple[list[str], tuple[tuple[str, ...], ...], list[list[int]]]:
    """Names as written, in the order of their NFC; categories of each, in NFC and order; places as written.

    Raises:
        PlanRefused: as `checked_text` and `require_size`, or one text stands for a list.
    """
    names = sorted(columns, key=lambda name: checked_text("column", name))
    categories: list[tuple[str, ...]] = []
    orders: list[list[int]] = []
    for name in names:
        if isinstance(columns[name], str):
            raise PlanRefused(
                "uldp_domain",
                f"categories of {shown(name)} are one text",
                way_out="give a list of texts, or a mapping from each to whether it is sensitive",
            )
        texts = [checked_text(f"category of {shown(name)}", text) for text in columns[name]]
        orders.append(sorted(range(len(texts)), key=texts.__getitem__))
        categories.append(tuple(texts[at] for at in orders[-1]))
    require_size(categories)
    return names, tuple(categories), orders


def require_size(categories: Sequence[Sequence[str]]) -> None:
    """Refuse categories that cross to no cells or too many, or of too many columns."""
    cells = math.prod(map(len, categories)) if categories else 0
    if not 1 <= cells < MOST_CATEGORIES or len(categories) > MOST_COLUMNS:
        raise PlanRefused(
            "uldp_domain",
            f"the domain has {cells:,} cells of {len(categories)} columns (allowed: 1 to "
            f"{MOST_CATEGORIES - 1:,} beside the catch-all, of at most {MOST_COLUMNS} columns)",
            way_out="list the categories that matter; the others count as the catch-all",
        )


def require_order(parameter: str, texts: Sequence[str]) -> None:
    """Refuse texts that are not in NFC and in order, each once, or are that of the catch-all."""
    for text in texts:
        if checked_text(parameter, text) != text or text == OTHER:
            raise PlanRefused(
                "uldp_domain",
                f"{parameter}: {shown(text)} is not in NFC, or is how the catch-all is shown",
                way_out="use another text; answers that are not listed need none",
            )
    for first, second in pairwise(texts):
        if first >= second:
            why = "is there twice, perhaps in two spellings" if first == second else "is out of order"
            raise PlanRefused("uldp_domain", f"{parameter}: {shown(second)} {why}", way_out="list it once")
