"""A spec, or a part of one, as the YAML text that reads back to it."""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

from dp_spark.release.reading import UNPRINTABLE
from dp_spark.release.spec.canonical import plain
from dp_spark.release.spec.release import ReleaseSpec
from dp_spark.release.spec.survey import SurveySpec

_BARE = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*|-?[0-9][0-9.]*")  # needs no quotes in plain YAML
_LINES = ("derive", "queries", "publish")  # lists of mappings, an entry a line
_SHORT = 20  # characters of a decimal; a longer number is written as a fraction


def spec_yaml(spec: ReleaseSpec | SurveySpec | Mapping[str, object]) -> str:
    """The YAML text of a spec: `parse_spec` or `parse_survey` gives one of the same digest back.

    Args:
        spec: a spec, or the keys so far of a release, with the values that `ReleaseSpec` holds.
    """
    written = spec if isinstance(spec, Mapping) else plain(spec)
    assert isinstance(written, Mapping)
    fields = SurveySpec.model_fields if isinstance(spec, SurveySpec) else ReleaseSpec.model_fields
    keys = (key for key in fields if key in written)
    return "".join(f"{line}\n" for key in keys for line in _lines(key, written[key]))


def _lines(key: str, value: object) -> Iterator[str]:
    if key not in _LINES:
        yield f"{key}: {_flow(value)}"
        return
    assert isinstance(value, list | tuple)
    yield f"{key}:"
    yield from (f"  - {_flow(each)}" for each in value)


def _flow(value: object) -> str:
    """The value on one line."""
    match value:
        case str():
            return _scalar(value)
        case int():
            return str(value).lower()  # True and False among them
        case Fraction():
            return _number(value)
        case Mapping():
            return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            return _flow(plain(value))


def _scalar(text: str) -> str:
    """The text, in JSON's quotes (which are YAML's too) where it needs some."""
    if _BARE.fullmatch(text):
        return str(text)
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(str(text), ensure_ascii=False))


def _number(value: Fraction) -> str:
    """The number without loss: `0.5`, `1E-7`, or `1/3` where a decimal is long or has no end."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    text = str(decimal.normalize())
    if value.denominator == 1:
        return str(value.numerator)
    return text.lower() if len(text) <= _SHORT and Fraction(text) == value else str(value)
