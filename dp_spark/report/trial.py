"""A trial of bounds on a console: what each choice leaves out, what noise it costs, and the best of them."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dp_spark.release.trial import QueryError, Trial, Tried
from dp_spark.report.figures import counted, figures
from dp_spark.report.plain import as_plain

NOTICE = "Public or synthetic rows only: bounds chosen by looking at the protected rows would leak them."
_End: TypeAlias = int | Fraction | None
_NO_BOUND, _DIGITS = "-", 3
_NAME_WIDTH, _HEAD_WIDTH, _QUERY_WIDTH = 10, 9, 25  # in columns of a console


def trial_json(trial: Trial, notes: Sequence[str]) -> dict[str, object]:
    """Everything that the trial found, in terms of JSON; `notes` as in `print_trial`."""
    return {"notice": NOTICE, "notes": list(notes), **as_plain(trial), "write": list(lines_to_write(trial))}


def print_trial(console: Console, trial: Trial, notes: Sequence[str]) -> None:
    """Print the choices near the suggested one; `notes` say what the sample was taken for."""
    console.print(Text(NOTICE, style="bold"))
    console.print(_told(trial, notes), soft_wrap=True)
    if len(trial.bounds) > 1:
        _section(console, "Bounds on the rows of a unit", _bounds_table(console, trial))
    for place, of in enumerate(trial.suggested.clamps):
        heading = f"Clamps of {'the totals of units in ' if of.per_unit else ''}{of.column}"
        _section(console, heading, _clamps_table(console, trial, place))
    _section(console, "To write into the spec", Text("\n".join(lines_to_write(trial))))
    console.print()
    console.print(Text(verdict(trial)))


def lines_to_write(trial: Trial) -> Iterator[str]:
    """The suggestion as lines of YAML."""
    best = trial.suggested
    bounds = {
        "max_groups": best.max_groups,
        "max_rows_per_group": best.max_rows_per_group,
        "max_rows": trial.max_rows,
    }
    written = ", ".join(f"{key}: {each}" for key, each in bounds.items() if each is not None)
    if len(trial.bounds) > 1:
        yield f"bounds: {{{written}}}"
    for of in best.clamps:
        yield f"lower: {_plain(of.lower)}, upper: {_plain(of.upper)}    # {', '.join(of.queries)}"


def _plain(end: Fraction) -> str:
    """A decimal as YAML has it."""
    return f"{Decimal(end.numerator) / Decimal(end.denominator):f}"


def verdict(trial: Trial) -> str:
    """How much better the suggestion is than what is written, in one sentence."""
    if trial.suggested.relative >= 1:
        return "Nothing that was tried is better than the bounds as written."
    share = figures(100 * (1 - trial.suggested.relative), 2)
    return (
        f"On these rows the total error of a query is {share} % smaller than as written "
        f"(geometric mean over the {len(trial.suggested.errors)} queries that are judged)."
    )


def _told(trial: Trial, notes: Sequence[str]) -> str:
    rate = "" if trial.rate == 1 else f", {figures(100 * trial.rate)} % of a period"
    rows = f"{counted(trial.rows, 'row')} of {counted(trial.units, 'unit')}, {counted(trial.groups, 'group')}"
    says = "bias is what bounds and clamps leave out (root mean square over groups), total is both"
    return " ".join((f"{trial.release}: {rows}{rate}; {says}.", *notes))


def _bounds_table(console: Console, trial: Trial) -> Table:
    heads = ("", "groups", "rows each", "kept")
    table = _table(heads, _judged(trial)[: _fitting(console, len(heads))])
    for each in (trial.as_written, *_near(trial.bounds, trial.suggested, _rows)):
        names = [_NO_BOUND if bound is None else f"{bound:,}" for bound in _rows(each)]
        _add_row(table, trial, each, [*names, f"{figures(100 * each.kept, _DIGITS)} %"])
    return table


def _clamps_table(console: Console, trial: Trial, place: int) -> Table:
    def ends(tried: Tried) -> tuple[Fraction, Fraction]:
        return tried.clamps[place].lower, tried.clamps[place].upper

    queries = [name for name in _judged(trial) if name in trial.suggested.clamps[place].queries]
    heads = ("", "lower", "upper")
    table = _table(heads, queries[: _fitting(console, len(heads))])
    for each in (trial.as_written, *_near(trial.clamps[place], trial.suggested, ends)):
        _add_row(table, trial, each, list(map(_plain, ends(each))))
    return table


def _near(tried: Sequence[Tried], best: Tried, pair_of: Callable[[Tried], tuple[_End, _End]]) -> list[Tried]:
    """The best, and those of which one of the pair is the best's and the other next to it."""
    found = {pair_of(each): each for each in tried}
    near = []
    for side, own in enumerate(pair_of(best)):
        axis = sorted({end for pair in found if (end := pair[side]) is not None})
        place = axis.index(own) if own in axis else -2
        near.append(axis[max(place - 1, 0) : place + 2])
    one, other = pair_of(best)
    return [best] + [
        each
        for pair, each in found.items()
        if pair != (one, other)
        and ((pair[0] == one and pair[1] in near[1]) or (pair[1] == other and pair[0] in near[0]))
    ]


def _rows(tried: Tried) -> tuple[int | None, int | None]:
    return tried.max_groups, tried.max_rows_per_group


def _judged(trial: Trial) -> list[str]:
    return [each.query for each in trial.suggested.errors]


def _fitting(console: Console, heads: int) -> int:
    """How many queries a table with so many heads before them has room for."""
    return max(1, (console.width - heads * _HEAD_WIDTH) // _QUERY_WIDTH)


def _table(heads: Sequence[str], queries: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for head in heads:
        table.add_column(f"\n{head}", justify="right" if head else "left", no_wrap=True)
    for query in queries:
        width = min(len(query), _NAME_WIDTH)
        table.add_column(Text(f"{query}\nbias"), justify="right", overflow="fold", min_width=width)
        for part in ("noise", "total"):
            table.add_column(f"\n{part}", justify="right", no_wrap=True)
    return table


def _add_row(table: Table, trial: Trial, tried: Tried, cells: Sequence[str]) -> None:
    name = "as written" if tried is trial.as_written else "suggested" if tried is trial.suggested else ""
    room = (len(table.columns) - 1 - len(cells)) // 3
    heads = [str(column.header).partition("\n")[0] for column in table.columns[1 + len(cells) :: 3]]
    errors = [each for each in tried.errors if each.query in heads][:room]
    table.add_row(name, *cells, *(part for each in errors for part in _parts(each)))


def _parts(error: QueryError) -> tuple[str, str, str]:
    bias, noise, total = (figures(part, _DIGITS) for part in (error.bias, error.noise, error.total))
    return bias, noise, total


def _section(console: Console, heading: str, content: Table | Text) -> None:
    console.print()
    console.print(Text(heading, style="bold cyan"))
    console.print(Padding(content, (0, 0, 0, 2), expand=False))
