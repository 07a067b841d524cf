"""What a session must be before a release runs in it."""

import pytest

from dp_spark.errors import SetupRefused
from dp_spark.frames.session import require_one_machine


class Conf(dict):
    """The settings of a session."""


class Session:
    """A session of which only its master is asked."""

    def __init__(self, master):
        self.conf = Conf({"spark.master": master} if master else {})


class RemoteSession(Session):
    """A session of Spark Connect, by the module that pyspark has it in."""


RemoteSession.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize("kind", [Session, RemoteSession])
def test_a_master_on_this_machine_goes_with_a_ledger_in_a_file(monkeypatch, kind, master):
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    require_one_machine(kind(master))


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:7077", "yarn", "k8s://x", "localhost", "local[", "", None]
)
def test_any_other_master_needs_a_ledger_on_a_server(master):
    with pytest.raises(SetupRefused, match="nothing was charged") as refused:
        require_one_machine(Session(master))
    assert refused.value.code == "ledger_of_one_machine"


def test_a_connect_server_of_somebody_else_needs_a_ledger_on_a_server(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    with pytest.raises(SetupRefused):
        require_one_machine(RemoteSession("local[2]"))


def test_the_master_of_a_real_session_is_read(spark):
    require_one_machine(spark)
