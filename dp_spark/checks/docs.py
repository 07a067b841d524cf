"""Evidence as Great Expectations' Data Docs: its own rendering, in one page that needs no other file.

Its pages load scripts, styles and an image that tells of whoever looks from other hosts. Of the page that it
renders, nothing is kept but text, tables and the classes of the marks, which a style of ours shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, ClassVar

import great_expectations.expectations
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.expectations.expectation import BatchExpectation, Expectation
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.view.view import DefaultJinjaPageView

from dp_spark.checks.expectations import ExpectColumnArrowTypeToBe
from dp_spark.checks.promises import LARGEST, PromiseKind
from dp_spark.checks.sections import sections_of, veiled

_gxe: Any = great_expectations.expectations  # its names are re-exports, which a strict type check refuses

_OF_THE_RUN = frozenset({"Overview", "Run Info"})


class ExpectAsTold(BatchExpectation):
    """Something that a gate has looked at, in words; nobody evaluates it again."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "column")
    success_keys: ClassVar[tuple[str, ...]] = ("text",)
    args_keys: ClassVar[tuple[str, ...]] = ("text",)
    text: str
    column: str | None = None

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: object = None,
    ) -> dict[str, Any]:
        raise NotImplementedError("the outcome is that of the gate")

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        told = configuration or result.expectation_config
        words = {"template": "$text", "params": {"text": told.kwargs["text"]}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=words)]


def checks_page(facts: Mapping[str, Any]) -> str:
    """The evidence of a release or a wave as a page: no script, no link, nothing from elsewhere."""
    whose, gates = escape(str(facts["release"])), facts.get("gates", {})
    warnings = [each["text"] for each in facts.get("findings", ()) if not each["blocks"]]
    told = "".join(f"<p>Warning: {escape(text)}</p>" for text in warnings)
    failed_first = sorted(gates.items(), key=lambda each: bool(each[1]["passed"]))
    body = "".join(_gate(name, gate) for name, gate in failed_first)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Checks of {whose}</title>'
        f"<style>{_style()}</style></head><body><main><h1>Checks of {whose}</h1>"
        f"{_became(facts, gates)}"
        '<p class="lead">What the gates expected of the staged tables, and whether it was met. '
        f"No value of them is here.</p>{told}{body}</main></body></html>\n"
    )


def _became(facts: Mapping[str, Any], gates: Mapping[str, Any]) -> str:
    """What the gates made of it, in a line."""
    failed = [escape(name) for name, gate in gates.items() if not gate["passed"]]
    why = f": not met in {', '.join(failed)}" if failed else ""
    if facts.get("published_by_decision"):
        decided = "Somebody decided to publish it as it is."
        return f'<p><span class="failed">Published by decision{why}.</span> {decided}</p>'
    if failed:
        return f'<p><span class="failed">Held{why}.</span></p>'
    return '<p><span class="passed">Passed: every gate was met.</span></p>'


def _style() -> str:
    return files("dp_spark.checks").joinpath("docs.css").read_text(encoding="utf-8")


def _gate(name: str, gate: Mapping[str, Any]) -> str:
    word = "passed" if gate["passed"] else "failed"
    failed = "".join(f"<p>Not met: {escape(text)}</p>" for text in gate["failed"])
    shown = sections_of(_rendered(name, gate["expectations"]))
    return f'<h2>{escape(name)} <span class="{word}">{word}</span></h2>{failed}{shown}'


def _rendered(name: str, expectations: Sequence[Mapping[str, Any]]) -> str:
    """The page of Great Expectations, of sections with expectations alone."""
    results = [
        ExpectationValidationResult(
            success=each["met"], expectation_config=expected.configuration, result={}, exception_info={}
        )
        for each in expectations
        for expected in _expected(each)
    ]
    result = ExpectationSuiteValidationResult(
        success=all(each.success for each in results),
        results=results,
        suite_name=veiled(name),
        statistics={},
        meta={"run_id": {"run_name": veiled(name), "run_time": None}},
    )
    page = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    page.sections = [each for each in page.sections if each.section_name not in _OF_THE_RUN]
    view: Any = DefaultJinjaPageView()
    return str(view.render(page))


def _expected(outcome: Mapping[str, Any]) -> Iterator[Expectation]:
    """What an outcome says of each of its columns, as Great Expectations words it where it can."""
    kind, bound = outcome["expectation"], veiled(outcome.get("bound", ""))
    columns = [veiled(each) for each in outcome["columns"]]
    match kind:
        case PromiseKind.TYPE:
            yield from (ExpectColumnArrowTypeToBe(column=each, type_=bound) for each in columns)
        case PromiseKind.NOT_NULL:
            yield from (_gxe.ExpectColumnValuesToNotBeNull(column=each) for each in columns)
        case PromiseKind.CONSTANT:
            yield from (_gxe.ExpectColumnValuesToBeInSet(column=each, value_set=[bound]) for each in columns)
        case PromiseKind.MULTIPLES:
            yield from (ExpectAsTold(column=each, text=f"must be multiples of {bound}.") for each in columns)
        case PromiseKind.FINITE:
            least = f" and at least {float(bound):g}" if float(bound) > -LARGEST else ""
            yield from (ExpectAsTold(column=each, text=f"must be finite{least}.") for each in columns)
        case PromiseKind.ORDERED:
            first, second = columns
            yield _gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A=first, column_B=second, or_equal=True)
        case _:
            words = (veiled(kind).replace("_", " "), ", ".join(columns), bound, _beside(outcome))
            yield ExpectAsTold(text=": ".join(filter(None, words)))


def _beside(outcome: Mapping[str, Any]) -> str:
    return f"beside {veiled(outcome['beside'])}" if "beside" in outcome else ""
