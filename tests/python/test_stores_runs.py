"""Whole commands whose data, checkpoints, snapshots, matrix and output are URLs."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import pytest
from ranks import ended, started
from store_servers import S3, HttpFiles, Proxy, files_of

FASHION = Path("/usr/share/datasets/fashion-mnist")
STAGE1 = ["--train_samples=1600", "--test_samples=300", "--batch_size=64", "--threads=1", "--snapshots_per_epoch=4",
          "--quiet"]  # fmt: skip
QUICK = ["--store_attempts=2", "--store_first_wait=0.05", "--store_timeout=2"]


@pytest.fixture
def call(dimred: Path, s3: S3, tmp_path: Path):
    """Runs `dimred` where the S3 server is; gives its exit code, output and error line."""

    def run(*arguments: object, code: int = 0, env: dict[str, str] | None = None) -> str:
        words = list(map(str, arguments))
        if words[0] != "store":
            words.append(f"--store_cache={tmp_path / 'cache'}")
        done = subprocess.run([dimred, *words, *QUICK], capture_output=True, text=True, timeout=90, check=False,
                              env=env or s3.environment())  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "secret" not in done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def weights(run: Path) -> dict[str, bytes]:
    """Of every snapshot."""
    found = {}
    for file in sorted((run / "snapshots").glob("*.h5")):
        with h5py.File(file) as h5:
            found[file.name] = h5["weights"][:].tobytes()
    return found


def curve(run: Path) -> list[tuple[str, str]]:
    """Epochs and losses."""
    with (run / "curve.csv").open(newline="") as stream:
        return [(row["epoch"], row["test_loss"]) for row in csv.DictReader(stream)]


def test_the_whole_way_by_urls_is_the_way_by_paths(s3: S3, call, web: HttpFiles, tmp_path: Path) -> None:
    """Data over HTTP, everything else in S3; each file equal to that of a run with paths."""
    call("store", "put", FASHION, f"file://{web.folder}/fashion")
    call("stage1", f"--data={web.url}/fashion", *STAGE1, "--epochs=1", "--output=s3://bucket/way/one")
    call("stage1", f"--data={FASHION}", *STAGE1, "--epochs=1", f"--output={tmp_path / 'one'}")
    call("store", "get", "s3://bucket/way/one", tmp_path / "got")
    assert weights(tmp_path / "got") == weights(tmp_path / "one")
    config = (tmp_path / "got" / "config.toml").read_text()
    assert f'data = "{web.url}/fashion"' in config
    assert 'output = "s3://bucket/way/one"' in config

    call("pca", "--snapshots=s3://bucket/way/one/snapshots", "--components=3", "--output=s3://bucket/way/p.npy")
    call("pca", f"--snapshots={tmp_path / 'one/snapshots'}", "--components=3", f"--output={tmp_path / 'p.npy'}")
    assert set(s3.keys("way")) >= {"p.npy", "p.json"}
    got = s3.client.get_object(Bucket="bucket", Key="way/p.npy")["Body"].read()
    assert got == (tmp_path / "p.npy").read_bytes()
    again = call("pca", "--snapshots=s3://bucket/way/one/snapshots", "--components=3", "--output=s3://bucket/way/p.npy", code=2)
    assert "exists already" in again

    stage2 = ["--epochs=1", "--threads=1", "--quiet"]
    call("stage2", "--checkpoint=s3://bucket/way/one", "--pca_mat=s3://bucket/way/p.npy", *stage2,
         "--output=s3://bucket/way/two")  # fmt: skip
    call("stage2", f"--checkpoint={tmp_path / 'one'}", f"--pca_mat={tmp_path / 'p.npy'}", *stage2,
         f"--output={tmp_path / 'two'}")  # fmt: skip
    call("store", "get", "s3://bucket/way/two", tmp_path / "got2")
    assert curve(tmp_path / "got2") == curve(tmp_path / "two")
    assert (call("evaluate", "s3://bucket/way/two").splitlines()[-1]
            == call("evaluate", tmp_path / "two").splitlines()[-1])  # fmt: skip


def test_a_run_that_is_stopped_is_uploaded_and_goes_on_elsewhere(s3: S3, call, dimred: Path, tmp_path: Path) -> None:
    """SIGTERM saves and uploads; another machine (no local copy) goes on, to the same bits."""
    url = "s3://bucket/stopped/run"
    words = ["stage1", *STAGE1, "--epochs=3", f"--output={url}"]
    local = f"--store_cache={tmp_path / 'first'}"
    with subprocess.Popen([dimred, *words, local, *QUICK], env=s3.environment(), stdout=subprocess.PIPE) as run:
        end = time.monotonic() + 30
        while time.monotonic() < end and not list((tmp_path / "first").rglob("state_*/state.json")):
            time.sleep(0.01)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 143
    assert len(curve_rows(s3, "stopped/run")) < 4
    shutil.rmtree(tmp_path / "first")
    call(*words)
    call("stage1", *STAGE1, "--epochs=3", f"--output={tmp_path / 'whole'}")
    call("store", "get", url, tmp_path / "got")
    assert weights(tmp_path / "got") == weights(tmp_path / "whole")
    assert curve(tmp_path / "got") == curve(tmp_path / "whole")


def curve_rows(s3: S3, prefix: str) -> list[str]:
    """Lines of an uploaded run's curve, without the heading."""
    body = s3.client.get_object(Bucket="bucket", Key=f"{prefix}/curve.csv")["Body"].read()
    return body.decode().splitlines()[1:]


def test_checkpoints_go_ahead_in_the_background(s3: S3, dimred: Path, tmp_path: Path) -> None:
    """What is at the remote place when the run is killed is a run that goes on."""
    words = ["stage1", *STAGE1, "--epochs=400", "--output=s3://bucket/ahead/run", "--upload_checkpoints",
             f"--store_cache={tmp_path / 'first'}", *QUICK]  # fmt: skip
    with subprocess.Popen([dimred, *words], env=s3.environment(), stderr=subprocess.PIPE) as run:
        end = time.monotonic() + 40
        while "_COMPLETE" not in s3.keys("ahead/run") and time.monotonic() < end:
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    command = [dimred, "store", "get", "s3://bucket/ahead/run", tmp_path / "got"]
    subprocess.run(command, env=s3.environment(), check=True, capture_output=True)
    states = sorted((tmp_path / "got" / "checkpoints").iterdir())
    assert len(states) == 1
    epochs = int(states[0].name.removeprefix("state_")) // 25
    goes_on = [dimred, "stage1", *STAGE1, f"--epochs={epochs + 1}", "--total_epochs=400", f"--output={tmp_path / 'got'}"]
    done = subprocess.run(goes_on, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(curve(tmp_path / "got")) == epochs + 1


def test_a_store_that_is_not_there_is_met_before_any_work(s3: S3, call, tmp_path: Path) -> None:
    error = call("stage1", *STAGE1, "--epochs=2", "--output=s3://bucket/dead/run", code=1, env=s3.environment(9))
    assert "(after 2 attempts)" in error
    assert not list((tmp_path / "cache").rglob("config.toml"))


def test_a_store_that_dies_in_the_midst(s3: S3, dimred: Path, tmp_path: Path) -> None:
    proxy = Proxy(s3.port)
    words = ["stage1", *STAGE1, "--epochs=6", "--output=s3://bucket/dies/run", "--upload_checkpoints",
             f"--store_cache={tmp_path / 'cache'}", *QUICK]  # fmt: skip
    with subprocess.Popen([dimred, *words], env=s3.environment(proxy.port), stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 30
        while not list((tmp_path / "cache").rglob("config.toml")) and time.monotonic() < end:
            time.sleep(0.01)
        proxy.target = 9
        assert run.wait(60) == 1
        told = run.stderr.read().splitlines()
    assert len(told) == 2, told  # once in the background, once at the end
    assert "the run goes on and it is tried again" in told[0]
    local = Path(told[1].split("the local copy is ")[1])
    manifest = json.loads((local / "manifest.json").read_text())
    assert manifest["outcome"] == "finished"
    sent = manifest["details"]["checkpoint_uploads"]
    assert sent["failures"] >= 1
    assert sent["uploads"] == 0
    assert len(curve(local)) == 6
    done = subprocess.run([dimred, *words], env=s3.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # the same command sends what is there
    assert len(curve_rows(s3, "dies/run")) == 6


def test_two_ranks(s3: S3, dimred: Path, tmp_path: Path) -> None:
    """One downloads while the other waits, rank 0 uploads; when it fails, both leave with one line."""
    s3.client.put_object(Bucket="bucket", Key="two/x", Body=b"x")
    for file in FASHION.iterdir():
        s3.client.upload_file(str(file), "bucket", f"two/fashion/{file.name}")
    common = ["--train_samples=600", "--test_samples=100", "--epochs=1", "--threads=1", "--global_batch_size=60",
              f"--store_cache={tmp_path / 'cache'}", *QUICK]  # fmt: skip
    words = ["stage1", "--data=s3://bucket/two/fashion", "--output=s3://bucket/two/run", *common]
    with started(dimred, words, 2, **s3.environment()) as processes:
        done = ended(processes)
    assert done.codes == [0, 0], done.errors
    assert set(s3.keys("two/run")) >= {"_COMPLETE", "curve.csv", "config.toml"}
    assert done.output[0].count("downloaded s3://bucket/two/fashion: 4 files") <= 1
    words = ["stage1", "--data=s3://bucket/two/none", f"--output={tmp_path / 'x'}", *common]
    with started(dimred, words, 2, **s3.environment()) as processes:
        done = ended(processes)
    assert all(code != 0 for code in done.codes)
    assert len("".join(done.errors).splitlines()) == 1, done.errors
    assert "nothing at s3://bucket/two/none" in "".join(done.errors)
    assert not (tmp_path / "x").exists()


# ---- copies that are cut, older, unsent, in use


def stage1(dimred: Path, url: str, cache: Path, epochs: int, **options) -> subprocess.CompletedProcess[str]:
    """A short run of four snapshots an epoch, whose schedule is of three."""
    words = ["stage1", *STAGE1, f"--epochs={epochs}", "--total_epochs=3", f"--output={url}"]
    return subprocess.run([dimred, *words, f"--store_cache={cache}", *QUICK], capture_output=True, text=True,
                          check=False, **options)  # fmt: skip


def plain_run(dimred: Path, folder: Path, epochs: int) -> Path:
    """The same without a store."""
    words = ["stage1", *STAGE1, f"--epochs={epochs}", "--total_epochs=3", f"--output={folder}"]
    subprocess.run([dimred, *words], check=True, capture_output=True)
    return folder


def test_a_take_up_that_is_cut_is_no_run(dimred: Path, tmp_path: Path) -> None:
    """Killed when checkpoints, configuration and curve were here, and no snapshot."""
    there = tmp_path / "there"
    assert stage1(dimred, f"file://{there}", tmp_path / "first", 1).returncode == 0
    subprocess.run([dimred, "store", "get", f"file://{there}", tmp_path / "copy"], check=True, capture_output=True)
    (tmp_path / "copy" / "d.bin").write_bytes(bytes(60_000_000))
    subprocess.run([dimred, "store", "put", tmp_path / "copy", f"file://{there}"], check=True, capture_output=True)
    limit = (30_000_000, resource.RLIM_INFINITY)
    cut = stage1(dimred, f"file://{there}", tmp_path / "second", 2,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))  # fmt: skip
    assert cut.returncode == -signal.SIGXFSZ, cut.stderr
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
    command = [dimred, "pca", f"--snapshots={run / 'snapshots'}", "--components=2", f"--output={url}",
               f"--store_cache={tmp_path / 'cache'}", *QUICK]  # fmt: skip

    def line(code: int) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr

    local = Path(line(1).split("the local copy is ")[1].strip())
    matrix = local.read_bytes()
    (tmp_path / "blocked").unlink()
    refused = line(2)
    assert f"has not been uploaded: send {local} by" in refused
    assert local.read_bytes() == matrix
    Path(refused.split("or remove ")[1].strip()).unlink()
    with (local.parent.parent / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process makes file://" in line(1)
        assert local.read_bytes() == matrix
    assert not line(0)
    assert (tmp_path / "blocked" / "x.npy").read_bytes() == matrix


def test_a_signal_during_the_last_upload_ends_it_with_a_line(dimred: Path, tmp_path: Path) -> None:
    client = tmp_path / "hadoop"
    client.write_text("#!/bin/sh\ncase $2 in -ls|-stat) echo \"${2#-}: x: No such file or directory\" >&2; exit 1;; "
                      f"-put) touch {tmp_path}/puts; exec sleep 20;; esac\n")  # fmt: skip
    client.chmod(0o755)
    words = ["stage1", *STAGE1, "--epochs=1", "--output=hdfs:///run", f"--store_hadoop={client}",
             f"--store_cache={tmp_path / 'cache'}"]  # fmt: skip
    with subprocess.Popen([dimred, *words], stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 30
        while not (tmp_path / "puts").exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.6)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 143
        assert "stopped by a signal during the upload to hdfs:///run; the same command" in process.stderr.read()


def test_a_failure_does_not_wait_for_an_upload(dimred: Path, tmp_path: Path) -> None:
    """The manifest says so at once, while a checkpoint is on its way."""
    client = tmp_path / "hadoop"
    client.write_text("#!/bin/sh\ncase $2 in -ls|-stat) echo \"${2#-}: x: No such file or directory\" >&2; exit 1;; "
                      f"-put) touch {tmp_path}/puts; exec sleep 60;; esac\n")  # fmt: skip
    client.chmod(0o755)
    words = ["stage1", *STAGE1, "--epochs=400", "--output=hdfs:///run", f"--store_hadoop={client}",
             "--upload_checkpoints", f"--store_cache={tmp_path / 'cache'}"]  # fmt: skip
    with subprocess.Popen([dimred, *words], stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 30
        while not (tmp_path / "puts").exists() and time.monotonic() < end:
            time.sleep(0.05)
        (run,) = (file.parent for file in (tmp_path / "cache").rglob("content/run/config.toml"))
        shutil.rmtree(run / "snapshots")
        (run / "snapshots").write_text("no folder")
        assert process.wait(20) == 1
    assert json.loads((run / "manifest.json").read_text())["outcome"] == "failed"


def test_a_rank_that_rank_0_does_not_hear_says_it_itself(dimred: Path, tmp_path: Path) -> None:
    """Rank 0 may be downloading for long."""
    words = ["stage1", f"--data=file://{tmp_path}/none", f"--output={tmp_path / 'x'}", f"--store_cache={tmp_path}"]
    ranks = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    done = subprocess.run([dimred, *words], capture_output=True, text=True, check=False, env={**os.environ, **ranks})
    assert done.returncode == 2
    assert done.stderr == f"dimred stage1: error: rank 1: --data: [stores] nothing at file://{tmp_path}/none\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["stage1", "--data=s4://me:secret@b/x"], "--data: [stores] unknown scheme in s4://b/x; did you mean s3://?"),
     (["stage1", "--output=http://h/x"], "--output: [stores] http and https are for reading only"),
     (["stage1", "--upload_checkpoints"], "--upload_checkpoints needs an --output that is a URL"),
     (["stage1", "--config=https://me:secret@h/x.toml"], "needs a readable file, received https://h/x.toml"),
     (["stage1", "--fastnn=https://me:secret@h/x"], "--fastnn: cannot be a URL, received https://h/x"),
     (["predict", "run", "https://me:secret@h/x.jpg"], "needs images of this machine, received https://h/x.jpg"),
     (["predict", "run", "x.jpg", "--csv=s3://me:secret@b/x"], "--csv: [stores] needs a path of this machine, received s3://b/x"),
     (["stage1", "--store_cache=s3://b/x"], "--store_cache: [stores] needs a path of this machine"),
     (["pca", "--snapshots=file:///none/such", "--output=x.npy"], "--snapshots: [stores] nothing at file:///none/such")],
)  # fmt: skip
def test_bad_input(arguments: list[str], said: str, fails) -> None:
    line = fails(2, *arguments, "--store_attempts=1")
    assert said in line
    assert "secret" not in line


def test_nothing_of_a_password_is_written(web: HttpFiles, dimred: Path, tmp_path: Path) -> None:
    """Not in the run folder, and not in the cache."""
    shutil.copytree(FASHION, tmp_path / "plain")
    subprocess.run([dimred, "store", "put", tmp_path / "plain", f"file://{web.folder}/f"], check=True, capture_output=True)
    url = web.url.replace("http://", "http://me:secret@") + "/f"
    done = subprocess.run([dimred, "stage1", f"--data={url}", *STAGE1, "--epochs=1", f"--output={tmp_path / 'run'}",
                           f"--store_cache={tmp_path / 'cache'}"], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = files_of(tmp_path / "run") | files_of(tmp_path / "cache")
    assert f'data = "{web.url}/f"' in texts["config.toml"].decode()
    assert not [name for name, data in texts.items() if b"secret" in data]
