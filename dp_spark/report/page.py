"""The facts of a release as one HTML page that needs nothing else: no script, font, or other file."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from dp_spark.report import group_words, phrases, picture
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.figures import exact, figures

TEMPLATE = "page.html.jinja"


def facts_html(facts: ReleaseFacts) -> str:
    """The page; the same facts always give the same text. Every name in it is escaped."""
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            facts=facts,
            rulers=picture.rulers(facts),
            shared=picture.shared_epsilon(facts),
            spent=picture.spent_epsilon(facts.cost) if facts.cost else (),
        )
    )


@cache
def environment() -> Environment:
    """What the templates of all pages share: escaping, filters, and the modules they ask."""
    shared = Environment(
        loader=PackageLoader("dp_spark", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    shared.filters.update(exact=exact, figures=figures)
    shared.globals.update(group_words=group_words, phrases=phrases, picture=picture)
    return shared
