"""A picture of Airflow's grid for the docs, where DP_SPARK_GRID names its file."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

from airflow_server import Airflow


def take_grid(airflow: Airflow, dag: str, run: str) -> None:
    """Have a browser look at the grid of a DAG with one run chosen; nothing where no picture is asked for."""
    asked, browser = os.environ.get("DP_SPARK_GRID"), shutil.which("chromium")
    if asked is None:
        return
    assert browser is not None, "DP_SPARK_GRID needs chromium"
    picture = Path(asked).absolute()
    home = picture.parent / f".{picture.stem}"
    look = [
        browser,
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--window-size=1500,570",
        f"--user-data-dir={home}",
        "--virtual-time-budget=15000",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ]
    chosen = quote(f"{airflow.url}/dags/{dag}/runs/{quote(run)}", safe="")
    page = f"{airflow.url}/auth/token/login?next={chosen}"
    subprocess.run([*look, f"--screenshot={picture}", page], check=True, timeout=120, capture_output=True)
    shutil.rmtree(home)
