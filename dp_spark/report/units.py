"""A privacy unit and its bounds in plain words."""

from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.queries import Bounds
from dp_spark.report.figures import counted

_ONE_PERIOD = {Every.DAY: "on one day", Every.WEEK: "in one week", Every.MONTH: "in one month"}


def unit_words(unit: PrivacyUnit) -> str:
    """One unit: `row`, `tailnum`, `tailnum on one day`, `unit (columns household, person)`."""
    period = "" if unit.per is None else f" {_ONE_PERIOD[unit.per]}"
    return somebody(unit) + period


def somebody(unit: PrivacyUnit) -> str:
    """Who is behind a unit, whatever period it is of."""
    match unit.columns:
        case ():
            return "row"
        case (column,):
            return column
        case columns:
            return f"unit (columns {', '.join(columns)})"


def rows_of(unit: PrivacyUnit) -> str:
    """What the guarantee protects of one unit."""
    return "one row" if unit.is_row else f"all rows of one {unit_words(unit)}"


def bounds_words(bounds: Bounds) -> str:
    """How much of one unit counts: `3 groups, 10 rows in each, 20 rows in all`."""
    rows = bounds.max_rows_per_group
    each = "each" if bounds.max_groups is not None else "each group"
    parts = [
        bounds.max_groups and counted(bounds.max_groups, "group"),
        rows and f"{counted(rows, 'row')} in {each}",
        bounds.max_rows and f"{counted(bounds.max_rows, 'row')} in all",
    ]
    return ", ".join(part for part in parts if part)
