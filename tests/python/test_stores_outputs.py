"""Runs and files whose output is a URL: local copies that are cut, older, unsent or in use, and how such runs end."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli import cli, completed
from stored_runs import QUICK, STAGE1, curve, weights


def stage1(dimred: Path, url: str, cache: Path, epochs: int, **options) -> subprocess.CompletedProcess[str]:
    """A short run of four snapshots an epoch, whose schedule is of three."""
    words = ["stage1", *STAGE1, f"--epochs={epochs}", "--total_epochs=3", f"--output={url}"]
    return subprocess.run(
        [dimred, *words, f"--store_cache={cache}", *QUICK], capture_output=True, text=True, check=False, **options
    )


def plain_run(dimred: Path, folder: Path, epochs: int) -> Path:
    """The same without a store."""
    words = ["stage1", *STAGE1, f"--epochs={epochs}", "--total_epochs=3", f"--output={folder}"]
    subprocess.run([dimred, *words], check=True, capture_output=True)
    return folder


def test_a_take_up_that_is_cut_is_no_run(dimred: Path, tmp_path: Path) -> None:
    """Ended when checkpoints, configuration and curve were here, and no snapshot."""
    there = tmp_path / "there"
    assert stage1(dimred, f"file://{there}", tmp_path / "first", 1).returncode == 0
    subprocess.run([dimred, "store", "get", f"file://{there}", tmp_path / "copy"], check=True, capture_output=True)
    (tmp_path / "copy" / "d.bin").write_bytes(bytes(60_000_000))
    subprocess.run([dimred, "store", "put", tmp_path / "copy", f"file://{there}"], check=True, capture_output=True)
    limit = (30_000_000, resource.RLIM_INFINITY)
    cut = stage1(
        dimred,
        f"file://{there}",
        tmp_path / "second",
        2,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert cut.returncode == 1 and "File too large" in cut.stderr, cut.stderr
    assert list((tmp_path / "second").rglob("config.toml"))
    done = stage1(dimred, f"file://{there}", tmp_path / "second", 2)
    assert done.returncode == 0, done.stderr
    assert weights(there) == weights(plain_run(dimred, tmp_path / "plain", 2))
    assert len(curve(there)) == 2


def test_a_newer_run_there_is_taken_up(dimred: Path, tmp_path: Path) -> None:
    """One machine trains an epoch, another two more, and the first goes on from there."""
    there = tmp_path / "there"
    for cache, epochs in (("one", 1), ("two", 2), ("one", 3)):
        done = stage1(dimred, f"file://{there}", tmp_path / cache, epochs)
        assert done.returncode == 0, done.stderr
    assert [len(curve(run.parent)) for run in (tmp_path / "one").rglob("earlier.1/curve.csv")] == [1]
    assert not list((tmp_path / "two").rglob("earlier*"))
    assert curve(there) == curve(plain_run(dimred, tmp_path / "plain", 3))
    # A start that is killed at once leaves a lock: that is no run.
    shutil.rmtree(tmp_path / "two")
    (entry,) = (folder for folder in (tmp_path / "one" / "outputs").iterdir())
    content = tmp_path / "two" / "outputs" / entry.name / "content" / "there"
    content.mkdir(parents=True)
    (content / ".lock").touch()
    assert stage1(dimred, f"file://{there}", tmp_path / "two", 3).returncode == 0
    assert len(curve(content)) == 3


def test_work_that_was_not_sent_is_kept(dimred: Path, tmp_path: Path) -> None:
    """And a place that another process works at is left alone."""
    run = plain_run(dimred, tmp_path / "run", 1)
    url = f"file://{tmp_path / 'blocked' / 'x.npy'}"
    (tmp_path / "blocked").write_text("a file where the folder shall be")
    places = {"snapshots": run / "snapshots", "output": url, "store_cache": tmp_path / "cache"}
    command = cli(dimred, "pca --components=2", *QUICK, **places)

    def line(code: int) -> str:
        done = completed(command)
        assert done.returncode == code, done.stderr
        return done.stderr

    local = Path(line(1).split("the local copy is ")[1].strip())
    matrix = local.read_bytes()
    (tmp_path / "blocked").unlink()
    refused = line(2)
    assert f"which was never uploaded; send {local} with" in refused
    assert local.read_bytes() == matrix
    Path(refused.split("or remove ")[1].strip()).unlink()
    with (local.parent.parent / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process is writing file://" in line(1)
        assert local.read_bytes() == matrix
    assert not line(0)
    assert (tmp_path / "blocked" / "x.npy").read_bytes() == matrix


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A Hadoop client that finds nothing, and whose uploads do not end; it leaves `puts` when one begins."""
    file = tmp_path / "hadoop"
    file.write_text(
        '#!/bin/sh\ncase $2 in -ls|-stat) echo "${2#-}: x: No such file or directory" >&2; exit 1;; '
        f"-put) touch {tmp_path}/puts; exec sleep 60;; esac\n"
    )
    file.chmod(0o755)
    return file


def wait_for_an_upload(folder: Path) -> None:
    """Waits until the client has begun one."""
    end = time.monotonic() + 30
    while not (folder / "puts").exists() and time.monotonic() < end:
        time.sleep(0.05)


def test_a_signal_during_the_last_upload_ends_it_with_a_line(dimred: Path, client: Path, tmp_path: Path) -> None:
    places = {"store_hadoop": client, "store_cache": tmp_path / "cache"}
    words = cli("stage1", *STAGE1, "--epochs=1 --output=hdfs:///run", **places)
    with subprocess.Popen([dimred, *words], stderr=subprocess.PIPE, text=True) as process:
        wait_for_an_upload(tmp_path)
        time.sleep(0.6)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 143
        assert "stopped by a signal during the upload to hdfs:///run; the same command" in process.stderr.read()


def test_a_signal_during_a_files_upload_says_what_to_do(dimred: Path, client: Path, tmp_path: Path) -> None:
    """The same command would refuse: it does not send what is there."""
    run = plain_run(dimred, tmp_path / "run", 1)
    places = {"snapshots": run / "snapshots", "store_hadoop": client, "store_cache": tmp_path / "cache"}
    words = cli(dimred, "pca --components=2 --output=hdfs:///x.npy", **places)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        wait_for_an_upload(tmp_path)
        time.sleep(0.6)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 143
        said = process.stderr.read().strip()
    (local,) = (tmp_path / "cache").rglob("x.npy")
    assert (
        f"stopped by a signal during the upload to hdfs:///x.npy; send {local} with `dimred store put`, or remove "
        in said
    )
    again = completed(words)
    assert again.returncode == 2
    assert said.split("; ")[1] in again.stderr


def test_verify_refuses_urls_that_it_cannot_use(fails, tmp_path: Path) -> None:
    cache, there = f"--store_cache={tmp_path / 'cache'}", tmp_path / "there"
    there.write_text("something")
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("")
    said = fails(2, "verify", f"file://{tmp_path}/run", "--pairs", pairs, cache)
    assert f"--weights: [stores] needs --output FOLDER or URL, because the weights are at file://{tmp_path}/run" in said
    said = fails(2, "verify", there, f"--pairs=file://{pairs}", cache)
    assert (
        f"--pairs: [stores] a URL of pairs needs to end in .bin, because only a pickle holds the images; received file://{pairs}"
        in said
    )
    said = fails(2, "verify", there, "--pairs", pairs, f"--output=file://{there}", cache)
    assert f"file://{there} exists already; choose another --output" in said
    assert "overwrite" not in said


def test_a_failure_does_not_wait_for_an_upload(dimred: Path, client: Path, tmp_path: Path) -> None:
    """The manifest says so at once, while a checkpoint is on its way."""
    places = {"store_hadoop": client, "store_cache": tmp_path / "cache"}
    words = cli("stage1", *STAGE1, "--epochs=400 --output=hdfs:///run --upload_checkpoints", **places)
    with subprocess.Popen([dimred, *words], stderr=subprocess.PIPE, text=True) as process:
        wait_for_an_upload(tmp_path)
        (run,) = (file.parent for file in (tmp_path / "cache").rglob("content/run/config.toml"))
        shutil.rmtree(run / "snapshots")
        (run / "snapshots").write_text("no folder")
        assert process.wait(20) == 1, process.stderr.read()
    assert json.loads((run / "manifest.json").read_text())["outcome"] == "failed"


def test_a_rank_that_rank_0_does_not_hear_says_it_itself(dimred: Path, tmp_path: Path) -> None:
    """Rank 0 may be downloading for long."""
    words = ["stage1", f"--data=file://{tmp_path}/none", f"--output={tmp_path / 'x'}", f"--store_cache={tmp_path}"]
    ranks = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    done = completed([dimred, *words], env={**os.environ, **ranks})
    assert done.returncode == 2
    assert done.stderr == f"dimred stage1: error: rank 1: --data: [stores] found no file at file://{tmp_path}/none\n"
