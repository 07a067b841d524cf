"""A mapping of the spec: a frozen model that refuses in our words."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, TypeAdapter, ValidationError, model_validator

from dp_spark.release.problems import MAX_TOLD, Place, Problem, Wrong, refused, shown, unknown_key


class Part(BaseModel, frozen=True, extra="forbid"):
    """A mapping of the spec; refuses in our words whatever pydantic finds.

    Raises:
        SpecRefused: built directly, with everything that is wrong; inside another part, that one raises.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {}
    also: ClassVar[tuple[str, ...]] = ()  # keys that stand for a field in other words

    def __init__(self, /, **written: Any) -> None:
        try:
            super().__init__(**written)
        except ValidationError as failure:
            raise refused("spec_invalid", "spec", list(type(self)._problems(failure))) from None

    # Pydantic takes this for its own __init__: nested parts are validated in place, so that one refusal
    # names the problems of all of them.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def read(cls, written: object, *, source: str) -> Self:
        """The part that `written` holds.

        Raises:
            SpecRefused: names everything that is wrong, and `source` as where it stands.
        """
        try:
            return cls.model_validate(written)
        except ValidationError as failure:
            raise refused("spec_invalid", source, list(cls._problems(failure))) from None

    @classmethod
    def read_key(cls, key: str, written: object, *, source: str) -> Any:
        """The value of one key, checked by itself.

        Raises:
            SpecRefused: as `read`.
        """
        field = cls.model_fields[key]
        of_key = Annotated.__class_getitem__((field.annotation, *field.metadata, None))  # type: ignore[attr-defined]
        try:
            return TypeAdapter(of_key).validate_python(written)
        except ValidationError as failure:
            problems = [problem.under(key) for problem in cls._problems(failure)]
            raise refused("spec_invalid", source, problems) from None

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, written: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(dict(written) if isinstance(written, Mapping) else written)
        except ValidationError as failure:
            raise Wrong(*cls._problems(failure)) from None

    @classmethod
    def _problems(cls, failure: ValidationError) -> Iterator[Problem]:
        for error in failure.errors(include_url=False)[: MAX_TOLD + 1]:
            place, cause = error["loc"], error.get("ctx", {}).get("error")
            if isinstance(cause, Wrong):
                yield from (problem.under(*place) for problem in cause.problems)
            else:
                yield cls._problem(error["type"], place, error["input"])

    @classmethod
    def _problem(cls, kind: str, place: Place, written: object) -> Problem:
        key = str(place[-1]) if place else ""
        if kind == "missing":
            example = (cls.model_fields[key].examples or [""])[0]
            return Problem(f"missing key {key!r}", f"add `{key}: {example}`", at=place)
        keys = [*cls.also, *cls.model_fields]
        if kind in ("extra_forbidden", "invalid_key"):
            problem = unknown_key(key, keys, shown(written))
            return replace(problem, way_out=cls.elsewhere.get(key, problem.way_out))
        allowed = "a mapping with the keys " + ", ".join(keys)
        return Problem("is not a mapping", "write {key: value}", allowed, shown(written), place)
