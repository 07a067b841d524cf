"""Facts as JSON: dataclasses become objects, exact fractions keep their text beside a float."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any


def as_plain(value: object) -> Any:
    """`value` in terms that `json` writes; keys are the names of the fields, in their order.

    Raises:
        TypeError: it holds something that facts do not consist of.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Fraction):
        return {"exact": str(value), "float": float(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [as_plain(each) for each in value]
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"a report holds no {type(value).__name__}")
