"""Neither the wave's keys nor an answer stand in plans, logs, events or tables of reports."""

import subprocess
import sys
from pathlib import Path

from survey_job import CANARY, DECOY
from surveys import KEY, hkdf, label

sys.path.insert(0, str(Path(__file__).parents[1] / "clusters"))
from searching import files_below, found_in_files

HERE = Path(__file__).parent


def test_keys_and_answers_are_in_no_plan_log_event_or_report(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "survey_job.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:].decode()
    (tmp_path / "said").write_bytes(done.stdout + done.stderr)
    secrets = {"wave": KEY} | {
        purpose: hkdf(KEY, label("key", f"survey {purpose}")) for purpose in ("token", "words")
    }
    told = [file for file in files_below(tmp_path) if tmp_path / "input" not in file.parents]
    assert found_in_files(told, secrets) == {}
    assert [file for file in told if CANARY.encode() in file.read_bytes()] == []
    # The places were there, and what one does not keep from them is found.
    assert any(DECOY.encode() in file.read_bytes() for file in files_below(tmp_path / "events"))
    assert "MapInArrow" in (tmp_path / "plans").read_text()
    assert b"DEBUG" in (tmp_path / "said").read_bytes()
    assert any(CANARY.encode() in file.read_bytes() for file in files_below(tmp_path / "input"))
