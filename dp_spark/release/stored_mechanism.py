"""Mechanisms as what they are, not as how they were chosen: a later version reads the same reports alike.

Designs stand by kind and parameters, with the weights of a mixture as exact fractions. The numbers of reports
follow from them alone.
"""

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from dp_spark.uldp import (
    Affine,
    Complete,
    Design,
    Field,
    Hadamard,
    Hashing,
    Mechanism,
    MechanismName,
    Trivial,
)
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.blocks import BlockSampler, Component

_KINDS: Mapping[str, Any] = {
    "trivial": Trivial,
    "complete": Complete,
    "affine": Affine,
    "field": Field,
    "hadamard": Hadamard,
    "hashing": Hashing,
}


def mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism whose reports are numbers, in terms of JSON.

    Raises:
        TypeError: its reports are bitmaps, which no survey stores.
    """
    if not isinstance(mechanism, BlockMechanism):
        raise TypeError(f"{mechanism.name} reports bitmaps, which are not stored")
    sampler = mechanism.sampler
    return {
        "name": mechanism.name.value,
        "n_categories": sampler.n_categories,
        "n_sensitive": sampler.n_sensitive,
        "epsilon": str(sampler.epsilon),
        "beside": str(sampler.beside),
        "components": [
            {"weight": str(weight), "design": _design_to_json(design)}
            for weight, design in sampler.components
        ],
    }


def mechanism_from_json(stored: Mapping[str, Any]) -> Mechanism:
    """The mechanism that `mechanism_to_json` told.

    Raises:
        KeyError, TypeError, ValueError: something is missing or of another kind.
        PlanRefused: a parameter of a design is out of range.
    """
    components = tuple(
        Component(Fraction(each["weight"]), _design_from_json(each["design"]))
        for each in stored["components"]
    )
    sampler = BlockSampler(
        stored["n_categories"],
        stored["n_sensitive"],
        Fraction(stored["epsilon"]),
        components,
        Fraction(stored["beside"]),
    )
    return BlockMechanism(MechanismName(stored["name"]), sampler)


def _design_to_json(design: Design) -> dict[str, Any]:
    kind = next(kind for kind, made in _KINDS.items() if type(design) is made)
    return {"kind": kind} | {each.name: getattr(design, each.name) for each in fields(_KINDS[kind])}


def _design_from_json(stored: Mapping[str, Any]) -> Design:
    parameters = {name: value for name, value in stored.items() if name != "kind"}
    design: Design = _KINDS[stored["kind"]](**parameters)
    return design
