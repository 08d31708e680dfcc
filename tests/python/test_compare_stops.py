"""experiments/compare.py stopped and killed: it loses nothing and repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import compare
import pandas as pd
import pytest
from comparison.schedule import Busy, Journal, take
from fake_comparison import COMPARE, SHORT, arguments, calls, results, running, until

pytest_plugins = ["fake_comparison"]


def start(folder: Path) -> subprocess.Popen[str]:
    """compare.py as a process, its runs held in their second epoch; returns when two are there."""
    (folder / "comparison.toml").write_text(SHORT)
    (folder / "hold").touch()
    environment = os.environ | {"FAKE_FOLDER": str(folder)}
    process = subprocess.Popen(
        [sys.executable, str(COMPARE), *arguments(folder)],
        text=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    until(lambda: len(list(folder.glob("out/*/*/curve.csv"))) == 2)
    until(lambda: all(len(file.read_text().splitlines()) == 2 for file in folder.glob("out/*/*/curve.csv")))
    return process


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_comparison_loses_and_repeats_nothing(stop: signal.Signals, fake: Path, undisturbed) -> None:
    process = start(fake)
    process.send_signal(stop)
    code = process.wait(timeout=20)
    assert code == (-9 if stop == signal.SIGKILL else 128 + stop)
    until(lambda: not running(fake))  # the children ended with it
    before = calls(fake)
    (fake / "hold").unlink()
    assert compare.main(arguments(fake)) == 0
    again = [line for line in calls(fake)[len(before) :] if line in before]
    assert sorted(again) == sorted(before)  # both were half done: they resumed
    shared = [column for column in undisturbed if "seconds" not in column]
    pd.testing.assert_frame_equal(results(fake)[shared], undisturbed[shared])
    rows = [len(file.read_text().splitlines()) for file in fake.glob("out/*/stage1-*/curve.csv")]
    assert rows == [3, 3]  # a resumed run wrote each of its rows once


def test_a_killed_run_goes_on_by_itself(fake: Path, undisturbed) -> None:
    process = start(fake)
    os.kill(running(fake)[0], signal.SIGKILL)
    until(lambda: len(calls(fake)) == 3)
    (fake / "hold").unlink()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, out
    assert "killed (-9); the job is started again" in out
    shared = [column for column in undisturbed if "seconds" not in column]
    pd.testing.assert_frame_equal(results(fake)[shared], undisturbed[shared])


def test_two_comparisons_do_not_share_a_folder(tmp_path: Path) -> None:
    lock = take(tmp_path)
    with pytest.raises(Busy, match="is using"):
        take(tmp_path, patience=0)
    lock.close()
    take(tmp_path, patience=0).close()


def test_time_left_is_that_of_finished_jobs_of_the_kind(tmp_path: Path) -> None:
    class Job:
        target, kind = Path("x"), "a"

    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.estimate([Job()], 1) is None
    for kind, seconds in (("a", 2.0), ("a", 4.0), ("b", 10.0)):
        Job.kind = kind
        journal.add(Job(), seconds)
    with journal.path.open("a") as stream:
        stream.write('{"target": "x", "ki')  # a kill
    journal = Journal(journal.path)
    Job.kind = "a"
    assert journal.estimate([Job(), Job()], 2) == 3
    Job.kind = "new"
    assert journal.estimate([Job()], 1) == 6.5
    journal.add(Job(), 1.0)
    assert len(Journal(journal.path).by_kind["new"]) == 1
