"""Plain YAML as nested texts: one mapping, every scalar as it is written."""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from dp_spark.release.problems import Place, Problem, Wrong, refused, shown
from dp_spark.release.reading import MAX_BYTES, UNPRINTABLE

MAX_DEPTH = 12
Tree = str | list["Tree"] | dict[str, "Tree"]


def read_tree(text: str, *, source: str) -> dict[str, Tree]:
    """The one mapping that a YAML text holds, every scalar as its text.

    Raises:
        SpecRefused: the text is no plain YAML (no anchors, aliases, tags, directives), holds a key twice,
            is nested too deeply, too long or empty, or is not one mapping.
    """
    _check_characters(text, source)
    twice: list[Problem] = []
    try:
        trees = list(islice(_documents(text.removeprefix("\ufeff"), twice), 2))
    except Wrong as failure:
        raise refused("spec_not_plain", source, failure.problems) from None
    except YAMLError as failure:
        raise refused("spec_not_yaml", source, [_syntax_problem(failure)]) from None
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, OverflowError):
        # The scanner itself stumbles over some malformed escapes and directives.
        raise refused(
            "spec_not_yaml", source, [Problem("is not YAML", "write plain YAML without escapes")]
        ) from None
    if twice:
        raise refused("spec_key_twice", source, twice)
    match trees:
        case [dict(tree)]:
            return tree
        case []:
            problem = Problem("is empty", "write a release; `dp-spark init` writes a first one")
        case [other]:
            problem = Problem(
                "is not a mapping", "write `release: NAME` and the other keys", "", shown(other)
            )
        case _:
            problem = Problem("holds several documents", "keep one; write each release into its own file")
    raise refused("spec_not_a_mapping", source, [problem])


def _check_characters(text: str, source: str) -> None:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        problem = Problem("is too long", "list fewer groups", f"at most {MAX_BYTES:,} bytes")
        raise refused("spec_too_long", source, [problem])
    if found := UNPRINTABLE.search(text, int(text.startswith("\ufeff"))):
        line = text.count("\n", 0, found.start()) + 1
        problem = Problem(f"line {line} holds the control character {found[0]!a}", "remove it")
        raise refused("spec_not_plain", source, [problem])


def _syntax_problem(failure: YAMLError) -> Problem:
    mark = failure.problem_mark if isinstance(failure, MarkedYAMLError) else None
    said = failure.problem if isinstance(failure, MarkedYAMLError) else None
    line = f"line {mark.line + 1} is not YAML" if mark else "is not YAML"
    return Problem(
        f"{line}: {said}" if said else line,
        "indent with blanks, close every bracket and quote, quote a text that holds ': ' or ' #'",
    )


def _documents(text: str, twice: list[Problem]) -> Iterator[Tree]:
    events: Iterator[Any] = iter(YAML(typ="base", pure=True).parse(text))
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if event.version or event.tags:
                raise _not_plain(event, "a directive")
            yield _tree(next(events), events, (), twice)


def _tree(event: Any, events: Iterator[Any], at: Place, twice: list[Problem]) -> Tree:
    """The node that starts with `event`; its end is taken from `events`."""
    if isinstance(event, AliasEvent) or event.anchor is not None:
        raise _not_plain(event, "an anchor or an alias")
    if event.tag is not None:
        raise _not_plain(event, "a tag")
    if len(at) > MAX_DEPTH:
        raise _not_plain(event, f"a list or mapping more than {MAX_DEPTH} levels deep")
    if isinstance(event, SequenceStartEvent):
        inner = takewhile(lambda each: not isinstance(each, SequenceEndEvent), events)
        return [_tree(each, events, (*at, i), twice) for i, each in enumerate(inner)]
    if isinstance(event, MappingStartEvent):
        return _mapping(events, at, twice)
    return str(event.value)


def _mapping(events: Iterator[Any], at: Place, twice: list[Problem]) -> Tree:
    tree: dict[str, Tree] = {}
    for event in takewhile(lambda each: not isinstance(each, MappingEndEvent), events):
        if not isinstance(event, ScalarEvent):
            raise _not_plain(event, "a key that is not a text")
        key = str(_tree(event, events, at, twice))  # a scalar is its text
        if UNPRINTABLE.search(key):
            raise _not_plain(event, "a control character in a key")
        if key in tree:
            line = event.start_mark.line + 1
            twice.append(Problem(f"line {line} writes this key again", "keep one of the two", at=(*at, key)))
        tree[key] = _tree(next(events), events, (*at, key), twice)
    return tree


def _not_plain(event: Any, what: str) -> Wrong:
    line = event.start_mark.line + 1
    return Wrong(
        Problem(
            f"line {line} holds {what}",
            "write every value out where it belongs; quote a text that starts with one of & * ! %",
            allowed="plain YAML only",
        )
    )
