"""Refusals travel between processes as they are."""

import copy
import pickle
from pathlib import Path

import pytest

from dp_spark import errors
from dp_spark.errors import BoundsExceeded, PlanRefused, Refusal


@pytest.mark.parametrize("refusal", [PlanRefused("code", "why", way_out="so"), BoundsExceeded()])
def test_a_refusal_is_the_same_in_another_process(refusal: Refusal) -> None:
    for again in (pickle.loads(pickle.dumps(refusal)), copy.copy(refusal)):
        assert type(again) is type(refusal)
        assert again.as_json() == refusal.as_json()
        assert str(again) == str(refusal)


def test_every_refusal_has_an_exit_code_of_its_class() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Refusal)]
    assert len(kinds) > 10
    assert all(isinstance(kind.exit_code, errors.ExitCode) for kind in kinds)


def test_only_what_may_pass_by_itself_is_worth_another_attempt() -> None:
    decided = {errors.SpecRefused, errors.PlanRefused, errors.BudgetRefused, errors.LedgerRefused}
    for kind in (*decided, errors.ReleaseHeld):
        assert not kind("code", "why", way_out="so").may_pass
    for kind in (errors.SetupRefused, errors.InputRefused, errors.PublishRefused, Refusal):
        assert kind("code", "why", way_out="so").may_pass
    assert errors.LedgerRefused("superseded", "why", way_out="so").may_pass
    assert not BoundsExceeded().may_pass


def test_refusals_of_a_moment_are_refusals_that_the_ledger_has() -> None:
    text = "".join(path.read_text() for path in Path(errors.__file__).parent.glob("*/**/*.py"))
    assert [code for code in sorted(errors._OF_A_MOMENT) if f'"{code}"' not in text] == []
