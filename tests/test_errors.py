"""Refusals travel between processes as they are."""

import copy
import pickle

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
