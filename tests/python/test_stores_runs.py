"""Whole commands whose data, checkpoints, snapshots, matrix and output are URLs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli import cli, completed
from fashion import few
from ranks import ended, started
from store_servers import S3, HttpFiles, Proxy, files_of
from stored_runs import ANY_DATA, QUICK, STAGE1, curve, weights

pytest_plugins = ["store_servers"]

FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture
def call(dimred: Path, s3: S3, tmp_path: Path):
    """Runs `dimred` where the S3 server is; gives its exit code, output and error line."""

    def run(*arguments: object, code: int = 0, env: dict[str, str] | None = None) -> str:
        words = cli(*arguments)
        if words[0] != "store":
            words.append(f"--store_cache={tmp_path / 'cache'}")
        done = completed([dimred, *words, *QUICK], env=env or s3.environment())
        assert done.returncode == code, done.stdout + done.stderr
        assert "secret" not in done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_the_whole_way_by_urls_is_the_way_by_paths(s3: S3, call, web: HttpFiles, tmp_path: Path) -> None:
    """Data over HTTP, everything else in S3; each file equal to that of a run with paths."""
    call("store", "put", FASHION, f"file://{web.folder}/fashion")
    call("stage1", f"--data={web.url}/fashion", *ANY_DATA, "--epochs=1", "--output=s3://bucket/way/one")
    call("stage1", f"--data={FASHION}", *ANY_DATA, "--epochs=1", f"--output={tmp_path / 'one'}")
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
    again = call(
        "pca", "--snapshots=s3://bucket/way/one/snapshots", "--components=3", "--output=s3://bucket/way/p.npy", code=2
    )
    assert "exists already" in again

    call("merge", "s3://bucket/way/one/snapshots", "--output=s3://bucket/way/merged")
    call("merge", tmp_path / "one/snapshots", f"--output={tmp_path / 'merged'}")
    assert "exists already" in call("merge", "s3://bucket/way/one/snapshots", "--output=s3://bucket/way/merged", code=2)
    got = s3.client.get_object(Bucket="bucket", Key="way/merged/model.safetensors")["Body"].read()
    assert got == (tmp_path / "merged/model.safetensors").read_bytes()
    second = call("merge", "s3://bucket/a", "s3://bucket/b", "--output=x", code=2)
    assert "a URL needs to be the only SOURCE, received s3://bucket/b beside another SOURCE" in second

    stage2 = ["--epochs=1", "--threads=1", "--quiet"]
    places = "--checkpoint=s3://bucket/way/one --pca_mat=s3://bucket/way/p.npy --output=s3://bucket/way/two"
    call("stage2", places, *stage2)
    here = {"checkpoint": tmp_path / "one", "pca_mat": tmp_path / "p.npy", "output": tmp_path / "two"}
    call("stage2", *stage2, *cli(**here))
    call("store", "get", "s3://bucket/way/two", tmp_path / "got2")
    assert curve(tmp_path / "got2") == curve(tmp_path / "two")
    assert (
        call("evaluate", "s3://bucket/way/two").splitlines()[-1] == call("evaluate", tmp_path / "two").splitlines()[-1]
    )


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
    words = cli(
        "stage1",
        *STAGE1,
        "--epochs=400 --output=s3://bucket/ahead/run --upload_checkpoints",
        *QUICK,
        store_cache=tmp_path / "first",
    )
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
    goes_on = cli(dimred, "stage1", *STAGE1, "--total_epochs=400", epochs=epochs + 1, output=tmp_path / "got")
    done = completed(goes_on)
    assert done.returncode == 0, done.stderr
    assert len(curve(tmp_path / "got")) == epochs + 1


def test_a_store_that_is_not_there_is_met_before_any_work(s3: S3, call, tmp_path: Path) -> None:
    error = call("stage1", *STAGE1, "--epochs=2", "--output=s3://bucket/dead/run", code=1, env=s3.environment(9))
    assert "(after 2 attempts)" in error
    assert not list((tmp_path / "cache").rglob("config.toml"))


def test_a_store_that_dies_in_the_midst(s3: S3, dimred: Path, tmp_path: Path) -> None:
    proxy = Proxy(s3.port)
    words = cli(
        "stage1",
        *STAGE1,
        "--epochs=6 --output=s3://bucket/dies/run --upload_checkpoints",
        *QUICK,
        store_cache=tmp_path / "cache",
    )
    with subprocess.Popen([dimred, *words], env=s3.environment(proxy.port), stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 30
        while not list((tmp_path / "cache").rglob("config.toml")) and time.monotonic() < end:
            time.sleep(0.01)
        proxy.target = 9
        assert run.wait(60) == 1
        report = run.stderr.read().splitlines()
    assert len(report) == 2, report  # once in the background, once at the end
    assert "the run goes on, and dimred will try this upload again" in report[0]
    local = Path(report[1].split("the local copy is ")[1])
    manifest = json.loads((local / "manifest.json").read_text())
    assert manifest["outcome"] == "finished"
    sent = manifest["details"]["checkpoint_uploads"]
    assert sent["failures"] >= 1
    assert sent["uploads"] == 0
    assert len(curve(local)) == 6
    done = completed([dimred, *words], env=s3.environment())
    assert done.returncode == 0, done.stderr  # the same command sends what is there
    assert len(curve_rows(s3, "dies/run")) == 6


def test_two_ranks(s3: S3, dimred: Path, tmp_path: Path) -> None:
    """One downloads while the other waits, rank 0 uploads; when it fails, both leave with one line."""
    s3.client.put_object(Bucket="bucket", Key="two/x", Body=b"x")
    for file in few().iterdir():
        s3.client.upload_file(str(file), "bucket", f"two/fashion/{file.name}")
    common = cli(
        "--train_samples=600 --test_samples=100 --epochs=1 --threads=1 --global_batch_size=60",
        *QUICK,
        store_cache=tmp_path / "cache",
    )
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
    assert "found no file at s3://bucket/two/none" in "".join(done.errors)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stage1", "--data=s4://me:secret@b/x"], "--data: [stores] unknown scheme in s4://b/x; did you mean s3://?"),
        (["stage1", "--output=http://h/x"], "--output: [stores] cannot write to http or https"),
        (["stage1", "--upload_checkpoints"], "--upload_checkpoints needs an --output that is a URL"),
        (
            ["stage1", "--config=https://me:secret@h/x.toml"],
            "needs a readable file of at most 262144 bytes, received https://h/x.toml",
        ),
        (
            ["stage1", "--fastnn=https://me:secret@h/x"],
            "--fastnn: needs a file on this machine, received the URL https://h/x",
        ),
        (["predict", "run", "https://me:secret@h/x.jpg"], "needs images on this machine, received https://h/x.jpg"),
        (
            ["predict", "run", "x.jpg", "--csv=s3://me:secret@b/x"],
            "--csv: [stores] needs a path on this machine, received s3://b/x",
        ),
        (["stage1", "--store_cache=s3://b/x"], "--store_cache: [stores] needs a path on this machine"),
        (
            ["pca", "--snapshots=file:///none/such", "--output=x.npy"],
            "--snapshots: [stores] found no file at file:///none/such",
        ),
    ],
)
def test_bad_input(arguments: list[str], said: str, fails) -> None:
    line = fails(2, *arguments, "--store_attempts=1")
    assert said in line
    assert "secret" not in line


def test_nothing_of_a_password_is_written(web: HttpFiles, dimred: Path, tmp_path: Path) -> None:
    """Not in the run folder, and not in the cache."""
    shutil.copytree(few(), tmp_path / "plain")
    subprocess.run(
        [dimred, "store", "put", tmp_path / "plain", f"file://{web.folder}/f"], check=True, capture_output=True
    )
    url = web.url.replace("http://", "http://me:secret@") + "/f"
    done = completed(
        cli(
            dimred, "stage1", *ANY_DATA, "--epochs=1", data=url, output=tmp_path / "run", store_cache=tmp_path / "cache"
        )
    )
    assert done.returncode == 0, done.stderr
    texts = files_of(tmp_path / "run") | files_of(tmp_path / "cache")
    assert f'data = "{web.url}/f"' in texts["config.toml"].decode()
    assert not [name for name, data in texts.items() if b"secret" in data]
