"""A picture of Airflow's grid for the docs, where DP_SPARK_GRID names its file."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

from airflow_server import Airflow, until


def take_grid(airflow: Airflow, dag: str, run: str) -> None:
    """Have a browser look at the grid of a DAG with one run chosen; nothing where no picture is asked for."""
    asked, browser = os.environ.get("DP_SPARK_GRID"), shutil.which("chromium")
    if asked is None:
        return
    assert browser is not None, "DP_SPARK_GRID needs chromium"
    until(lambda: _ended(airflow, dag), seconds=120)  # their banner would be in the picture
    picture = Path(asked).absolute()
    home = picture.parent / f".{picture.stem}"
    look = [
        browser,
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--window-size=1500,620",
        f"--user-data-dir={home}",
        "--virtual-time-budget=15000",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ]
    chosen = quote(f"{airflow.url}/dags/{dag}/runs/{quote(run)}", safe="")
    page = f"{airflow.url}/auth/token/login?next={chosen}"
    subprocess.run([*look, f"--screenshot={picture}", page], check=True, timeout=120, capture_output=True)
    shutil.rmtree(home)


def _ended(airflow: Airflow, dag: str) -> bool:
    """Whether Airflow has seen that all backfills are done: it looks twice a minute."""
    return all(each["completed_at"] for each in airflow.ask(f"backfills?dag_id={dag}")["backfills"])
