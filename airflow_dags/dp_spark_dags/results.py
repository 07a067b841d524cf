"""The files in which jobs leave how they ended: state, digest, cost, budget left, refusal; never a value."""

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20  # bytes


def default_results() -> str:
    """DP_SPARK_RESULTS, else a directory of AIRFLOW_HOME; every worker must see the same one."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return os.environ.get("DP_SPARK_RESULTS") or str(Path(home).expanduser() / "dp_spark_results")


def result_path(root: str, dag_id: str, run_id: str, task_id: str) -> str:
    """Where the job of a task leaves its result; the same for each of its attempts."""
    parts = (re.sub(r"[^\w.+-]", "_", part) for part in (dag_id, f"run-{run_id}", f"{task_id}.json"))
    return str(Path(root, *parts))


def read_result(path: str, since: datetime | None = None) -> Mapping[str, Any] | None:
    """What the job left, if it left anything; with `since`, only what was written then or later."""
    try:
        with Path(path).open("rb") as stream:
            if since is not None and os.fstat(stream.fileno()).st_mtime < since.timestamp():
                return None
            told = json.loads(stream.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def result_of_attempt(task: Any, results: str) -> Mapping[str, Any] | None:
    """What the job left in the attempt at hand of a task instance; nothing of an earlier one."""
    path = result_path(results, task.dag_id, task.run_id, task.task_id)
    return read_result(path, since=getattr(task, "start_date", None))
