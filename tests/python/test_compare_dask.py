"""experiments/compare.py --engine dask and slurm with real workers: killed, cancelled, left and taken up; the tables
are those of local runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import compare
import pandas as pd
import pytest
from comparison.engine import LEFT
from comparison.worker import Facts
from fake_comparison import COMPARE, FAKE, SHORT, arguments, calls, compared, results, running, until

pytest_plugins = ["fake_comparison"]
NEEDS = "needs Dask: .venv/bin/python -m pip install -r requirements/engine.txt"
# A mark, not importorskip: a file without any test is a failure of pytest's.
pytestmark = pytest.mark.skipif(not all(map(find_spec, ("distributed", "dask_jobqueue"))), reason=NEEDS)
RUNS_64 = SHORT.replace("[1, 2]", "[1, 2, 3, 4, 5, 6, 7, 8]").replace('"pca"', '"pca"\nalpha = [0.1, 0.2, 0.3, 0.4]')
RUNS_64 += """
[matrices.random]
kind = "random"
[methods.random]
role = "control"
matrix = "random"
[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+2"
"""


def start(folder: Path, *more: str, **variables: str) -> subprocess.Popen[str]:
    """compare.py on an engine as a process."""
    words = [
        word for word in arguments(folder, *more) if word != "--jobs=2" or not any("scheduler" in word for word in more)
    ]
    return subprocess.Popen(
        [sys.executable, str(COMPARE), *words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"FAKE_FOLDER": str(folder)} | variables,
    )


def held(folder: Path, *more: str) -> subprocess.Popen[str]:
    """One of SHORT whose first runs, both stage 1, wait in their second epoch."""
    (folder / "comparison.toml").write_text(SHORT)
    (folder / "hold").touch()
    process = start(folder, *more)
    until(lambda: begun(folder) == 2, 60)
    return process


def begun(folder: Path) -> int:
    """Runs with a first row."""
    return sum(len(file.read_text().splitlines()) == 2 for file in folder.glob("out/*/*/curve.csv"))


def worker_of(pid: int) -> int | None:
    """Dask's worker that started the process; None of one that has lost it, or is over."""
    try:
        started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return started if b"multiprocessing" in Path(f"/proc/{started}/cmdline").read_bytes() else None
    except OSError:
        return None


def kill_worker(processes: Callable[[], list[int]], but: set[int]) -> int:
    """Kills one, other than those, that has one of the processes; returns it."""
    found: list[int] = []
    until(lambda: found.extend(one for one in map(worker_of, processes()) if one and one not in but) or found, 60)
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def same(found: Path, oracle: Path) -> None:
    """All of the tables that is not of time, to the last bit."""
    tables = [results(folder) for folder in (found, oracle)]
    summaries = [
        pd.read_csv(folder / "out/summary.csv").query("compared_at != 'no more seconds'") for folder in (found, oracle)
    ]
    for left, right in (tables, summaries):
        shared = [column for column in right if "seconds" not in column and column != "note"]
        pd.testing.assert_frame_equal(
            left[shared].reset_index(drop=True), right[shared].reset_index(drop=True), check_exact=True
        )


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    """SHORT by child processes."""
    return compared(tmp_path_factory.mktemp("local"), SHORT)


def test_64_runs_on_4_workers_of_which_2_are_killed_give_the_local_tables(fake: Path, tmp_path_factory) -> None:
    oracle = compared(tmp_path_factory.mktemp("oracle"), RUNS_64)
    (fake / "comparison.toml").write_text(RUNS_64)
    process = start(fake, "--engine=dask", "--jobs=4", FAKE_DELAY="0.15")
    killed: set[int] = set()
    for rest in (50, 20):  # calls to come
        until(lambda rest=rest: len(calls(fake)) > 80 - rest, 120)
        killed.add(kill_worker(lambda: running(fake), killed))
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert len(killed) == 2
    assert 1 <= said.count(": its worker was lost; the job is started again") <= 2, said
    assert "dashboard: http://" in said
    assert "; time left " in said
    assert len(results(fake)) == 64
    same(fake, oracle)
    assert len(set(calls(fake))) == 80  # 64 runs and 16 matrices
    assert len(calls(fake)) <= 82
    assert not (fake / "out" / LEFT).exists()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_cancelled_runs_save_and_go_on_anywhere(stop: signal.Signals, fake: Path, local: Path) -> None:
    process = held(fake, "--engine=dask")
    process.send_signal(stop)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == (130 if stop == signal.SIGINT else -9)
    told = "stopped by SIGINT; all runs have saved their states; run the same command again to continue"
    assert stop == signal.SIGKILL or told in said
    until(lambda: not running(fake))
    before = calls(fake)
    assert len(before) == 2
    (fake / "hold").unlink()
    assert compare.main(arguments(fake)) == 0  # by child processes
    assert sorted(calls(fake)[2:4]) == sorted(before)
    assert [len(file.read_text().splitlines()) for file in fake.glob("out/*/stage1-*/curve.csv")] == [3, 3]
    same(fake, local)


@pytest.mark.parametrize("meanwhile", ["at work", "finished"])
def test_runs_that_are_left_are_taken_up(meanwhile: str, fake: Path, local: Path, capsys) -> None:
    process = held(fake, "--engine=dask", "--on_interrupt=leave")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the started runs continue; the same command reconnects to them" in said
    assert len(running(fake)) == 2
    assert compare.main(arguments(fake)) == 1
    assert "runs still belong to the Dask scheduler at tcp://127.0.0.1:" in capsys.readouterr().err
    if meanwhile == "finished":
        (fake / "hold").unlink()
        until(lambda: not running(fake))
        until(lambda: len(list(fake.glob("out/*/stage1-*.log"))) == 2)
    again = start(fake, "--engine=dask")
    said = "".join(iter(again.stdout.readline, "")) if meanwhile == "finished" else ""
    while meanwhile == "at work" and " at a time, time left " not in said:
        said += again.stdout.readline()
    (fake / "hold").unlink(missing_ok=True)
    said += again.communicate(timeout=90)[0]
    assert again.returncode == 0, said
    assert "reconnects to the runs at tcp://127.0.0.1:" in said
    assert len(calls(fake)) == len(set(calls(fake))) == 8  # none twice
    assert len((fake / "out/journal.jsonl").read_text().splitlines()) == 8
    same(fake, local)
    assert not (fake / "out" / LEFT).exists()
    assert not list(fake.glob("out/.shared-*"))


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler of somebody else with two workers, and their processes, the scheduler's first."""
    file, environment = folder / "scheduler.json", os.environ | {"FAKE_FOLDER": str(folder)}
    words = {
        "scheduler": ["--host=127.0.0.1", "--port=0", "--no-dashboard", f"--scheduler-file={file}"],
        "worker": [f"--scheduler-file={file}", "--no-nanny", "--nthreads=1", "--no-dashboard"],
    }
    processes = []
    try:
        for kind in ("scheduler", "worker", "worker"):
            with (folder / "dask.log").open("a") as log:
                processes.append(
                    subprocess.Popen(
                        [
                            sys.executable,
                            "-m",
                            f"distributed.cli.dask_{kind}",
                            *words[kind],
                            f"--local-directory={folder}",
                        ]
                        if kind == "worker"
                        else [sys.executable, "-m", "distributed.cli.dask_scheduler", *words[kind]],
                        stdout=log,
                        stderr=log,
                        env=environment,
                        cwd=folder,
                    )
                )
            until(file.is_file, 60)
        address = json.loads(file.read_text())["address"]
        import distributed

        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_scheduler_of_somebody_else_is_used_and_kept(fake: Path, local: Path, capsys) -> None:
    with scheduler(fake) as (address, processes):
        (fake / "comparison.toml").write_text(SHORT)
        process = start(fake, "--engine=dask", f"--scheduler={address}")
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "8 jobs, 0 done already; 2 at a time" in said
        same(fake, local)
        assert all(one.poll() is None for one in processes)

        for seed in fake.glob("out/seed_*"):
            seed.rename(fake / f"done_{seed.name}")
        process = held(fake, "--engine=dask", f"--scheduler={address}")
        processes[0].kill()  # the scheduler
        said, _ = process.communicate(timeout=90)
        assert process.returncode == 1, said
        assert (
            said.splitlines()[-1]
            == f"compare: the Dask scheduler at {address} has ended, or has dropped the runs; run the same command "
            "again to continue"
        )
        until(lambda: not running(fake), 60)
    begin = time.monotonic()
    words = [word for word in arguments(fake, "--engine=dask", f"--scheduler={address}") if word != "--jobs=2"]
    assert compare.main(words) == 1
    assert time.monotonic() - begin < 15
    assert f"compare: no Dask scheduler answers at {address}" in capsys.readouterr().err


def test_a_worker_of_another_version_and_a_folder_that_is_not_shared_are_named(fake: Path, monkeypatch, capsys) -> None:
    (fake / "comparison.toml").write_text(SHORT)
    copy = fake / "dimred"
    copy.write_bytes(FAKE.read_bytes())
    copy.chmod(0o755)
    with scheduler(fake) as (address, _):
        words = [
            word
            for word in arguments(fake, "--engine=dask", f"--scheduler={address}", f"--dimred={copy}")
            if word != "--jobs=2"
        ]
        from comparison import dask_engine

        for name, value, said in (
            (
                "digest_of",
                lambda _: "other",
                f"has another {copy}: dimred 0.1.0 (fake), but this machine has dimred 0.1.0 (fake)",
            ),
            ("marker", "/none", f"does not see {fake}/out: the folder is not shared"),
        ):
            facts = Facts
            with monkeypatch.context() as patch:
                patch.setattr(
                    dask_engine,
                    "Facts",
                    lambda folder, marker, nonce, cwd, binary, digest, name=name, value=value, facts=facts: facts(
                        folder,
                        value if name == "marker" else marker,
                        nonce,
                        cwd,
                        binary,
                        "other" if name == "digest_of" else digest,
                    ),
                )
                assert compare.main(words) == 1
            error = capsys.readouterr().err
            assert len(error.splitlines()) == 1
            assert error.startswith("compare: worker tcp://127.0.0.1:")
            assert said in error
    assert calls(fake) == []


FAKE_SLURM = {
    "sbatch": 'cp "$1" "$JOBS/script.$$"; setsid bash "$JOBS/script.$$" >/dev/null 2>&1 & '
    'echo "Submitted batch job $!"',
    "scancel": 'echo "$1" >>"$JOBS/cancelled"; kill -TERM -- "-$1"',
}


@pytest.fixture
def slurm(fake: Path, monkeypatch) -> Path:
    """A folder with sbatch and scancel that begin and end a job's script here, and its copies."""
    jobs = fake / "jobs"
    jobs.mkdir()
    for name, line in FAKE_SLURM.items():
        (jobs / name).write_text(f"#!/usr/bin/env bash\n{line}\n")
        (jobs / name).chmod(0o755)
    monkeypatch.setenv("JOBS", str(jobs))
    monkeypatch.setenv("PATH", str(jobs), prepend=os.pathsep)
    return jobs


def test_workers_in_jobs_of_slurm(fake: Path, local: Path, slurm: Path) -> None:
    (fake / "comparison.toml").write_text(SHORT)
    (fake / "cluster.toml").write_text(
        'queue = "short"\naccount = "us"\njob_extra_directives = ["--requeue"]\n'
        'scheduler_options = {host = "127.0.0.1"}\n'
    )
    process = start(fake, "--engine=slurm", "--jobs=2", "--threads=3", f"--cluster={fake}/cluster.toml")
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    same(fake, local)
    scripts = [file.read_text() for file in slurm.glob("script.*")]
    assert len(scripts) == 2
    logs = fake / "out/engine_logs"
    lines = scripts[0].splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH -J dimred",
        f"#SBATCH -e {logs}/dimred-%J.err",
        f"#SBATCH -o {logs}/dimred-%J.out",
        "#SBATCH -p short",
        "#SBATCH -A us",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=3",
        "#SBATCH --requeue",
    ]
    assert f"{sys.executable} -m distributed.cli.dask_worker tcp://127.0.0.1:" in lines[-1]
    assert " --nthreads 1 " in lines[-1]
    assert len((slurm / "cancelled").read_text().splitlines()) == 2
    assert "--threads=3" in calls(fake)[0]


def test_limits_of_the_file_are_in_the_jobs_script(slurm: Path) -> None:
    from comparison.dask_engine import Asked, check, job_script

    (slurm / "cluster.toml").write_text('memory = "4GB"\nwalltime = "02:00:00"\n')
    asked = Asked(True, 2, 1, None, slurm / "cluster.toml", False)
    check(asked)
    script = job_script(asked, slurm)
    assert "#SBATCH --mem=4G\n" in script
    assert "#SBATCH -t 02:00:00\n" in script


WRONG = {
    "queu = 1": "unexpected keyword argument 'queu'",
    "queue = ": "Invalid value",
    "memory = 'much'": "'much'",
    None: "No such file or directory",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_the_file_of_the_cluster_is_one_line(text: str | None, fake: Path, slurm: Path, capsys) -> None:
    if text:
        (fake / "cluster.toml").write_text(text)
    assert compare.main(arguments(fake, "--engine=slurm", f"--cluster={fake}/cluster.toml")) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"compare: --cluster {fake}/cluster.toml: " in said
    assert WRONG[text] in said
    assert not (fake / "out").exists()


def test_slurm_is_refused_where_there_is_none(fake: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(fake))
    assert compare.main(arguments(fake, "--engine=slurm")) == 1
    assert capsys.readouterr().err == "compare: --engine slurm needs Slurm's sbatch, but sbatch is not on PATH\n"
    assert not (fake / "out").exists()


def trainers(folder: Path) -> list[int]:
    """Processes of dimred that train in a run of the folder which has an epoch already."""
    begun = {str(curve.parent) for curve in folder.glob("*/*/curve.csv") if len(curve.read_text().splitlines()) > 1}
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(word.removeprefix("--output=") in begun for word in words):
            found.append(int(file.parent.name))
    return found


def test_a_real_comparison_of_which_a_worker_is_killed_is_the_local_one_to_the_last_bit(
    small_comparison: Path, tmp_path: Path, binaries: Path
) -> None:
    """The comparison has eight runs and two matrices."""
    (tmp_path / "small.toml").write_text((small_comparison / "comparison.toml").read_text())
    words = [str(tmp_path / "small.toml"), "--output", str(tmp_path / "out"), "--dimred", str(binaries / "dimred")]
    process = subprocess.Popen(
        [sys.executable, str(COMPARE), *words, "--engine=dask", "--jobs=2"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    kill_worker(lambda: trainers(tmp_path / "out"), set())
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "its worker was lost; the job is started again" in said
    same(tmp_path, small_comparison.parent)
    for curve in small_comparison.glob("*/*/curve.csv"):
        there = tmp_path / "out" / curve.relative_to(small_comparison)
        left, right = (pd.read_csv(file) for file in (there, curve))
        shared = [column for column in right if "seconds" not in column]
        pd.testing.assert_frame_equal(left[shared], right[shared], check_exact=True)
