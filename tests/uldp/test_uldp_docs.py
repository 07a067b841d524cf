"""The example of docs/local.md runs, and prints what it says."""

import re
from pathlib import Path

import pytest

from dp_spark.uldp import Domain, Limit, limit

ROOT = Path(__file__).parents[2]


def test_the_example_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "local.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    domain = names["domain"]
    assert isinstance(domain, Domain)
    assert (domain.n_categories, domain.n_sensitive) == (7, 4)
    assert f"{limit(7, 4, 1).mse:.2f}: n x MSE" in page
    assert isinstance(limit(7, 4, 1), Limit)
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert len(blocks) == 1
