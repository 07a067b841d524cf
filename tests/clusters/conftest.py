"""A place for each test."""

from pathlib import Path

import pytest
from running import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "place")
