"""Training on TFRecord files at a URL, through less disk than they have bytes: as on files that are here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli import cli, completed
from ranks import ended, started
from record_samples import write_tfrecords
from store_servers import HttpFiles, Proxy
from stored_runs import QUICK, curve, weights
from test_image_training import put_images

pytest_plugins = ["store_servers"]

FILES = 8
LONG = 100_000
STAGE1 = cli(
    "--model=convnet --preprocessing_name=imagenet --image_size=20 --learning_rate=0.01",
    "--shuffle_buffer_size=6 --prefetch=1 --threads=1 --snapshots_per_epoch=2 --quiet",
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """96 photographs in eight files of twelve, and a test set."""
    root = tmp_path_factory.mktemp("streamed")
    put_images(root / "photos", 34, sizes=True)
    samples = [
        (file.read_bytes(), label)
        for label, name in enumerate(("bird", "cat", "dog"))
        for file in sorted((root / "photos" / name).iterdir())
    ]
    samples = samples[::3] + samples[1::3] + samples[2::3]
    (root / "tf").mkdir()
    for shard in range(FILES):
        write_tfrecords(root / "tf" / f"train-{shard:05}-of-{FILES:05}", samples[12 * shard : 12 * shard + 12])
    write_tfrecords(root / "tf" / "validation-00000-of-00001", samples[96:])
    (root / "tf" / "labels.txt").write_text("bird\ncat\ndog\n")
    return root / "tf"


def gigabytes(shards: Path, part: float) -> str:
    """So much of the training files' bytes."""
    return f"--stream_cache={part * sum(file.stat().st_size for file in shards.glob('train-*')) / 1e9:.12f}"


@pytest.fixture
def call(dimred: Path, tmp_path: Path) -> Callable:
    """Runs stage 1 on data; gives its error text when it fails."""

    def run(data: object, output: str, *words: str, code: int = 0) -> str:
        places = {"data": data, "output": tmp_path / output, "store_cache": tmp_path / "cache"}
        done = completed(cli(dimred, "stage1", *STAGE1, *QUICK, *words, **places))
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    return run


@pytest.fixture
def served(web: HttpFiles, dimred: Path, shards: Path) -> str:
    """The files over HTTP, with a listing."""
    subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)
    return f"{web.url}/tf"


def test_a_streamed_run_has_the_bits_of_one_on_files(call: Callable, served: str, shards: Path, tmp_path: Path) -> None:
    """A folder over HTTP and a pattern of file://, uninterrupted, and stopped in the midst of an epoch."""
    epochs = ["--batch_size=4", "--epochs=2", "--total_epochs=2"]
    test_set = f"--test_data={shards}/validation-*"
    call(shards, "local", *epochs)
    call(served, "http", *epochs, gigabytes(shards, 0.9))
    call(f"file://{shards}/train-*", "file", *epochs, test_set, gigabytes(shards, 0.9))
    for words in (["--stop_at_step=31"], []):  # 24 steps an epoch
        call(served, "resumed", *epochs, *words, gigabytes(shards, 0.9))
        shutil.rmtree(tmp_path / "cache")  # on another machine
    for run in ("http", "file", "resumed"):
        assert weights(tmp_path / run) == weights(tmp_path / "local"), run
        # The stop has a row of its own.
        assert [row for row in curve(tmp_path / run) if "." not in row[0]] == curve(tmp_path / "local"), run
    local, http = (json.loads((tmp_path / run / "manifest.json").read_text()) for run in ("local", "http"))
    assert http["sample_order"] == local["sample_order"] == "windows of 6 samples"
    assert http["class_names"] == local["class_names"] == ["bird", "cat", "dog"]
    assert http["data_pipeline"]["fetch_us_per_sample"] > 0
    assert local["data_pipeline"]["fetch_us_per_sample"] == 0
    assert served in http["train_data"]


def test_two_ranks_fetch_each_file_once(
    dimred: Path, served: str, web: HttpFiles, shards: Path, tmp_path: Path
) -> None:
    common = [*STAGE1, "--global_batch_size=8", "--epochs=2", *QUICK]
    for name, data in (("local", [f"--data={shards}"]), ("http", [f"--data={served}", gigabytes(shards, 2)])):
        words = ["stage1", *data, *common, f"--store_cache={tmp_path / 'cache'}", f"--output={tmp_path / name}"]
        with started(dimred, words, 2) as processes:
            done = ended(processes)
        assert done.codes == [0, 0], done.errors
    assert weights(tmp_path / "http") == weights(tmp_path / "local")
    fetched = [path for path, wanted in web.requests if "/train-" in path and wanted != "bytes=0-0"]
    assert len(fetched) == len(set(fetched)) == FILES


def wait_for_state(run: Path, lives: Callable[[], bool] = lambda: True) -> None:
    """Waits until the run has finished an epoch, for a minute at most."""
    end = time.monotonic() + 60
    while time.monotonic() < end and lives() and not list(run.glob("checkpoints/state_*/state.json")):
        time.sleep(0.02)


def started_run(dimred: Path, data: str, tmp_path: Path, *words: str, timeout: int = 2) -> subprocess.Popen:
    """A long run that has finished an epoch."""
    quick = ["--batch_size=4", "--checkpoint_every=1", "--store_attempts=1", f"--store_timeout={timeout}"]
    places = {"data": data, "output": tmp_path / "run", "store_cache": tmp_path / "cache"}
    # It is ended before its last epoch, however slow the test is.
    command = cli(dimred, "stage1", *STAGE1, *quick, *words, epochs=LONG, **places)
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_state(tmp_path / "run", lambda: run.poll() is None)
    return run


def error_of(run: subprocess.Popen, code: int = 1) -> str:
    """The one line with which it ends."""
    text = run.communicate(timeout=60)[1]
    lines = [line for line in text.splitlines() if "warning:" not in line]
    assert run.returncode == code, text
    assert len(lines) == 1, text
    return lines[0]


def test_a_server_that_dies_in_the_midst(
    dimred: Path, served: str, web: HttpFiles, shards: Path, tmp_path: Path
) -> None:
    """One line that names a file; the same command goes on when the server is back."""
    proxy = Proxy(web.server_port)
    data = served.replace(str(web.server_port), str(proxy.port))
    with started_run(dimred, data, tmp_path, gigabytes(shards, 0.9)) as run:
        proxy.target = 9
        line = error_of(run)
    assert f"{data}/train-" in line
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["outcome"] == "failed"
    proxy.target = web.server_port
    done = len(curve(tmp_path / "run"))
    with started_run(dimred, data, tmp_path, gigabytes(shards, 0.9)) as run:
        end = time.monotonic() + 60
        while time.monotonic() < end and run.poll() is None and len(curve(tmp_path / "run")) <= done:
            time.sleep(0.02)
        run.terminate()
        assert run.wait(60) == 143
    assert len(curve(tmp_path / "run")) > done


@pytest.mark.parametrize("fault", ["changed", "gone"])
def test_a_file_that_changes_or_vanishes_in_the_midst(
    call: Callable, dimred: Path, shards: Path, tmp_path: Path, fault: str
) -> None:
    copies = tmp_path / "copies"
    shutil.copytree(shards, copies)
    data = f"file://{copies}/train-*"
    with started_run(dimred, data, tmp_path, f"--test_data={shards}/validation-*", gigabytes(shards, 0.9)) as run:
        file = copies / "train-00004-of-00008"
        if fault == "changed":
            other = tmp_path / "other"
            other.write_bytes(file.read_bytes()[::-1])
            other.rename(file)
        else:
            file.unlink()
        line = error_of(run, 1)
    assert "train-00004-of-00008" in line
    assert ("has changed since dimred listed it" in line) == (fault == "changed")
    if fault == "changed":  # and is no TFRecord file any more
        text = call(data, "new", f"--test_data={shards}/validation-*", gigabytes(shards, 0.9), code=1)
        assert "[tfrecord] file://" in text and "train-00004-of-00008, offset 0" in text


@contextmanager
def two_ranks(
    dimred: Path, served: str, room: str, tmp_path: Path, *words: str
) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """A long run of two ranks that has finished an epoch."""
    places = {"data": served, "output": tmp_path / "run", "store_cache": tmp_path / "cache"}
    quick = "--global_batch_size=8 --epochs=2000 --store_attempts=1"
    with started(dimred, cli("stage1", *STAGE1, quick, room, *words, **places), 2) as processes:
        wait_for_state(tmp_path / "run")
        yield processes


def test_two_ranks_leave_with_one_line(dimred: Path, served: str, web: HttpFiles, shards: Path, tmp_path: Path) -> None:
    room = gigabytes(shards, 0.9)
    with two_ranks(dimred, served, room, tmp_path, "--store_timeout=2", "--heartbeat_timeout=2") as processes:
        (web.folder / "tf" / "train-00002-of-00008").unlink()
        done = ended(processes)
    assert all(code != 0 for code in done.codes)
    said = [line for line in "".join(done.errors).splitlines() if "warning:" not in line]
    assert len(said) == 1, said
    assert f"{served}/train-00002-of-00008" in said[0]


def epochs(run: Path) -> list[tuple[str, str]]:
    """Whole ones, with their losses."""
    return [row for row in curve(run) if "." not in row[0]] if (run / "curve.csv").exists() else []


def test_a_signal_is_heard_while_the_step_waits_for_a_file(
    call: Callable, dimred: Path, served: str, web: HttpFiles, shards: Path, tmp_path: Path
) -> None:
    """The state is that of the step before: the run goes on to the same bits."""
    room = gigabytes(shards, 0.9)
    with started_run(dimred, served, tmp_path, room, timeout=120) as run:
        web.silent = True
        time.sleep(1.5)  # what is here is used up
        run.terminate()
        assert run.wait(20) == 143
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["outcome"] == "interrupted"
    web.silent = False
    done = len(epochs(tmp_path / "run"))
    with started_run(dimred, served, tmp_path, room) as run:
        end = time.monotonic() + 60
        while time.monotonic() < end and run.poll() is None and len(epochs(tmp_path / "run")) <= done:
            time.sleep(0.02)
        run.terminate()
        assert run.wait(60) == 143
    whole = epochs(tmp_path / "run")
    assert len(whole) > done
    call(shards, "local", "--batch_size=4", f"--epochs={len(whole)}", f"--total_epochs={LONG}")
    assert epochs(tmp_path / "local") == whole


def test_two_ranks_that_wait_for_a_file_hear_a_signal(
    dimred: Path, served: str, web: HttpFiles, shards: Path, tmp_path: Path
) -> None:
    with two_ranks(dimred, served, gigabytes(shards, 0.9), tmp_path, "--store_timeout=120") as processes:
        web.silent = True
        time.sleep(1.5)
        for process in processes:
            process.terminate()
        done = ended(processes, 20)
    assert done.codes == [143, 143], done.errors


def test_what_would_fetch_files_again_and_again_is_refused(call: Callable, served: str, shards: Path) -> None:
    half = gigabytes(shards, 0.5)
    assert "enlarge stream_cache to at least" in call(served, "x", half, "--batch_size=64", code=2)
    assert "set validation_fraction = 0" in call(served, "x", half, "--validation_fraction=0.1", code=2)
    assert "stream_cache needs data at a URL" in call(shards, "x", half, code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preprocessing_name=imagenet"], "set shuffle_buffer_size > 0"),
        (["--preprocessing_name=none", "--shuffle_buffer_size=6"], "choose a preprocessing_name with a fixed mean"),
        # As a window of all samples: twice as many have no number.
        (
            ["--preprocessing_name=imagenet", f"--shuffle_buffer_size={2**63 - 1}", "--batch_size=1", "--prefetch=1"],
            "enlarge stream_cache to at least",
        ),
    ],
)
def test_bad_input(fails: Callable, served: str, shards: Path, tmp_path: Path, words: list[str], said: str) -> None:
    places = {"data": served, "output": tmp_path / "x", "store_cache": tmp_path / "cache"}
    assert said in fails(2, "stage1", gigabytes(shards, 0.5), "--image_size=32", *words, *QUICK, **places)


@pytest.fixture(scope="module")
def run_at_url(execute: Callable, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An epoch through room for batches of four, but not for those of 64 that other commands have."""
    folder = tmp_path_factory.mktemp("at_url")
    places = {"data": f"file://{shards}", "output": folder / "run", "store_cache": folder / "cache"}
    execute("dimred", "stage1", *STAGE1, "--batch_size=4", gigabytes(shards, 0.9), **places)
    return folder / "run"


STAGE2 = ["--n_component=1", "--epochs=1", "--threads=1", "--batch_size=4", "--prefetch=1"]


def test_what_reads_no_epoch_needs_no_room_for_it(
    run_at_url: Path, execute: Callable, fails: Callable, shards: Path, tmp_path: Path
) -> None:
    cache = f"--store_cache={tmp_path / 'cache'}"
    assert "accuracy" in execute("dimred", "evaluate", run_at_url, cache)
    image = min((shards.parent / "photos" / "bird").iterdir())
    assert "bird" in execute("dimred", "predict", run_at_url, image, cache)
    execute("dimred", "export", run_at_url, cache, "--output", tmp_path / "export")
    words = ["stage2", "--checkpoint", run_at_url, cache, *STAGE2[:3]]
    line = fails(2, *words, "--quiet", "--output", tmp_path / "two")
    assert "for shuffle_buffer_size = 6, batches of 64 and prefetch = 4" in line
    assert not (tmp_path / "two").exists()
    execute("dimred", *words, *STAGE2[3:], "--output", tmp_path / "two")


@pytest.mark.parametrize("command", ["evaluate", "stage1", "stage2"])
def test_a_data_url_is_streamed_as_the_run_was(
    run_at_url: Path, execute: Callable, shards: Path, tmp_path: Path, command: str
) -> None:
    """Its stream_cache is known before the data is sought; data of this machine has none."""
    words: list[object] = {
        "evaluate": [min((run_at_url / "snapshots").glob("*.h5"))],
        "stage1": ["--resume_from", run_at_url, "--batch_size=4", "--prefetch=1", "--epochs=2", "--threads=1"],
        "stage2": ["--checkpoint", run_at_url, *STAGE2],
    }[command]
    words.append(f"--store_cache={tmp_path / 'cache'}")
    there = shutil.copytree(shards, tmp_path / "there")

    def says(data: object, output: str) -> str:
        folder = [] if command == "evaluate" else ["--output", tmp_path / output]
        return execute("dimred", command, *words, f"--data={data}", *folder)

    assert f"streams file://{there}: 8 files" in says(f"file://{there}", "url")
    assert not list((tmp_path / "cache" / "inputs").rglob("train-*"))
    here = says(there, "here")
    assert "streams" not in here
    if command == "evaluate":
        assert re.search("stream_cache = 0.0 overrides [0-9.e-]+, because the data is on this machine", here)
    else:
        assert "stream_cache = 0.0\n" in (tmp_path / "here" / "config.toml").read_text()
