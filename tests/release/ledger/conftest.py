import pytest
from ledger_support import MASTER_KEY, fund, url_of

from dp_spark.release.ledger import Ledger, create_ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def empty_ledger(path):
    create_ledger(url_of(path))
    return Ledger.open(url_of(path), MASTER_KEY)


@pytest.fixture
def ledger(empty_ledger):
    fund(empty_ledger, 1, "1e-6")
    return empty_ledger
