"""`dimred store` and a run with an HDFS that is there: $DIMRED_HADOOP and $DIMRED_HDFS name the client and the
place (tests/hdfs_server.sh starts one); without them these tests are skipped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli import cli, completed
from store_servers import expect_streamed, files_of

HADOOP = os.environ.get("DIMRED_HADOOP") or shutil.which("hadoop")
ROOT = os.environ.get("DIMRED_HDFS")
needs_server = pytest.mark.skipif(not HADOOP or not ROOT, reason="needs $DIMRED_HDFS, see tests/hdfs_server.sh")
QUICK = [f"--store_hadoop={HADOOP}", "--store_attempts=1", "--store_timeout=30"]


@pytest.fixture(scope="module")
def place() -> str:
    """A folder of HDFS for these tests, removed with what is in it."""
    url = f"{ROOT}/dimred-test-{os.getpid()}"
    hadoop("fs", "-mkdir", "-p", f"{url}/quota")
    yield url
    hadoop("fs", "-rm", "-r", "-f", "-skipTrash", url)


def hadoop(*words: object) -> str:
    """The client itself: the oracle."""
    return subprocess.run([HADOOP, *map(str, words)], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files in three folders, one of them empty, one of several blocks."""
    run = tmp_path / "run"
    for name, data in {
        "a.bin": os.urandom(3_000_000),
        "b c.txt": b"text",
        "empty": b"",
        "sub/x": b"1",
        "sub/y": b"22",
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)
    return run


@pytest.fixture
def call(dimred: Path):
    """`dimred` with few attempts: output, or the one line of an error."""

    def run(*words: object, code: int = 0, **variables: str) -> str:
        command = cli(dimred, *words, *QUICK)
        done = completed(command, env={**os.environ, **variables})
        assert done.returncode == code, done.stdout + done.stderr
        assert code == 0 or len(done.stderr.splitlines()) == 1, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@needs_server
def test_a_folder_there_and_back_and_changed(place: str, folder: Path, call, tmp_path: Path) -> None:
    call("store", "put", folder, f"{place}/round")
    assert hadoop("fs", "-cat", f"{place}/round/sub/x", f"{place}/round/sub/y") == "122"
    call("store", "get", f"{place}/round", tmp_path / "got")
    assert files_of(tmp_path / "got") == files_of(folder)
    (folder / "sub" / "x").write_bytes(b"333")
    (folder / "b c.txt").unlink()
    assert "uploaded 1 file, 3 B, 3 already there" in call("store", "put", folder, f"{place}/round")
    listed = call("store", "ls", f"{place}/round")
    assert [line.split(maxsplit=1) for line in listed.splitlines()] == [
        ["3000000", "a.bin"],
        ["0", "empty"],
        ["3", "sub/x"],
        ["2", "sub/y"],
    ]
    there = hadoop("fs", "-ls", "-R", f"{place}/round")
    assert "b c.txt" not in there
    assert "_INCOMPLETE" not in there


@needs_server
def test_an_upload_that_is_killed(place: str, folder: Path, call, dimred: Path, tmp_path: Path) -> None:
    (folder / "a.bin").write_bytes(os.urandom(200_000_000))
    command = [dimred, "store", "put", folder, f"{place}/killed", *QUICK]
    with subprocess.Popen(command) as process:
        end = time.monotonic() + 60
        while "_INCOMPLETE\n" not in hadoop("fs", "-ls", "-R", place) and time.monotonic() < end:
            pass
        process.send_signal(signal.SIGKILL)
    assert "is not complete" in call("store", "get", f"{place}/killed", tmp_path / "got", code=1)
    (folder / "a.bin").write_bytes(b"small")
    call("store", "put", folder, f"{place}/killed")
    call("store", "get", f"{place}/killed", tmp_path / "got")
    assert files_of(tmp_path / "got") == files_of(folder)


@needs_server
def test_what_hdfs_refuses(place: str, folder: Path, call) -> None:
    assert "found no file at" in call("store", "ls", f"{place}/none", code=2)
    assert "the credentials are refused: Permission denied" in call(
        "store", "put", folder / "a.bin", f"{place}/x", code=1, HADOOP_USER_NAME="stranger"
    )
    hadoop("dfsadmin", "-setSpaceQuota", "2m", f"{place}/quota")
    assert "the quota is full" in call("store", "put", folder / "a.bin", f"{place}/quota/x", code=1)
    assert "quota/x\n" not in hadoop("fs", "-ls", f"{place}/quota")
    assert "Connection refused" in call("store", "ls", "hdfs://127.0.0.1:9/x", code=1)
    assert "must not have any of" in call("store", "put", folder, f"{place}/a{{b}}", code=2)


def test_a_client_that_is_silent_or_missing(dimred: Path, tmp_path: Path) -> None:
    silent = tmp_path / "hadoop"
    silent.write_text("#!/bin/sh\nsleep 60\n")
    silent.chmod(0o755)
    for program, said in [(silent, "no answer for 1 s"), (tmp_path / "none", "needs the site's Hadoop client")]:
        command = cli(dimred, "store ls hdfs:///x --store_attempts=1 --store_timeout=1", store_hadoop=program)
        done = completed(command, timeout=20)
        assert done.returncode == 1
        assert said in done.stderr


@needs_server
def test_a_run_by_hdfs_alone(place: str, call, tmp_path: Path) -> None:
    """PLSC's way: data from there, each checkpoint and the result to there, evaluated from there."""
    call("store", "put", "/usr/share/datasets/fashion-mnist", f"{place}/fashion")
    cache = f"--store_cache={tmp_path / 'cache'}"
    options = "--train_samples=640 --test_samples=100 --epochs=2 --threads=1 --upload_checkpoints --quiet"
    call("stage1", options, f"--data={place}/fashion", f"--output={place}/run", cache)
    assert "accuracy" in call("evaluate", f"{place}/run", "--threads=1", cache)


@needs_server
def test_streams_shards(place: str, dimred: Path, tmp_path: Path) -> None:
    expect_streamed(dimred, f"{place}/shards", tmp_path, *QUICK)
