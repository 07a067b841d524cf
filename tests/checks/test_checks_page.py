"""Evidence as a page: every expectation and its outcome is readable, and nothing is asked of any host."""

import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import pytest
from artefacts import DAY, RELEASE, SPEC, artefact, swapped, with_cell

from dp_spark.checks import Verdict, check_artefact, checks_page
from dp_spark.errors import SetupRefused
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec
from dp_spark.report import gate_facts, read_evidence

CHROMIUM = shutil.which("chromium")
OUTSIDE = re.compile(r"https?:|//|<(script|link|img|a|iframe|form)\b|\b(src|href|style|on\w+)=|url\(|@import")


def told(verdict: Verdict) -> dict[str, Any]:
    return gate_facts(verdict.failed, [each.as_json() for each in verdict.outcomes])


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    """A release with swapped rows and one wrong std, which the history gate passed."""
    plan = plan_release(parse_spec(SPEC))
    broken = swapped(with_cell(artefact(plan), "flights_std", 3, 31.25))
    rule = {"expectation": "large_change", "columns": ["flights"], "beside": "a/b/2013-01-04/0", "met": True}
    return {
        "release": RELEASE,
        "published_by_decision": True,
        "gates": {
            "artefact": told(check_artefact(broken, plan, release_id=RELEASE, period_start=DAY)),
            "history": gate_facts((), [rule]),
        },
        "findings": [{"check": "large_change", "blocks": False, "text": "flights <moved>"}],
    }


@pytest.fixture(scope="module")
def page(facts: dict[str, Any]) -> str:
    return checks_page(facts)


def words(page: str) -> str:
    """What is read on it, with words for the marks of outcomes, without the heads of tables."""
    body = re.sub("<thead>.*?</thead>", "", page[page.index("<main>") :], flags=re.DOTALL)
    body = re.sub('<i class="[^"]*text-success[^"]*">', "MET ", body)
    body = re.sub('<i class="[^"]*text-danger[^"]*">', "NOT ", body)
    return " ".join(re.sub("<[^>]*>", " ", body).split()).replace(" .", ".")


def test_it_says_what_was_met_and_what_was_not(page: str) -> None:
    said = words(page)
    assert "artefact failed Not met: expect_table_groups_to_be" in said
    assert "history passed" in said
    assert "NOT groups: origin, carrier: each once, in order" in said
    assert "flights_std NOT values must belong to this set" in said
    assert "MET values must never be null." in said
    assert "MET must be of type decimal128(19, 2)." in said
    assert "MET Values in flights_high must always be greater than or equal to those in flights." in said
    assert "MET large change: flights: beside a/b/2013-01-04/0" in said
    assert "Warning: flights &lt;moved&gt;" in said
    assert "Somebody decided to publish it" in said


def test_evidence_and_page_hold_no_cell(facts: dict[str, Any], page: str) -> None:
    assert "31.25" not in page
    assert "31.25" not in str(facts)
    for column in ("flights", "miles", "mean_delay"):
        for value in artefact(plan_release(parse_spec(SPEC)))[column].to_pylist():
            assert str(value) not in page + str(facts)


def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    assert OUTSIDE.search(page) is None


def test_the_page_of_great_expectations_itself_would_be_found_out(facts: dict[str, Any]) -> None:
    from dp_spark.checks import docs

    whole = docs._rendered("artefact", facts["gates"]["artefact"]["expectations"])
    assert OUTSIDE.search(whole) is not None


def test_names_that_look_like_markup_stay_names() -> None:
    name = 'a<script src="//evil">$b'
    outcomes = [
        {"expectation": "not_null", "columns": [name], "met": True},
        {"expectation": "columns", "columns": [name], "bound": "in this order", "met": False},
    ]
    page = checks_page({"release": RELEASE, "gates": {"artefact": gate_facts((name,), outcomes)}})
    assert "<script" not in page


@pytest.mark.parametrize(
    "name",
    [
        "<style>",
        "</style>",
        "<script>",
        "<i class='fas fa-check-circle text-success'>",
        "<!--",
        "x&lt;b",
        "$a ${b}",
    ],
)
def test_a_name_is_read_as_it_is_and_moves_nothing(name: str) -> None:
    def shown(column: str) -> str:
        outcomes = [
            {"expectation": "not_null", "columns": ["first", column, "last"], "met": False},
            {"expectation": "types", "columns": [column], "bound": "int64", "met": True},
            {"expectation": "constants", "columns": [column], "bound": column, "met": True},
            {
                "expectation": "ordered",
                "columns": [column, "last"],
                "bound": "the first is no less",
                "met": True,
            },
            {"expectation": "groups", "columns": [column], "bound": "each once, in order", "met": True},
            {"expectation": "large_change", "columns": [column], "beside": column, "met": True},
        ]
        return checks_page({"release": RELEASE, "gates": {"artefact": gate_facts((), outcomes)}})

    plain, odd = shown("zebra"), shown(name)
    assert "zebra" in plain
    assert re.findall("<[^>]*>", odd) == re.findall("<[^>]*>", plain)
    assert odd.count(escape(name)) == plain.count("zebra")


def test_it_says_first_what_became_of_the_release_and_what_failed() -> None:
    gates = {"artefact": gate_facts((), []), "history": gate_facts(("a group is gone",), [])}
    held = words(checks_page({"release": RELEASE, "gates": gates}))
    assert held.startswith(f"Checks of {RELEASE} Held: not met in history.")
    assert held.index("history failed") < held.index("artefact passed")
    decided = words(checks_page({"release": RELEASE, "gates": gates, "published_by_decision": True}))
    assert decided.startswith(f"Checks of {RELEASE} Published by decision: not met in history.")
    passed = words(checks_page({"release": RELEASE, "gates": {"artefact": gates["artefact"]}}))
    assert passed.startswith(f"Checks of {RELEASE} Passed")


def test_evidence_of_another_shape_is_refused() -> None:
    with pytest.raises(SetupRefused) as refused:
        checks_page({"release": RELEASE, "gates": {"artefact": {"passed": True}}})
    assert refused.value.code == "evidence_unreadable"


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_asks_no_host_for_anything(page: str, tmp_path: Path) -> None:
    """Its log names every request; that the log would show one, a page with an image shows."""
    assert requests_of(page, tmp_path) == []
    assert requests_of('<img src="http://pixel.example/a.png">', tmp_path) == ["http://pixel.example/a.png"]


def requests_of(page: str, home: Path) -> list[str]:
    assert CHROMIUM is not None
    (home / "page.html").write_text(page)
    log = home / "net.json"
    browser = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    own = [f"--user-data-dir={home / 'profile'}", f"--log-net-log={log}", "--disable-background-networking"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--no-first-run", "--disable-component-update"]
    given = [*browser, *own, *offline, "--dump-dom", (home / "page.html").as_uri()]
    subprocess.run(given, capture_output=True, check=True, timeout=60)
    asked = set(re.findall(r'"url":"(https?://[^"]*)"', log.read_text()))
    own_hosts = re.compile("google|gvt1")  # where the browser itself asks for updates and the time
    return sorted(each for each in asked if not own_hosts.search(each))


def test_evidence_that_nests_without_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert read_evidence(tmp_path / "deep.json") is None
