"""A release said word by word: the same spec as its YAML, whatever is said, and what is missing is named."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark import Release
from dp_spark.errors import SpecRefused
from dp_spark.release.spec import QueryKind, ReleaseSpec, parse_spec

YAML = """
release: visits
input: {format: csv, path: data/visits}
period: {column: at, every: week, timezone: Europe/Berlin}
where: "euros IS NOT NULL"
derive:
  hour: {sql: "string(hour(at))", default: none}
unit: {columns: [household, person], on_null: drop, per: day}
neighbours: replace
bounds: {max_groups: 5, max_rows_per_group: 3, max_rows: 9}
group_by: [place, hour]
rollup: [[place], []]
groups: {public: {place: [a, b], hour: ["08", "09"]}}
guarantee: {epsilon: 1/3, delta: 1e-6}
queries:
  - {name: visits, kind: count}
  - {name: spent, kind: sum, column: euros, lower: 0, upper: 100, step: 0.5, clamp: unit}
  - {name: price, kind: mean, column: euros, lower: 0, upper: 100}
  - {name: people, kind: ids}
  - {name: each, kind: ratio, numerator: spent, denominator: people, lower: 0, upper: 50}
noise: {subbotin: 1.5}
budget: {population: town_people}
publish: [{sink: parquet, path: out/visits}]
checks: {history: {against: previous, max_change: 0.3, plus_sigma: 5}}
"""


def whole() -> Release:
    return (
        Release.named("visits")
        .reading(csv="data/visits")
        .period("at", every="week", timezone="Europe/Berlin")
        .compared("previous", max_change="0.3", plus_sigma=5)
        .where("euros IS NOT NULL")
        .derived("hour", "string(hour(at))", default="none")
        .of_units("household", "person", per="day")
        .neighbours("replace")
        .bounded(max_groups=5, max_rows_per_group=3, max_rows=9)
        .grouped_by("place", "hour", public={"place": ["a", "b"], "hour": ["08", "09"]})
        .rolled_up(["place"], [])
        .count("visits")
        .sum("spent", "euros", lower=0, upper=100, step="0.5", clamp="unit")
        .mean("price", "euros", lower=0, upper=100)
        .ids("people")
        .ratio("each", "spent", "people", lower=0, upper=50)
        .guaranteed(epsilon="1/3", delta="1e-6")
        .noise({"subbotin": "1.5"})
        .paid_by("town_people")
        .published(parquet="out/visits")
    )


def small() -> Release:
    return (
        Release.named("visits")
        .of_units("person")
        .bounded(max_rows=3)
        .grouped_by("place", public=["a", "b"])
        .count("visits")
        .guaranteed(epsilon=1, delta="1e-6")
        .paid_by("town_people")
        .published(parquet="out")
    )


def test_words_and_yaml_give_one_spec() -> None:
    assert whole().spec.digest == parse_spec(YAML).digest
    assert whole() == Release.parse(YAML) == Release(parse_spec(YAML))


def test_a_spec_comes_from_a_file_a_mapping_or_a_spec(tmp_path: Any) -> None:
    (tmp_path / "visits.yaml").write_text(YAML)
    assert Release.read(tmp_path / "visits.yaml") == whole()
    assert Release(dict(parse_spec(YAML))) == whole()


@pytest.mark.parametrize("release", [whole(), small()], ids=["all words", "few words"])
def test_the_yaml_of_a_release_reads_back_to_it(release: Release) -> None:
    assert parse_spec(release.to_yaml()).digest == release.spec.digest


def test_a_word_changes_nothing_but_the_release_that_it_gives() -> None:
    first = small()
    second = first.guaranteed(epsilon=2, delta="1e-6").ids("people")
    assert [query.name for query in first.spec.queries] == ["visits"]
    assert [query.name for query in second.spec.queries] == ["visits", "people"]
    assert (first.spec.guarantee.epsilon, second.spec.guarantee.epsilon) == (1, 2)
    assert first == small()


def test_a_second_filter_narrows_the_first() -> None:
    both = small().where("a > 1").where("b > 2 OR c > 3")
    assert both.spec.where == "(a > 1) AND (b > 2 OR c > 3)"


def test_rows_as_units_lose_the_bounds_of_what_was_said_before() -> None:
    assert small().of_rows().spec.bounds is None


VALID = "as_of: period_end, valid_from: since, valid_to: until"


@pytest.mark.parametrize(
    ("say", "written"),
    [
        (lambda it: it.groups_in_file("towns.csv"), "public_file: towns.csv"),
        (lambda it: it.grouped_by("place", public={"place": {"file": "t"}}), "public: {place: {file: t}}"),
        (lambda it: it.groups_in_table("towns"), "public_table: {table: towns}"),
        (
            lambda it: it.groups_in_table("towns", valid_from="since", valid_to="until"),
            f"public_table: {{table: towns, {VALID}}}",
        ),
        (lambda it: it.groups_selected(), "private: {}"),
        (
            lambda it: it.groups_selected(min_units=3, other=True).labelled(other="rest"),
            "private: {min_units: 3, other: true}, other_label: rest",
        ),
        (
            lambda it: it.labelled(null="?", total="all").groups_in_file("towns.csv"),
            "public_file: towns.csv, null_label: '?', total_label: all",
        ),
    ],
    ids=range(7),
)
def test_every_source_of_groups_has_its_word(say: Any, written: str) -> None:
    yaml = small().to_yaml().replace("groups: {public: [[a], [b]]}", f"groups: {{{written}}}")
    assert say(small()).spec.digest == parse_spec(yaml).digest != small().spec.digest


WEIGHT = {"column": "w", "upper": 10, "step": "0.5"}
WEIGHTED = "weight: {column: w, upper: 10, step: 0.5}"
ASKED: list[tuple[str, Any, str]] = [
    ("count", lambda it: it.count("q", "v"), "column: v"),
    ("count", lambda it: it.count("q", weight=WEIGHT), WEIGHTED),
    ("ids", lambda it: it.ids("q"), ""),
    ("sum", lambda it: it.sum("q", "v", lower=-1, upper=2), "column: v, lower: -1, upper: 2"),
    (
        "sum",
        lambda it: it.sum("q", "v", lower=0, upper=2, step=1, weight=WEIGHT),
        f"column: v, lower: 0, upper: 2, step: 1, {WEIGHTED}",
    ),
    ("mean", lambda it: it.mean("q", "v", lower=0, upper=2), "column: v, lower: 0, upper: 2"),
    (
        "mean",
        lambda it: it.mean("q", "v", lower=0, upper=2, weight=WEIGHT),
        f"column: v, lower: 0, upper: 2, {WEIGHTED}",
    ),
    (
        "variance",
        lambda it: it.variance("q", "v", lower=0, upper=2, step=1, weight=WEIGHT),
        f"column: v, lower: 0, upper: 2, step: 1, {WEIGHTED}",
    ),
    (
        "std",
        lambda it: it.std("q", "v", lower=0, upper=2, step=1, weight=WEIGHT),
        f"column: v, lower: 0, upper: 2, step: 1, {WEIGHTED}",
    ),
    ("distinct", lambda it: it.distinct("q", "v", values=["b", "a"]), "column: v, values: [a, b]"),
    ("histogram", lambda it: it.histogram("q", "v", edges=[0, "0.5", 2]), "column: v, edges: [0, 0.5, 2]"),
    (
        "histogram",
        lambda it: it.histogram("q", "v", edges={"start": 0, "stop": 9, "step": 3}, weight=WEIGHT),
        f"column: v, edges: [0, 3, 6, 9], {WEIGHTED}",
    ),
    (
        "quantiles",
        lambda it: it.quantiles("q", "v", edges=(0, 1), at=[0.5, "0.9"], weight=WEIGHT),
        f"column: v, edges: [0, 1], at: [0.5, 0.9], {WEIGHTED}",
    ),
    (
        "quantiles",
        lambda it: it.quantiles("q", "v", edges=[0, 1], at=0.5),
        "column: v, edges: [0, 1], at: [0.5]",
    ),
    ("min", lambda it: it.min("q", "v", edges=[0, 1]), "column: v, edges: [0, 1]"),
    (
        "min",
        lambda it: it.min("q", "v", edges=[0, 1], at="0.05", weight=WEIGHT),
        f"column: v, edges: [0, 1], at: 0.05, {WEIGHTED}",
    ),
    ("max", lambda it: it.max("q", "v", edges=[0, 1]), "column: v, edges: [0, 1]"),
    (
        "max",
        lambda it: it.max("q", "v", edges=[0, 1], at="0.95", weight=WEIGHT),
        f"column: v, edges: [0, 1], at: 0.95, {WEIGHTED}",
    ),
    (
        "ratio",
        lambda it: it.ids("people").ratio("q", "visits", "people", lower=0, upper=9),
        "numerator: visits, denominator: people, lower: 0, upper: 9",
    ),
]


@pytest.mark.parametrize(
    ("kind", "ask", "written"), ASKED, ids=[f"{i}-{each[0]}" for i, each in enumerate(ASKED)]
)
def test_every_question_has_its_word(kind: str, ask: Any, written: str) -> None:
    said = ask(small())
    others = [f"{{name: {each.name}, kind: {each.kind}}}" for each in said.spec.queries[:-1]]
    query = f"{{name: q, kind: {kind}{', ' if written else ''}{written}}}"
    keys = [
        line
        for line in small().to_yaml().splitlines()
        if not line.startswith(("queries:", "  - {name: visits"))
    ]
    yaml = "\n".join([*keys, f"queries: [{', '.join([*others, query])}]"])
    assert said.spec.digest == parse_spec(yaml).digest


def test_every_kind_of_query_is_asked_by_a_word_of_its_name() -> None:
    assert {kind for kind, _, _ in ASKED} == set(QueryKind)
    assert all(callable(getattr(Release, kind)) for kind in QueryKind)


def test_coarser_groups_have_their_word_and_are_never_missing() -> None:
    both = small().grouped_by("place", "hour", public=[["a", "1"]])
    assert both.rolled_up(["hour"], []).spec.rollup == (("hour",), ())
    assert both.rolled_up(["hour"]).rolled_up([]).spec.rollup == ((),)
    assert "coarser" not in repr(Release.named("visits").grouped_by("place", public=["a"]))


def test_groups_that_nobody_has_named_are_missing() -> None:
    begun = Release.named("visits").grouped_by("place")
    assert "# not said yet: which groups are released: .groups_in_file(" in repr(begun)
    assert "which groups" not in repr(begun.groups_selected()) + repr(Release.named("visits"))


def test_what_is_missing_is_named_with_the_word_that_says_it() -> None:
    begun = Release.named("visits").of_units("person").count("visits")
    for use in (begun.plan, begun.explain, lambda: begun.spec, lambda: begun.run(None, key="2024-03-01")):  # type: ignore[arg-type]
        with pytest.raises(SpecRefused) as refusal:
            use()
        assert refusal.value.code == "spec_incomplete"
        for word in (".bounded(", ".grouped_by(", ".guaranteed(", ".paid_by(", ".published("):
            assert word in refusal.value.message
        assert ".of_units(" not in refusal.value.message
    assert "# not said yet: whose budget pays" in repr(begun)


def test_a_release_of_rows_needs_no_bounds() -> None:
    assert ".bounded(" not in repr(Release.named("visits").of_rows())


@pytest.mark.parametrize(
    ("say", "told"),
    [
        (lambda: Release.named("1st"), "release = '1st'"),
        (lambda: small().bounded(max_groups=0), "bounds.max_groups = 0: is out of range"),
        (lambda: small().bounded(max_groups=1), "missing key 'max_rows_per_group'"),
        (lambda: small().sum("s", "v", lower=1, upper=0), "queries[1].upper = 0: is not above lower = 1"),
        (lambda: small().guaranteed(epsilon=0, delta="1e-6"), "guarantee.epsilon = 0: is out of range"),
        (lambda: small().where("v +"), "where = 'v +': is no SQL expression"),
        (lambda: small().neighbours("swap"), "neighbours = 'swap': is not known"),
        (lambda: small().of_units("p", per="year"), "unit.per = 'year': is not known"),
        (lambda: small().grouped_by("place", public=["a", "a"]), "is listed twice"),
        (lambda: small().reading(), "reading is given 0 places"),
        (lambda: small().rolled_up("place"), "rollup[0] = 'place': is not a list of columns"),
        (lambda: small().histogram("h", "v", edges=[1, 0]), "queries[1].edges[1] = 0: is not above the edge"),
        (lambda: small().quantiles("h", "v", edges=[0, 1], at=[]), "queries[1].at = []: is an empty list"),
        (lambda: small().max("h", "v", edges=[0, 1], at=0.1), "stands for the maximum"),
        (lambda: small().count("c", "v", weight=WEIGHT), "weight = 'w': does not go with column"),
        (lambda: small().distinct("d", "v", values=["a", "a"]), "is listed twice"),
        (lambda: small().mean("m", "v", lower=0, upper=1, weight={"upper": 1}), "missing key 'column'"),
        (lambda: Release("visits.yaml"), "Release.read(PATH)"),  # type: ignore[arg-type]
    ],
    ids=range(18),
)
def test_a_wrong_word_is_refused_as_it_is_said(say: Any, told: str) -> None:
    with pytest.raises(SpecRefused) as refusal:
        say()
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("say", "told"),
    [
        (lambda: small().count("visits"), "would write the column"),
        (
            lambda: small().ratio("r", "visits", "peeple", lower=0, upper=1),
            "denominator = 'peeple': names no query",
        ),
        (lambda: small().rolled_up(["town"]), "rollup[0] = 'town': is no column of group_by"),
    ],
    ids=range(3),
)
def test_words_that_do_not_go_together_are_refused_when_the_spec_is_asked_for(say: Any, told: str) -> None:
    together = say()
    with pytest.raises(SpecRefused) as refusal:
        _ = together.spec
    assert told in str(refusal.value)


def test_a_release_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_spark.notebook import release as module

    planned = []
    genuine = module.plan_release
    monkeypatch.setattr(module, "plan_release", lambda spec: planned.append(spec) or genuine(spec))
    release = small()
    assert release.plan() is release.plan()
    release.explain()
    assert planned == [release.spec]


def test_it_explains_itself_without_a_ledger(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    words = small().where("euros > 0").derived("cheap", "euros < 5", default="false").explain()
    text = " ".join(str(words).split())
    (query,) = words.facts.queries
    for part in (
        "epsilon 1, delta 1e-6, each release",
        "all rows of one person, added or removed",
        "the frame that the run is given, where euros > 0",
        "derived cheap = euros < 5, else false",
        "of each person at most 3 rows",
        f"Noise: {words.facts.decision.family}",
        "charge epsilon 1, delta 1e-6",
        "published to parquet out",
        "dp-spark ledger init",
    ):
        assert part in text
    assert query.std is not None
    assert f"{query.half_width:g}" in text
    assert repr(words) == str(words)
    assert words._repr_html_().startswith("<pre>Plan of visits")
    assert not list(tmp_path.iterdir())


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda text: __import__("unicodedata").is_normalized("NFC", text)
)
NUMBERS = st.fractions(min_value=Fraction(1, 10**9), max_value=100)
EDGES = st.lists(st.integers(-1000, 1000), min_size=2, max_size=6, unique=True).map(sorted) | st.integers(
    1, 50
).map(lambda bins: {"start": -1, "stop": -1 + Fraction(bins, 4), "step": "0.25"})


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """The mapping of a spec that is accepted."""
    columns = draw(st.lists(NAMES.map("g".__add__), min_size=1, max_size=3, unique_by=str.casefold))
    values = st.lists(NAMES, min_size=1, max_size=4, unique=True)
    if len(columns) > 1 and draw(st.booleans()):
        public: Any = {column: draw(values) for column in columns}
    elif len(columns) == 1:
        public = draw(values)
    else:
        keys = st.lists(NAMES, min_size=len(columns), max_size=len(columns))
        public = draw(st.lists(keys, min_size=1, max_size=4, unique_by=tuple))
    of_rows = draw(st.booleans())
    period = draw(st.none() | st.sampled_from(["day", "week", "month"]))
    spec: dict[str, Any] = {
        "release": "r" + draw(st.text("aZ9_", max_size=5)),
        "group_by": columns,
        "groups": {"public": public},
        "guarantee": {"epsilon": draw(NUMBERS), "delta": draw(NUMBERS) / 1001},
        "queries": [draw(queries(f"q{i}", of_rows)) for i in range(draw(st.integers(1, 4)))],
        "budget": {"population": draw(st.text("aZ9_.-", min_size=1, max_size=5))},
        "publish": [draw(a_sink(i)) for i in range(draw(st.integers(1, 2)))],
    }
    if draw(st.booleans()):
        kinds = st.sampled_from(["sums", "zcdp"])
        spec["budget"] |= {"horizon": draw(st.integers(1, 10**6)), "pool": draw(kinds)}
        spec["guarantee"] = draw(st.sampled_from([spec["guarantee"], "from_budget"]))
    if of_rows:
        spec["unit"] = {"row": True}
    else:
        people = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
        per = {"per": "day"} if period and draw(st.booleans()) else {}
        spec["unit"] = {"columns": people, "on_null": "drop", **per}
        bounds = {"max_groups": 3, "max_rows_per_group": 10**6, "max_rows": draw(st.integers(1, 10**6))}
        fewer = draw(st.sampled_from([list(bounds), ["max_rows"], ["max_groups", "max_rows_per_group"]]))
        spec["bounds"] = {key: bounds[key] for key in fewer}
    if period:
        spec["period"] = {"column": draw(NAMES), "every": period, "timezone": "Asia/Tokyo"}
    if draw(st.booleans()):
        spec["input"] = draw(an_input())
    countable = [each["name"] for each in spec["queries"] if each["kind"] in ("count", "ids", "sum")]
    if len(countable) > 1 and draw(st.booleans()):
        named = {"numerator": countable[0], "denominator": countable[-1]}
        spec["queries"].append(
            {"name": "ratio", "kind": "ratio", **named, "lower": -1, "upper": Fraction(1, 2)}
        )
    if len(columns) > 1 and draw(st.booleans()):
        spec["rollup"] = draw(st.sampled_from([[[]], [columns[:1], []], [columns[1:]]]))
    if draw(st.booleans()):
        spec["neighbours"] = draw(st.sampled_from(["add_remove", "replace"]))
    if draw(st.booleans()):
        spec["noise"] = draw(st.sampled_from(["auto", "laplace", {"subbotin": "1.5"}]))
    if draw(st.booleans()):
        spec["where"] = "v > 1 AND \"text: 'x' #\" <> w"
    if draw(st.booleans()):
        spec["derive"] = {"made_1": {"sql": "v + 1", "default": 0}, "made_2": {"sql": "made_1", "default": 1}}
    return spec


@st.composite
def queries(draw: st.DrawFn, name: str, of_rows: bool) -> dict[str, Any]:
    kind = draw(st.sampled_from([str(each) for each in QueryKind if each != QueryKind.RATIO]))
    about = {"name": name, "kind": kind}
    column = {"column": draw(NAMES)}
    weight = {"weight": {"column": draw(NAMES), "upper": draw(st.integers(1, 99)), "step": Fraction(1, 2)}}
    weighed = weight if draw(st.booleans()) else {}
    match kind:
        case "count":
            return {**about, **draw(st.sampled_from([{}, column, weight]))}
        case "ids":
            return about
        case "distinct":
            return {**about, **column, "values": draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))}
        case "histogram" | "quantiles" | "min" | "max":
            shares = {"quantiles": [Fraction(1, 8), "0.9"], "min": Fraction(1, 4), "max": "0.999"}
            said_at = kind in shares and (kind == "quantiles" or draw(st.booleans()))
            at = {"at": shares[kind]} if said_at else {}
            return {**about, **column, **weighed, "edges": draw(EDGES), **at}
    step = draw(st.sampled_from([Fraction(1, 8), Fraction(1), Fraction(1, 10**6)]))
    lower, width = draw(st.integers(-1000, 1000)), draw(st.integers(1, 1000))
    bounds = {"lower": lower * step, "upper": (lower + width) * step}
    more = {"step": step} if draw(st.booleans()) else {}
    if kind == "sum" and not of_rows:
        more["clamp"] = draw(st.sampled_from(["row", "unit"]))
    weighed = weighed if more.get("clamp") != "unit" else {}
    return {**about, **column, **bounds, **more, **weighed}


@st.composite
def an_input(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["parquet", "csv", "delta", "table", "iceberg", "jdbc"]))
    place = {"path": "in/" + draw(NAMES)} if kind in ("parquet", "csv", "delta") else {"table": "sales.rows"}
    connection = {"connection": "lake"} if kind in ("iceberg", "jdbc") else {}
    version = {"version": 3} if kind in ("delta", "iceberg") and draw(st.booleans()) else {}
    return {"format": kind, **place, **connection, **version, **({"kept_days": 90} if version else {})}


@st.composite
def a_sink(draw: st.DrawFn, number: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(["parquet", "delta", "table", "iceberg", "sql"]))
    place = {"path": f"out/{number}"} if kind in ("parquet", "delta") else {"table": f"sales.out{number}"}
    connection = {"connection": "lake"} if kind in ("iceberg", "sql") else {}
    shape = {"shape": draw(st.sampled_from(["wide", "long"]))} if draw(st.booleans()) else {}
    return {"sink": kind, **place, **connection, **shape}


def in_words(place: dict[str, Any], kind_key: str) -> dict[str, Any]:
    rest = {key: each for key, each in place.items() if key not in (kind_key, "path", "table")}
    return {place[kind_key]: place.get("path", place.get("table")), **rest}


def said(spec: dict[str, Any]) -> Release:
    """The same in words."""
    release = Release.named(spec["release"])
    unit = spec["unit"]
    release = release.of_rows() if "row" in unit else release.of_units(*unit["columns"], per=unit.get("per"))
    release = release.grouped_by(*spec["group_by"], public=spec["groups"]["public"])
    for query in spec["queries"]:
        settings = {key: each for key, each in query.items() if key != "kind"}
        release = getattr(release, query["kind"])(**settings)
    if spec["guarantee"] == "from_budget":
        release = release.guaranteed_from_budget().paid_by(**spec["budget"])
    else:
        release = release.guaranteed(**spec["guarantee"]).paid_by(**spec["budget"])
    for sink in spec["publish"]:
        release = release.published(**in_words(sink, "sink"))
    for name, derived in spec.get("derive", {}).items():
        release = release.derived(name, **derived)
    if "rollup" in spec:
        release = release.rolled_up(*spec["rollup"])
    if "bounds" in spec:
        release = release.bounded(**spec["bounds"])
    if "period" in spec:
        release = release.period(**spec["period"])
    if "input" in spec:
        release = release.reading(**in_words(spec["input"], "format"))
    for key in {"neighbours", "noise", "where"} & set(spec):
        release = getattr(release, key)(spec[key])
    return release


@given(specs())
@settings(max_examples=150, deadline=None)
def test_any_spec_can_be_said_in_words_and_written_as_yaml(spec: dict[str, Any]) -> None:
    digest = ReleaseSpec(**spec).digest
    release = said(spec)
    assert release.spec.digest == digest
    assert parse_spec(release.to_yaml()).digest == digest
    assert Release(spec) == release or Release(spec).spec.digest == digest
