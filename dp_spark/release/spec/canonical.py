"""The canonical form of a spec: one text for every way to write it, and the digest that names it."""

import hashlib
import json
from fractions import Fraction
from typing import Any

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.spec.domain import DomainSpec
from dp_spark.release.spec.groups import GroupsSpec
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.tables import FrameInput
from dp_spark.release.spec.unit import UnitSpec


def canonical_json(spec: Part) -> str:
    """The same text for every way to write the spec; it can be read as YAML too."""
    return json.dumps(spec, default=plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def canonical_document(spec: Part) -> dict[str, Any]:
    """The canonical JSON, read."""
    document: dict[str, Any] = json.loads(canonical_json(spec))
    return document


def digest(spec: Part) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(spec).encode()).hexdigest()


def plain(value: object) -> object:
    """What JSON does not know, in terms of what it does."""
    match value:
        case GroupsSpec() | DomainSpec():
            return value.written()
        case UnitSpec(is_row=True):
            return {"row": "true"}
        case Part():
            return {key: each for key, each in value if not (each is None or isinstance(each, FrameInput))}
        case PrivacyGuarantee(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon, "delta": delta}
        case Fraction(numerator=numerator, denominator=denominator):
            return f"{numerator}/{denominator}"
        case _:
            raise TypeError(f"a spec holds no {type(value).__name__}")
