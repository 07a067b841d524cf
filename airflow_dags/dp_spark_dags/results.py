"""The files in which jobs leave how they ended: state, digest, cost, budget left, refusal; never a value."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20  # bytes
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def default_results() -> str:
    """DP_SPARK_RESULTS, else a directory of AIRFLOW_HOME; every worker must see the same one."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return os.environ.get("DP_SPARK_RESULTS") or str(Path(home).expanduser() / "dp_spark_results")


def result_path(root: str, dag_id: str, run_id: str, task_id: str) -> str:
    """Where the job of a task leaves its result; the same for each of its attempts, and of no other task.

    A run id may hold what a file name may not, and is told from one that is written alike by its digest.
    """
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    run = re.sub(r"[^\w.+-]", "_", run_id[:100], flags=re.ASCII)
    # Ids of DAGs and tasks hold nothing else in Airflow; no two become one here.
    dag, task = (re.sub(r"[^\w.-]", "_", part) for part in (dag_id, task_id))
    return str(Path(root, dag, f"run-{run}-{digest}", f"{task}.json"))


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
    told = read_result(path, since=getattr(task, "start_date", None))
    return told if told is None or _well_formed(told) else None


def _well_formed(told: Mapping[str, Any]) -> bool:
    """Whether all that is quoted of it is as jobs write it: a code, texts, amounts as text."""
    error, left = told.get("error"), told.get("left")
    texts = (told.get(name) for name in ("message", "way_out", "release", "state"))
    return (
        (error is None or (isinstance(error, str) and _CODE.fullmatch(error) is not None))
        and all(text is None or isinstance(text, str) for text in texts)
        and (
            left is None or (isinstance(left, dict) and all(isinstance(each, str) for each in left.values()))
        )
    )
