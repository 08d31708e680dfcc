"""experiments/compare.py on an engine: what it refuses, and lost workers, by an engine that is told what happens and a
worker of nobody. Those of real workers are in test_compare_dask.py."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import compare
import pytest
from comparison import worker
from comparison.engine import Ended
from comparison.jobs import Job
from comparison.schedule import Journal, Scheduler, Stopped
from conftest import REPOSITORY
from fake_comparison import FAKE, arguments, until

pytest_plugins = ["fake_comparison"]


class Told:
    """An engine whose jobs end as it is told, code by code; then with 0."""

    slots, leaves = 2, False

    def __init__(self, codes: dict[str, list[int]]) -> None:
        self.codes, self.begun, self.open, self.stops = codes, [], [], 0

    def has_room(self) -> bool:
        return len(self.open) < 2

    def start(self, job: Job, arguments: list[str]) -> None:
        self.begun.append(job.name)
        self.open.append(job)

    def ended(self) -> list[Ended]:
        if not self.open:
            return []
        job, codes = self.open[0], self.codes.get(self.open[0].name, [])
        code = codes.pop(0) if codes else 0
        if code == 0:
            job.target.with_suffix(".json").touch()
            job.target.touch()
        self.open.remove(job)
        return [Ended(job, code, 2.0, "its worker was lost" if code == worker.LOST else "")]

    def stop(self) -> None:
        self.stops += 1

    def kill(self) -> None:
        raise AssertionError("nobody asked twice")

    def close(self) -> None:
        pass


def chain(folder: Path) -> list[Job]:
    """first <- second, and a third by itself; a matrix is done when its files are there."""
    first, second, third = (folder / name / "pca_mat.npy" for name in ("first", "second", "third"))
    return [
        Job(first, "first", "a", "pca", ()),
        Job(second, "second", "a", "pca", (), (first,)),
        Job(third, "third", "b", "pca", ()),
    ]


def scheduled(folder: Path, codes: dict[str, list[int]]) -> tuple[Told, dict[Path, str], list[str]]:
    engine, said = Told(codes), []
    scheduler = Scheduler(Path("dimred"), 1, Journal(folder / "journal.jsonl"), lambda: engine, said.append)
    return engine, scheduler.run(chain(folder)), said


def test_a_lost_worker_is_retried_twice(tmp_path: Path) -> None:
    engine, failed, said = scheduled(tmp_path, {"first": [worker.LOST] * 2})
    assert sorted(engine.begun) == ["first"] * 3 + ["second", "third"]
    assert failed == {}
    assert said.count("first: its worker was lost; the job is started again") == 2
    assert said[0] == "3 jobs, 0 done already; 2 at a time, time left unknown"
    assert said[-1] == "[3/3] second: 2 s; time left 0 s"


def test_a_third_loss_is_a_failure(tmp_path: Path) -> None:
    engine, failed, _ = scheduled(tmp_path, {"first": [worker.LOST] * 3})
    assert sorted(engine.begun) == ["first"] * 3 + ["third"]
    assert [why for _, why in sorted(failed.items())] == [
        "ended with -9: its worker was lost",
        "not started: first failed",
    ]


def test_an_engine_is_opened_for_work_only_and_left_as_it_says(tmp_path: Path) -> None:
    scheduled(tmp_path, {})
    done = Scheduler(Path("dimred"), 1, Journal(tmp_path / "journal.jsonl"), lambda: pytest.fail("opened"), print)
    assert done.run(chain(tmp_path)) == {}
    for leaves, fate in ((False, "all runs have saved"), (True, "the started runs continue")):
        engine = Told({})
        engine.leaves = leaves
        engine.ended = lambda: signal.raise_signal(signal.SIGINT) or []
        scheduler = Scheduler(
            Path("dimred"), 1, Journal(tmp_path / "other/journal.jsonl"), lambda engine=engine: engine, print
        )
        with pytest.raises(Stopped, match=f"stopped by SIGINT; {fate}"):
            scheduler.run(chain(tmp_path / "other"))
        assert engine.stops


def test_a_run_that_finished_while_nobody_watched_has_its_seconds(tmp_path: Path) -> None:
    job = chain(tmp_path)[0]
    (tmp_path / "first.log").write_text("$ dimred pca\n# 1.250 seconds\n")
    for _ in range(2):
        journal = Journal(tmp_path / "journal.jsonl")
        journal.recover(job)
        assert journal.seconds(job) == 1.25


WRONG = {
    "--engine=slrum": "--engine needs one of local, dask, slurm, received 'slrum'; nearest: slurm",
    "--scheduler=tcp://127.0.0.1:1": "--scheduler is an option of --engine dask, not of local",
    "--engine=slurm --scheduler=tcp://127.0.0.1:1": "--scheduler is an option of --engine dask, not of slurm",
    "--engine=dask --cluster=x.toml": "--cluster is an option of --engine slurm, not of dask",
    "--on_interrupt=leave": "--on_interrupt is an option of --engine dask or slurm, not of local",
    "--engine=dask --on_interrupt=stay": "--on_interrupt needs cancel or leave, received 'stay'",
    "--engine=dask --scheduler=tcp://127.0.0.1:1": "--jobs has no effect with --scheduler",
}


@pytest.mark.parametrize("words", WRONG)
def test_options_that_do_not_go_together_are_one_line(words: str, fake: Path, capsys) -> None:
    assert compare.main(arguments(fake, *words.split())) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert WRONG[words] in said
    assert not (fake / "out").exists()


def test_an_engine_without_its_packages_says_how_to_get_them(fake: Path, capsys, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("comparison.dask_engine")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert compare.main(arguments(fake, "--engine=dask")) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "scripts/compare.sh installs requirements/engine.txt" in said
    assert not (fake / "out").exists()


@pytest.fixture
def facts(tmp_path: Path) -> worker.Facts:
    """The facts that a worker of this machine has."""
    (tmp_path / "marker").write_text("n")
    return worker.Facts(
        str(tmp_path), str(tmp_path / "marker"), "n", str(tmp_path), str(FAKE), worker.digest_of(str(FAKE))
    )


@pytest.fixture
def nobody(monkeypatch) -> SimpleNamespace:
    """A worker that has the task "t"."""
    here = SimpleNamespace(
        address="tcp://x:1",
        get_current_task=lambda: "t",
        status=SimpleNamespace(name="running"),
        state=SimpleNamespace(tasks={"t": SimpleNamespace(state="executing")}),
    )
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_worker=lambda: here))
    return here


def test_a_worker_that_differs_is_named(facts: worker.Facts, nobody: SimpleNamespace, tmp_path: Path) -> None:
    assert worker.unfit(facts, nobody) == ""
    copy = tmp_path / "dimred"
    copy.write_bytes(FAKE.read_bytes() + b"#\n")
    copy.chmod(0o755)
    for change, said in (
        ({"nonce": "m"}, "does not see .*: the folder is not shared"),
        ({"marker": "/none"}, "not shared"),
        ({"cwd": "/none"}, "no folder /none"),
        ({"binary": "/none"}, "cannot read /none: No such file"),
        ({"binary": str(copy)}, "has another .*/dimred: dimred 0.1.0"),
    ):
        code, _, why = worker.perform([], "/nowhere/log", "token", replace(facts, **change), {})
        assert code == worker.REFUSED
        assert pytest.raises(AssertionError, match=f"^worker tcp://x:1 on .*{said}").matches(AssertionError(why)), why


def program(folder: Path, text: str) -> list[str]:
    (folder / "program.py").write_text(text)
    return [sys.executable, str(folder / "program.py")]


def test_a_run_has_the_drivers_numeric_variables_and_ends_when_nobody_wants_it(
    facts, nobody, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("KEPT", "8")
    shows = program(
        tmp_path, "import os; print(*[os.environ.get(n) for n in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'KEPT')])"
    )
    log = tmp_path / "log"
    assert worker.perform(shows, str(log), "a1", facts, {"MKL_NUM_THREADS": "3"})[0::2] == (0, "")
    assert log.read_text().splitlines()[1] == "None 3 8"
    assert log.read_text().endswith(" seconds\n")
    waits = program(
        tmp_path,
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143)); print('up', flush=True); "
        "time.sleep(60)",
    )
    found: list[tuple[int, float, str]] = []
    thread = threading.Thread(target=lambda: found.append(worker.perform(waits, str(log), "a2", facts, {})))
    thread.start()
    until(lambda: log.read_text().endswith("up\n"))
    nobody.state.tasks["t"].state = "cancelled"
    thread.join(timeout=20)
    assert found[0][0] == 143


def test_a_start_waits_for_the_process_of_a_lost_worker_and_is_counted(
    facts, nobody, tmp_path: Path, monkeypatch
) -> None:
    log = tmp_path / "log"
    with log.open("a") as earlier:  # as its process would hold it
        fcntl.flock(earlier, fcntl.LOCK_EX)
        earlier.write("$ dimred  # tcp://y:1 a1\n")
        earlier.flush()
        monkeypatch.setattr(worker, "PATIENCE", 0.2)
        assert worker.perform(["false"], str(log), "a1", facts, {}) == (
            1,
            0.0,
            "the process of an earlier start is still at work",
        )
        assert len(log.read_text().splitlines()) == 1
    assert worker.perform(["false"], str(log), "a1", facts, {}) == (worker.LOST, 0.0, "its worker was lost")
    assert worker.perform(["false"], str(log), "a2", facts, {})[0] == 1


def test_the_script_installs_an_engine_once(tmp_path: Path) -> None:
    for folder in ("scripts", "experiments", "requirements", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("scripts/compare.sh", "scripts/needs_build.sh", "requirements/engine.txt"):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    python = tmp_path / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\n')
    python.chmod(0o755)
    for words in ("x.toml", "x.toml --engine local", "x.toml --engine dask", "--engine=slurm x.toml"):
        subprocess.run([tmp_path / "scripts/compare.sh", *words.split()], check=True)
    called = (tmp_path / "called").read_text().splitlines()
    assert [line.startswith("-m pip install") for line in called] == [False, False, False, True, False, False]
