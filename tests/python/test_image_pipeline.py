"""Training on images: what must not change a result (form of the files, caching, a resume), and what must be told."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli import cli, completed, rows_in
from PIL import Image
from ranks import Ended, ended, run_ranks, started

CLASSES = ("bird", "cat", "dog")
EACH = 12
RECIPE = cli("--model=convnet --image_size=28 --global_batch_size=8 --learning_rate=0.02 --threads=1 --quiet")


def put_images(folder: Path, each: int, side: int = 48) -> None:
    """JPEGs whose colour is their class's, of `side` to twice that."""
    random = np.random.default_rng(each)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            pixels = random.integers(0, 120, (side + i % 2 * side, side + 5, 3))
            pixels[..., label] += 100
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i:02}.jpg")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only read."""
    root = tmp_path_factory.mktemp("photos")
    put_images(root / "train", EACH)
    put_images(root / "test", 4)
    return root


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, photos: Path, execute: Callable) -> Path:
    """A run on the folder."""
    run = tmp_path_factory.mktemp("runs") / "folder"
    execute("dimred", "stage1", *RECIPE, "--data", photos, "--output", run)
    return run


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, photos: Path, execute: Callable) -> Path:
    """The same as three shuffled Base64 files."""
    out = tmp_path_factory.mktemp("parts")
    execute("dimred", "data", "convert", photos, "--to=base64", "--files=3", "--shuffle", "--quiet", "--output", out)
    return out


def vectors(run: Path) -> dict[str, bytes]:
    """The newest resume state's vectors."""
    state = sorted((run / "checkpoints").iterdir())[-1]
    return {file.name: file.read_bytes() for file in sorted(state.iterdir()) if file.suffix in (".f32", ".i64")}


def manifest(run: Path) -> dict:
    return json.loads((run / "manifest.json").read_text())


def last_row(run: Path) -> dict[str, str]:
    return rows_in(run / "curve.csv")[-1]


def outcome(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    return completed([program, *arguments])


@pytest.mark.parametrize("form", ["tfrecord", "base64", "packed"])
def test_the_files_form_does_not_change_a_bit(
    form: str, tmp_path: Path, photos: Path, reference: Path, execute: Callable
) -> None:
    """Order and encoded bytes are those of the folder."""
    execute("dimred", "data", "convert", photos, f"--to={form}", "--quiet", "--output", tmp_path / "data")
    execute("dimred", "stage1", *RECIPE, "--data", tmp_path / "data", "--output", tmp_path / "run")
    assert manifest(tmp_path / "run")["train_data"].startswith(form)
    assert vectors(tmp_path / "run") == vectors(reference)
    assert last_row(tmp_path / "run")["test_accuracy"] == last_row(reference)["test_accuracy"]


def test_labels_that_begin_at_one(
    tmp_path: Path, photos: Path, reference: Path, execute: Callable, fails: Callable
) -> None:
    execute("dimred", "data", "convert", photos, "--to=base64", "--quiet", "--output", tmp_path / "data")
    for split in ("train", "test"):
        file = tmp_path / "data" / split / "part-00000-of-00001"
        file.write_text(re.sub(r"\t(\d)$", lambda found: f"\t{int(found[1]) + 1}", file.read_text(), flags=re.M))
        (tmp_path / "data" / split / "labels.txt").write_text("background\n" + "\n".join(CLASSES))
    run = ["stage1", *RECIPE, "--data", tmp_path / "data", "--output", tmp_path / "run", "--labels_offset"]
    assert "needs a label in [2, 4), received 1" in fails(1, *run, 2)
    execute("dimred", *run, 1)
    assert manifest(tmp_path / "run")["class_names"] == list(CLASSES)
    assert vectors(tmp_path / "run") == vectors(reference)


@pytest.mark.parametrize(
    "options",
    [
        ["--shuffle_buffer_size=5", "--validation_fraction=.2"],
        ["--preprocessing_name=imagenet", "--colour_jitter=.3,.3,.3"],
    ],
)
def test_a_run_cut_within_an_epoch_goes_on_with_the_same_bits(
    options: list[str], tmp_path: Path, parts: Path, execute: Callable
) -> None:
    run = ["stage1", *RECIPE, *options, "--data", parts, "--epochs=2"]
    execute("dimred", *run, "--output", tmp_path / "whole")
    execute("dimred", *run, "--output", tmp_path / "cut", "--stop_at_step=2")
    execute("dimred", *run, "--output", tmp_path / "cut")
    assert vectors(tmp_path / "cut") == vectors(tmp_path / "whole")
    if "--shuffle" in options[0]:
        assert manifest(tmp_path / "whole")["sample_order"] == "windows of 5 samples"


def test_windows_are_the_same_on_two_ranks_and_file_shares_are_not(
    tmp_path: Path, parts: Path, dimred: Path, execute: Callable
) -> None:
    run = ["stage1", *RECIPE, "--data", parts]
    execute("dimred", *run, "--shuffle_buffer_size=5", "--output", tmp_path / "one")
    assert run_ranks(dimred, [*run, "--shuffle_buffer_size=5", "--output", tmp_path / "two"], 2).codes == [0, 0]
    one, two = (np.frombuffer(vectors(tmp_path / name)["weights.f32"], np.float32) for name in ("one", "two"))
    assert np.linalg.norm(one - two) < 1e-4 * np.linalg.norm(one)
    shares = [*run, "--shard=files", "--validation_fraction=.2", "--output", tmp_path / "shares"]
    assert run_ranks(dimred, shares, 2).codes == [0, 0]
    assert manifest(tmp_path / "shares")["sample_order"].startswith("files shared over 2 ranks")
    other = np.frombuffer(vectors(tmp_path / "shares")["weights.f32"], np.float32)
    assert np.linalg.norm(one - other) > 1e-3 * np.linalg.norm(one)


def test_options_without_effect_are_refused(tmp_path: Path, photos: Path, parts: Path, fails: Callable) -> None:
    run = ["stage1", *RECIPE, "--output", tmp_path / "run", "--data"]
    several = "the data must lie in several TFRecord or Base64 files, received"
    assert f"with shuffle_buffer_size = 5, {several}" in fails(2, *run, photos, "--shuffle_buffer_size=5")
    assert f"with shard = files, {several}" in fails(2, *run, photos, "--shard=files")
    assert "needs shard = samples" in fails(2, *run, parts, "--shuffle_buffer_size=5", "--shard=files")
    assert "labels_offset needs TFRecord or Base64 files" in fails(2, *run, photos, "--labels_offset=1")


def test_a_bad_test_sample_counts_alike_kept_or_not(tmp_path: Path, binaries: Path, execute: Callable) -> None:
    put_images(tmp_path / "data" / "train", 4, side=32)
    for name in CLASSES:  # of one size, so that they can be kept
        for file in (tmp_path / "data/train" / name).iterdir():
            Image.open(file).resize((32, 32)).save(file)
    shutil.copytree(tmp_path / "data/train", tmp_path / "data/test")
    (tmp_path / "data/test/dog/01.jpg").write_bytes(b"\xff\xd8\xff rubbish")
    run = ["stage1", *RECIPE, "--data", tmp_path / "data", "--on_bad_sample=skip"]
    scores = []
    for kept in ("true", "false"):
        done = outcome(binaries / "dimred", *run, f"--datasets_use_caching={kept}", "--output", tmp_path / kept)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("warning: 1 bad samples are left out of the test set; the first: ") == 1
        assert "test/dog/01.jpg" in done.stderr
        report = manifest(tmp_path / kept)["data_pipeline"]
        assert (report["bad_test_samples"], report["bad_samples"]) == (1, 0)
        scores.append([last_row(tmp_path / kept)[key] for key in ("test_loss", "test_accuracy")])
    assert float(scores[0][1]) * 11 == pytest.approx(round(float(scores[0][1]) * 11))
    assert scores[0] == scores[1]
    assert "(11 samples)\n1 bad samples are left out" in execute("dimred", "evaluate", tmp_path / "true")
    for file in (tmp_path / "data/test").glob("*/*.jpg"):
        file.write_bytes(b"\xff\xd8\xff rubbish")
    done = outcome(binaries / "dimred", *run, "--datasets_use_caching=false", "--output", tmp_path / "none")
    assert done.returncode == 1
    assert "none of the 12 samples can be decoded; the first error is: " in done.stderr
    assert "nan" not in done.stderr


def two_ranks(dimred: Path, folder: Path, photos: Path, broken: list[str], *options: str) -> Ended:
    """Runs two ranks, each with a data set under one relative path; in that of rank 1 these files are broken."""
    for rank in (0, 1):
        shutil.copytree(photos, folder / str(rank) / "data")
    for name in broken:
        (folder / "1/data/train" / name).write_bytes(b"\xff\xd8\xff rubbish")
    command = ["stage1", *RECIPE, "--data=/proc/self/cwd/data", *options, "--output", folder / "run"]
    with started(dimred, command, 2, folders=[folder / "0", folder / "1"]) as processes:
        return ended(processes)


def run_apart(dimred: Path, folder: Path, photos: Path, broken: str) -> tuple[list[str], Path]:
    done = two_ranks(dimred, folder, photos, [broken] if broken else [], "--on_bad_sample=skip")
    assert done.codes == [0, 0], done.errors
    return done.errors, folder / "run"


def test_two_ranks_tell_of_each_others_bad_samples(tmp_path: Path, photos: Path, dimred: Path) -> None:
    """Each file is read by one rank an epoch, and by rank 0 for the mean and deviation of all."""
    _, sound = run_apart(dimred, tmp_path / "sound", photos, "")
    seen = set()
    for number in range(EACH):
        errors, run = run_apart(dimred, tmp_path / str(number), photos, f"cat/{number:02}.jpg")
        bad = manifest(run)["data_pipeline"]["bad_samples"]
        assert manifest(run)["mean"] == manifest(sound)["mean"]
        if bad == 0:  # rank 0 read it
            assert vectors(run) == vectors(sound)
        else:
            assert (
                "1 bad samples were skipped in this epoch; the first: rank 1: "
                f"/proc/self/cwd/data/train/cat/{number:02}.jpg" in errors[0]
            )
            assert "rank 1: /proc/self/cwd/data/train/cat" in manifest(run)["data_pipeline"]["first_bad_or_damaged"][0]
        seen.add(bad)
        if seen == {0, 1}:
            return
    raise AssertionError(f"every file is read by one rank: {seen}")


def test_a_file_broken_on_one_rank_ends_both(tmp_path: Path, photos: Path, dimred: Path) -> None:
    """Rank 1 reads some of these files, whatever the order."""
    started_at = time.monotonic()
    done = two_ranks(
        dimred, tmp_path, photos, [f"cat/{number:02}.jpg" for number in range(EACH)], "--heartbeat_timeout=2"
    )
    assert time.monotonic() - started_at < 30
    assert 0 not in done.codes, done
    assert re.search(r"/proc/self/cwd/data/train/cat/\d\d\.jpg: \[jpeg\] ", "".join(done.errors)), done.errors


def bomb() -> bytes:
    """A PNG of 8 KB whose header says 100 megapixels."""
    png = bytearray(pack_png(8))
    png[16:24] = (10_000).to_bytes(4, "big") * 2
    return bytes(png) + bytes(8000)


def pack_png(side: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (side, side)).save(out, "PNG")
    return out.getvalue()


def test_a_bomb_is_named_with_its_file_or_offset(
    tmp_path: Path, photos: Path, fails: Callable, execute: Callable, dimred: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(photos, data)
    image = data / "train/cat/03.jpg"
    image.write_bytes(bomb())
    reported = "[png] needs at most 64 megapixels, received 10000 x 10000"
    assert f"{image}: {reported}" in fails(1, "stage1", *RECIPE, "--data", data, "--output", tmp_path / "run")
    assert f"problem: {image}: {reported}" in outcome(dimred, "data", "inspect", data, "--quiet").stdout
    shards = tmp_path / "shards"  # the tool keeps the bytes as they are
    execute("dimred", "data", "convert", data, "--to=tfrecord", "--quiet", "--output", shards)
    shard = shards / "train-00000-of-00001"
    record = shard.read_bytes()[: shard.read_bytes().index(bomb())].rindex(b"image/class/label")
    for text in (
        fails(1, "stage1", *RECIPE, "--data", shards, "--output", tmp_path / "two"),
        outcome(dimred, "data", "inspect", shards, "--quiet").stdout,
    ):
        found = re.search(rf"{shard}, offset (\d+): {re.escape(reported)}", text)
        assert found, text
        assert 0 < record - int(found[1]) < 40  # behind the record's and the example's first bytes


def test_a_run_goes_on_with_its_own_data_only(
    tmp_path: Path, photos: Path, fails: Callable, execute: Callable, binaries: Path
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(photos, data)
    start = ["stage1", *RECIPE, "--data", data, "--epochs=2", "--output", run]
    execute("dimred", *start, "--stop_at_step=4", "--snapshots_per_epoch=4")
    image = data / "train/cat/03.jpg"
    kept = image.read_bytes()
    image.unlink()  # as many steps an epoch as before
    error = fails(2, *start, "--snapshots_per_epoch=4")
    said = "the train set has other samples: the set was .* 36 images.* and is now .* 35 images"
    assert re.search(said, error), error
    stage2 = cli("stage2 --n_component=1 --epochs=1 --batch_size=8 --threads=1 --quiet", checkpoint=run)
    done = outcome(binaries / "dimred", *stage2, "--budget=1", "--output", tmp_path / "noted")
    assert done.returncode == 0, done.stderr
    assert (
        "warning: these are not the data that the weights were trained on: the train set has other samples"
        in done.stderr
    )
    image.write_bytes(kept)
    for split in ("train", "test"):  # now sorted behind dog
        (data / split / "cat").rename(data / split / "fox")
    text = "label 1 was cat and is now dog"
    assert text in fails(2, *start, "--snapshots_per_epoch=4")
    assert text in fails(2, *stage2, "--output", tmp_path / "two")
    assert text in fails(2, *stage2, "--start=mean", "--output", tmp_path / "two")
    assert text in fails(2, "evaluate", run)
    assert text in fails(2, "evaluate", run / "snapshots")
    for split in ("train", "test"):
        (data / split / "fox").rename(data / split / "cat")
    execute("dimred", *start, "--snapshots_per_epoch=4")
