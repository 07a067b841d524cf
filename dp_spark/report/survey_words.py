"""Phrases about surveys that console and page share."""

import math
from collections.abc import Iterator

from dp_spark.report.figures import counted, exact, figures, listed_names
from dp_spark.report.phrases import NO_LEDGER
from dp_spark.report.survey_facts import AccountFacts, GroupReports, SurveyFacts

_WAVES = 10  # of which odds are told


def title(facts: SurveyFacts) -> str:
    """What the reader holds: a plan, or the statement of one wave."""
    return f"Statement of {facts.sealed.wave_id}" if facts.sealed else f"Plan of survey {facts.survey}"


def lead(facts: SurveyFacts) -> str:
    """One sentence under the title: what is asked of whom, and how well it is hidden."""
    return (
        f"{' and '.join(facts.answer)} of each {facts.unit} of {facts.population}, randomized before it is "
        f"stored; epsilon {exact(facts.epsilon)} a report"
    )


def asked(facts: SurveyFacts) -> tuple[tuple[str, str], ...]:
    """What is asked of whom, and where it goes, as (name, text)."""
    stands = "a fixed choice" if facts.first is None else f"that of least {facts.first}"
    estimates = f"by {facts.method}" + ("" if facts.consistency == "none" else f", {facts.consistency}")
    beside = f"{', '.join(facts.group_by)}: {counted(facts.groups, 'group')}" if facts.group_by else "nothing"
    return (
        ("question", f"{facts.survey}: {' and '.join(facts.answer)}"),
        ("of", f"each {facts.unit}, one report in a wave; of several answers {stands} stands"),
        ("answers", f"from {facts.source}"),
        ("beside it", beside + (", weighted in the total" if facts.weighted else "")),
        ("left out", facts.left_out),
        ("epsilon", f"{exact(facts.epsilon)}, of each report"),
        ("categories", f"{facts.n_categories:,}, of which {facts.n_sensitive:,} are sensitive"),
        ("sensitive", _names(facts.sensitive)),
        ("not sensitive", _names(facts.not_sensitive) if facts.not_sensitive else "none: all are sensitive"),
        ("domain", f"SHA-256 {facts.domain_digest}"),
        ("estimates", estimates),
        *(("published", f"to {sink}: how often each report occurs, and estimates") for sink in facts.sinks),
    )


def _names(cells: tuple[tuple[str, ...], ...]) -> str:
    return listed_names([" / ".join(cell) for cell in cells])


def how(facts: SurveyFacts) -> tuple[tuple[str, str], ...]:
    """The randomizer, as (name, text)."""
    one = len(facts.designs) == 1
    designs = (name if one else f"{name} in {figures(100 * share)} %" for name, share in facts.designs)
    return (
        ("mechanism", facts.mechanism),
        ("designs", ", ".join(designs)),
        ("efficiency", f"{figures(100 * facts.efficiency)} %: the limit, {figures(facts.limit)}, by n x MSE"),
    )


def errors_told(facts: SurveyFacts) -> str:
    """What the expected errors are the errors of."""
    return (
        "Standard error of one share in a group of n people: sqrt(M / (n w)), the root mean square over its "
        f"w = {facts.n_categories:,} shares, M = {figures(facts.limit / facts.efficiency)} being n x MSE, "
        "summed over them, at the truth that is hardest for the mechanism: for large n no unbiased estimate "
        "has less there. Of randomization and of who was asked."
    )


def account(facts: SurveyFacts) -> tuple[tuple[str, str], ...]:
    """Charge and account, as (name, text)."""
    of = facts.account
    epsilon = f"epsilon {exact(facts.epsilon)}"
    if of is None:
        return (("charge", f"{epsilon}, once a wave"), ("left", NO_LEDGER))
    waves = counted(of.waves_that_fit, "wave")
    pays = f"{waves} more of this epsilon" if of.charged else f"{waves} of this epsilon, this one included"
    left = ("left" if of.charged else "left after", f"epsilon {exact(of.left_after)}")
    after = (left, ("that pays", pays)) if of.left_after >= 0 else _too_much(facts, of)
    burned = ""
    if of.burned:
        burned = f"; infinite in truth, as {', '.join(of.burned)} leaked"
        after = (("left", "nothing: the survey has stopped, and its question is asked no more"),)
    return (
        ("account", f"{facts.population}, of the question {facts.survey}"),
        ("charged" if of.charged else "charge", f"{epsilon}, once a wave"),
        ("limit", f"epsilon {exact(of.limit)}"),
        ("spent", f"epsilon {exact(of.spent)} in {counted(of.waves, 'wave')}{burned}"),
        *after,
    )


def _too_much(facts: SurveyFacts, of: AccountFacts) -> tuple[tuple[str, str], ...]:
    """What stands in the place of what is left, where a wave does not fit."""
    left = of.left_after + facts.epsilon
    less = f"ask for at most epsilon {exact(left)}, or " if left > 0 else ""
    return (
        ("left", f"epsilon {exact(left)}: this wave does not fit, by epsilon {exact(-of.left_after)}"),
        (
            "way out",
            f"{less}raise the limit to epsilon {exact(of.spent + facts.epsilon)} or more: dp-spark survey "
            "budget set",
        ),
    )


def protects(facts: SurveyFacts) -> tuple[str, ...]:
    """What the report of a person hides."""
    bound = figures(math.exp(facts.epsilon))
    ratio = f"at most e^{exact(facts.epsilon)} = {bound} times as probable"
    return (
        f"Whatever somebody answers, a protected report is {ratio} as with any other answer. "
        f"A sensitive answer only ever leads to a protected report.",
        "What is not listed, missing or unknown counts as (other), which is sensitive.",
        f"Within a wave each {facts.unit} is drawn one report, whatever runs or answers follow.",
    )


def not_hidden(facts: SurveyFacts) -> tuple[str, ...]:
    """What reports give away, with the numbers of this survey."""
    return (*_in_clear(facts), *_beside(facts), *_again(facts), *_forged(facts), *_kind(facts))


def given_away(facts: SurveyFacts) -> str:
    """The three numbers of what reports give away, in one sentence; the README has the demo's."""
    of = facts.exposure
    rate, odds = figures(100 * of.answers_in_clear), figures(of.odds)
    forged = figures(max(of.influence_block, of.influence_answer))
    return (
        f"an answer that is not sensitive is reported in clear with probability {rate} %, a protected report "
        f"raises the odds that the answer is sensitive {odds} times, and a forged report counts as up to "
        f"{forged} honest ones"
    )


def _in_clear(facts: SurveyFacts) -> Iterator[str]:
    if not facts.not_sensitive:
        yield "All categories are sensitive: no answer is ever reported in clear."
        return
    rate, odds = facts.exposure.answers_in_clear, facts.exposure.odds
    yield (
        f"An answer that is not sensitive is reported in clear with probability {figures(100 * rate)} %: "
        "that proves which it is, and that it is not sensitive."
    )
    yield (
        f"So a protected report raises the odds that the answer is sensitive, {figures(odds)} times; "
        f"which block it is can tell more, up to e^{exact(facts.epsilon)} = "
        f"{figures(math.exp(facts.epsilon))} in all."
    )


def _beside(facts: SurveyFacts) -> Iterator[str]:
    if facts.group_by:
        yield (
            f"{' and '.join(facts.group_by)} stands beside the report as it is: attributes are not "
            "protected. How many people of a group have a report is published, too."
        )
    else:
        yield "How many people have a report is published: that somebody took part is not protected."


def _again(facts: SurveyFacts) -> Iterator[str]:
    many = exact(_WAVES * facts.epsilon)
    odds = facts.exposure.odds
    so_odds = (
        f", and {_WAVES} protected reports raise the odds {figures(odds**_WAVES)} times" if odds > 1 else ""
    )
    yield (
        f"Asking again adds: somebody who answers N waves has N times epsilon {exact(facts.epsilon)}. In "
        f"{_WAVES} waves that is {many}{so_odds}. Other questions to the same people add theirs."
    )


def _forged(facts: SurveyFacts) -> Iterator[str]:
    of = facts.exposure
    answer = f", a forged answer in clear as {figures(of.influence_answer)}" if of.influence_answer else ""
    yield (
        "Who only chooses what to answer counts as one person. But whoever could write reports would count "
        f"for more: a forged block as {figures(of.influence_block)} honest reports{answer}, in the linear "
        "estimate."
    )


def _kind(facts: SurveyFacts) -> Iterator[str]:
    yield (
        "This is no (epsilon, delta) guarantee of anybody's row, and is never added up with releases. "
        "Reports come from a keyed stream: it holds against everyone without the key of the wave, which is "
        f"destroyed when the wave of {facts.survey} is closed."
    )


def outcome(facts: SurveyFacts) -> tuple[tuple[str, str], ...]:
    """What became of a wave, as (name, text)."""
    sealed = facts.sealed
    assert sealed is not None  # whoever asks has looked
    small = sum(each.small for each in sealed.groups)
    return (
        ("id", sealed.wave_id),
        ("state", sealed.state),
        ("reports", f"{sealed.reports:,}, in {sealed.batches:,} batch{'' if sealed.batches == 1 else 'es'}"),
        ("small", f"{small:,} of {counted(len(sealed.groups), 'group')}"),
        ("counts", f"SHA-256 {sealed.counts_digest}"),
        ("estimates", f"SHA-256 {sealed.estimates_digest}"),
        *(("published", place) for place in sealed.published),
        ("opened", sealed.opened_at),
        ("closed", sealed.closed_at),
        ("sealed", sealed.sealed_at.isoformat(sep=" ", timespec="seconds")),
        ("made by", f"dp_spark {sealed.dp_spark_version}"),
    )


def group_name(of: GroupReports) -> str:
    """A group as the tables have it."""
    return " / ".join(of.group) or "(all)"
