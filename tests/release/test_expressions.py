# ruff: noqa: E501, W291
"""Row expressions as text: what is read as what, and how everything else is refused before it meets Spark."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dp_spark.errors import SpecRefused
from dp_spark.release.expressions import Kind, Typed, compiled, parse_expression
from dp_spark.release.expressions.functions import FUNCTIONS, REASONS
from dp_spark.release.expressions.parse import KNOWN
from dp_spark.release.expressions.patterns import checked_regex, like_as_regex
from dp_spark.release.expressions.tree import Call, Cast, Constant, Name
from dp_spark.release.problems import Wrong
from dp_spark.release.spec import DerivedColumn, ReleaseSpec, parse_spec, spec_from_canonical

BASE: dict[str, Any] = {
    "release": "trial",
    "input": {"format": "parquet", "path": "in"},
    "period": {"column": "day", "every": "day"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 5, "max_rows_per_group": 5},
    "group_by": ["town"],
    "groups": {"public": ["a", "b"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [{"name": "n", "kind": "count"}],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}
SPEED = {"speed": {"sql": "distance / (air_time / 60)", "default": 0}}


def told(text: str) -> str:
    with pytest.raises(Wrong) as caught:
        parse_expression(text)
    (problem,) = caught.value.problems
    assert problem.way_out
    return problem.told()


def refusal(**changes: Any) -> str:
    with pytest.raises(SpecRefused) as caught:
        ReleaseSpec(**{**BASE, **changes})
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", Name(("a",))),
        ("place.town", Name(("place", "town"))),
        ("`a ``b`", Name(("a `b",))),
        ("-9223372036854775808", Constant(-(2**63))),
        ('"O\'Brien"', Constant("O'Brien")),
        ("a <> 'XX'", Call("<>", (Name(("a",)), Constant("XX")))),
        ("NOT a = 1", Call("not", (Call("=", (Name(("a",)), Constant(1))),))),
        ("YEAR(a)", Call("year", (Name(("a",)),))),
        ("a :: bigint", Cast(Name(("a",)), "bigint")),
        ("date '2013-01-01'", Cast(Constant("2013-01-01"), "date")),
    ],
)
def test_an_expression_is_read(text: str, tree: object) -> None:
    assert parse_expression(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "a IN (SELECT 1)", "(SELECT 1)", "SELECT 1", "EXISTS (SELECT 1)", "a > ALL (SELECT 1)", "VALUES (1)", "FROM x",
        "a UNION SELECT 1", "DROP TABLE x", "SET x = 1", "DESCRIBE a", "INSERT INTO x VALUES (1)", "CREATE TABLE x (a int)",
        "CALL f()", "EXECUTE IMMEDIATE 'x'", "DECLARE x int", "sum(a)", "count(*)", "count(DISTINCT a)", "sum(a) OVER ()",
        "year(a) OVER (ORDER BY b)", "year(a) FILTER (WHERE b)", "year(a IGNORE NULLS)", "year(a ORDER BY b)",
        "year(DISTINCT a)", "year(a LIMIT 1)", "year(x => a)", "explode(a)", "inline(a)", "x -> x", "year(x -> x)",
        "transform(a, x -> x + 1)", "aggregate(a, 0, (x, y) -> x + y)", "*", "a.*", "year(*)", "rand()", "random()", "uuid()",
        "now()", "current_date", "current_date()", "CURRENT_TIMESTAMP", "current_user", "user()", "localtimestamp", "input_file_name()",
        "spark_partition_id()", "monotonically_increasing_id()", "shuffle(a)", "unix_timestamp()", "version()",
        "java_method('java.lang.System', 'exit', 1)", "reflect('a', 'b')", "my_udf(a)", "db.f(a)", "`year`(a)", "system.builtin.year(a)",
        "raise_error('x')", "assert_true(a)", "repeat(a, 1000000)", "space(9)", "array(1)[5]", "map('a', 1)", "a[0]", "[1, 2]",
        "(a, b)", "a:b", "a -> 'b'", "a ->> 'b'", "struct(a)", "named_struct('a', 1)", "INTERVAL 1 DAY", "a + INTERVAL '1' DAY",
        "a COLLATE UNICODE_CI", "a AT TIME ZONE 'UTC'", "a & b", "a | b", "a ^ b", "~a", "a << 2", "a ** b", "CAST(a AS DECIMAL(3, 1))",
        "CAST(a AS ARRAY<INT>)", "CAST(a AS BINARY)", "CAST(a AS TIMESTAMP_NTZ)", "CAST(a AS INT FORMAT 'x')", "CAST(a AS INTERVAL DAY)",
        "a AS b", "a b", "a; b", "a;", ";", "a -- b", "/* b */ a", "/*+ BROADCAST(a) */ a", "a /* b", "# a", ":a", "?", "@a", "@@a", "$a", "$1",
        "${a}", "`${spark.master}`", "{{a}}", "{a}", "%(a)s", "'\\n'", "r'a'", "X'ff'", "b'a'", "n'a'", "'a' 'b'", "'a''b'", "0x1F",
        "1BD", "1_000 + ", "9223372036854775808", "1e400", "a = b = c", "a < b = c", "a IS NULL IS NULL", 
        "a LIKE b", "a LIKE ANY ('x', 'y')", "a LIKE 'x' ESCAPE 'y'", "a RLIKE b", "a IN ()", "a IN b", "a IN (VALUES (1))", "a BETWEEN 1",
        "CASE WHEN a THEN 1", "a +", "(a", "a)", "'a", "`a", '"a', "", " ", "a, b", "a = 1, b = 2", "a\x00", "'a\tb'", "'a\nb'", "a\u2028b",
        "year(a, b)", "year()", "if(a, b)", "coalesce()", "nullif(a)", "round(x, y)", "round(x, 99)", "lpad(a, b)", "lpad(a, 99999)",
        "date_trunc(a, b)", "date_trunc('CENTURY', b)", "date_format(a, 'EEEE')", "date_format(a, b)", "next_day(a, 'x')",
        "split_part(a, ',', 0)", "split_part(a, '', 1)", "regexp_extract(a, '(b)', 2)", "regexp_replace(a, 'b', '$1')", "to_date(a, 'yyyy')",
        "make_date(1, 2, 3)", "element_at(a, 1)", "date '2013-02-30'", "timestamp 'now'", "date 'today'", "cast('x' as date)",
        "1 + 'a'", "'1' + 1", "year('x')", "a = 1 AND 2", "NOT 'a'", "'a' > 1", "TRUE < DATE '2013-01-01'", "if(1, 2, 3)", "coalesce(1, 'a')",
        "position('a' IN b)", "extract(YEAR FROM a)", "trim(BOTH 'x' FROM a)", "a OVERLAPS b", "a GLOB b",
        "a SIMILAR TO b", "PIVOT(a)", "a TABLESAMPLE (1 ROWS)", "grouping_id()", "try_to_number(a, '9')", "from_json(a, 'x int')",
        "xpath(a, 'b')", "http_get('x')", "read_files('x')", "session_user()", "sql('x')",
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused(text: str) -> None:
    told(text)


def test_every_function_with_a_reason_is_refused_with_it() -> None:
    for why, names in REASONS.items():
        assert not names & KNOWN
        assert all(why in told(f"{name}(a)") for name in names)


@pytest.mark.parametrize(
    "text",
    ["(" * 900 + "a" + ")" * 900, "not " * 400 + "a", "- " * 900 + "a", "f(" * 600 + ")" * 600, "a" * 3000],
)
def test_nesting_is_refused_before_a_stack_overflows(text: str) -> None:
    told(text)


def test_an_unknown_function_is_refused_with_the_nearest() -> None:
    assert "'houre' is not on the list" in told("houre(a)")
    with pytest.raises(Wrong) as caught:
        parse_expression("houre(a)")
    assert caught.value.problems[0].way_out == "hour is the nearest that is"


def test_nothing_of_the_text_reaches_spark_but_names_of_columns() -> None:
    hostile = "concat(`x) OR rand() > (y`, \"'; DROP TABLE x; --\", '/*', '`')"
    made = compiled(parse_expression(hostile), lambda path: Typed(Kind.TEXT, "COLUMN"))
    assert re.fullmatch(r"[A-Za-z0-9_ (),']+", made.sql.replace("X'", ""))
    assert "DROP" not in made.sql
    assert "rand" not in made.sql


@pytest.mark.parametrize(
    "text", ["code > 5", "code = 5", "code + 1", "year(code)", "code BETWEEN 1 AND 2", "code IN (1)"]
)
def test_a_text_beside_a_number_is_refused_with_the_cast_to_write(text: str) -> None:
    with pytest.raises(Wrong) as caught:
        compiled(parse_expression(text), lambda path: Typed(Kind.TEXT, "`code`"))
    assert "try_cast(COLUMN AS " in caught.value.problems[0].way_out


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+", "(a|a)*", "(a)*", "a**", "a*+", ".*.*.*x", "^a*b*c*", "a*b*", "a?" * 20, "a{1,100}b{1,100}", "a{101}", "(", ")", "[",
        "[]", "[b-a]", "[a-b-c]", "[a&&b]", "[[:alpha:]]", "{", "a{", "a{x}", "}", "]", "^*", "a^b", "a$b", "(?i)a", "(?<=a)b", "?", "+a", "|*",
        "a{3,1}", "(^a)",
    ],
)  # fmt: skip
def test_a_pattern_that_may_take_very_long_or_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(Wrong):
        checked_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a",
        "^[A-Z]{2}[0-9]+$",
        "[0-9]+",
        "^(EWR|JFK)$",
        "a|b|",
        "[-a]",
        "[a-]",
        "^.*x.*$",
        "a.?b{1,3}?c",
        "[^a-z]",
        "()",
    ],
)
def test_a_pattern_that_is_bounded_is_taken(pattern: str) -> None:
    assert checked_regex(pattern).text == pattern


def test_like_finds_what_it_means() -> None:
    words = ["".join(each) for n in range(5) for each in product("ab.", repeat=n)]
    for pattern in ["".join(each) for n in range(5) for each in product("a%_.", repeat=n)]:
        plain = re.compile("(?s)" + re.escape(pattern).replace("%", ".*").replace("_", "."))
        ours = re.compile(like_as_regex(pattern).replace(r"\z", r"\Z"))
        assert [bool(ours.search(word)) for word in words] == [bool(plain.fullmatch(word)) for word in words]


def test_a_spec_without_expressions_is_written_as_before() -> None:
    written = ReleaseSpec(**BASE).canonical_json()
    assert "where" not in written
    assert "derive" not in written


def test_a_spec_reads_back_with_its_derived_columns_in_order() -> None:
    derive = {"z": {"sql": "a + 1", "default": 0}, "b": {"sql": "z * 2", "default": "1.5"}}
    spec = ReleaseSpec(**BASE, where=" b > 1\n", derive=derive)
    assert [each.name for each in spec.derive or ()] == ["z", "b"]
    assert spec_from_canonical(spec.canonical_json()) == spec
    assert spec_from_canonical(spec.canonical_json()).digest == spec.digest != ReleaseSpec(**BASE).digest
    assert ReleaseSpec(**BASE, where="b > 1", derive=spec.derive) == spec


def test_yaml_and_python_give_the_same_spec() -> None:
    text = Path(__file__).parents[2].joinpath("docs/spec.md").read_text()
    (example,) = re.findall(r"```yaml\n(where:.*?)```", text, re.DOTALL)
    whole = example + "\n" + "\n".join(f"{key}: {_flow(value)}" for key, value in BASE.items())
    spec = parse_spec(whole)
    assert spec.where is not None
    assert spec.derive
    assert all(isinstance(each, DerivedColumn) for each in spec.derive)


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"where": "1 + 1"}, "where: is a whole number, not a condition"),
        ({"where": 3}, "where = 3: is no expression"),
        ({"derive": {}}, "derive = {}: is no list of derived columns"),
        ({"derive": {"x": {"sql": "1"}}}, "derive.x.default: missing key 'default'"),
        ({"derive": {"x": {"default": "1"}}}, "derive.x.sql: missing key 'sql'"),
        ({"derive": {"x": {"sql": "houre(1)", "default": 1}}}, "derive.x.sql: the function 'houre'"),
        ({"derive": {"x y": {"sql": "1", "default": 1}}}, "is not a name of this form"),
        ({"derive": {"person": {"sql": "1", "default": 1}}}, "is also the unit's column"),
        ({"derive": {"DAY": {"sql": "1", "default": 1}}}, "is also the period's column"),
        (
            {"derive": {"a": {"sql": "b", "default": 1}, "b": {"sql": "1", "default": 1}}},
            "reads 'b', which is derived later",
        ),
        ({"derive": {"a": {"sql": "A + 1", "default": 1}}}, "which is derived later, or here"),
        ({"derive": {**SPEED, "Speed": {"sql": "1", "default": 1}}}, "is derived twice"),
    ],
)
def test_a_spec_with_a_wrong_expression_says_where(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


def test_the_documentation_lists_every_function_and_no_other() -> None:
    text = Path(__file__).parents[2].joinpath("docs/spec.md").read_text()
    (section,) = re.findall(r"<!-- functions -->(.*?)<!-- /functions -->", text, re.DOTALL)
    assert set(re.findall(r"`([a-z_0-9]+)`", section)) == KNOWN - {
        "and",
        "or",
        "not",
        "in",
        "case",
        "like",
        "ilike",
        "rlike",
        "div",
        "regexp",
    }


def test_names_are_many_enough_to_be_useful() -> None:
    assert len(KNOWN) > 100
    assert set(FUNCTIONS) >= {"year", "date_trunc", "round", "substring"}
