"""Whose answers an input holds, as far as is known: the same people under two names would pay half."""

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import Ledger, source_name
from dp_spark.release.spec import InputSpec, SurveySpec


def require_own_answers(ledger: Ledger, spec: SurveySpec) -> None:
    """Check that no survey of another population has the input of this one.

    Raises:
        LedgerRefused: one has.
    """
    if not isinstance(spec.input, InputSpec):
        return
    own, population = source_name(spec.input.place), spec.budget.population
    for source, owner, survey in ledger.answer_sources():
        if source == own and owner != population:
            raise LedgerRefused(
                "source_of_another_population",
                f"input {own!r} was read for survey {survey} of population {owner}",
                way_out=f"write budget: {{population: {owner}}}, or name the input of {population}",
            )
