"""The answer that every cluster must give, asked for once."""

import json
from pathlib import Path

import pytest
from running import Place, make_place, run_job

# Whatever is chosen for the number of partitions and for adaptive execution.
WAYS = [
    {},
    *({"partitions": number, "conf": {"spark.sql.shuffle.partitions": str(number)}} for number in (1, 2, 7)),
    {"conf": {"spark.sql.adaptive.enabled": "false"}},
    {
        "conf": {
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
    },
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "place")


@pytest.fixture(scope="session")
def digests_on_one_machine(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    place = make_place(tmp_path_factory.mktemp("one_machine") / "place")
    return run_job(place, {"spark.master": "local[2]"}, "--ways", json.dumps(WAYS)).digests


@pytest.fixture(scope="session")
def expected(digests_on_one_machine: set[str]) -> str:
    (digest,) = digests_on_one_machine
    return digest
