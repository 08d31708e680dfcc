"""dimred data: what the tools make of a folder, what they count and refuse, and a killed one that goes on."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cli import cli, completed
from PIL import Image
from record_samples import CLASSES, COUNT, in_order, picture, read_base64

pytest_plugins = ["record_samples"]


def test_shuffle_splits_into_files_of_equal_size(flowers: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    def split(name: str, seed: int) -> list[list[tuple[bytes, int]]]:
        out = tmp_path / name
        said = execute("dimred", "data", "shuffle-split", flowers, "--nranks=4", f"--seed={seed}", "--output", out)
        assert "4 files of 6 images, 1 of them repeated" in said
        listed = (out / "file_list.txt").read_text().split()
        assert listed == [f"base64_rank_{rank}" for rank in range(4)]
        return [read_base64([out / file]) for file in listed]

    first = split("first", 1)
    assert [len(part) for part in first] == [6, 6, 6, 6]
    together = [sample for part in first for sample in part]
    counts = Counter(together)
    assert set(counts) == set(in_order(flowers))
    assert sorted(counts.values()) == [1] * 22 + [2]
    assert together[:COUNT] != in_order(flowers)
    assert split("again", 1) == first
    assert split("other", 2) != first
    assert in_order(flowers)  # the input is still there


def test_packed_files_give_the_same_samples(flowers: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "pack", flowers, "--output", tmp_path / "packed")
    execute("dimred", "data", "convert", tmp_path / "packed", tmp_path / "out", "--to=base64")
    assert read_base64([tmp_path / "out/train/part-00000-of-00001"]) == in_order(flowers)
    assert read_base64([tmp_path / "out/test/part-00000-of-00001"]) == in_order(flowers, "test")


def test_packs_at_a_short_side_as_pillow_reduces(flowers: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    """Planes of Pillow's BILINEAR: within 1, as Pillow 13 takes rows before columns where that is less work; of a
    JPEG within 2, as its decoder may round otherwise."""
    execute("dimred", "data", "pack", flowers, "--encoding=planes", "--short_side=6", "--output", tmp_path / "packed")
    execute("dimred", "data", "convert", tmp_path / "packed", "--to=base64", "--output", tmp_path / "out")
    found = read_base64([tmp_path / "out/train/part-00000-of-00001"])
    assert len(found) == COUNT
    for (image, label), (source, expected) in zip(found, in_order(flowers), strict=True):
        assert label == expected
        ours = np.asarray(Image.open(io.BytesIO(image)), dtype=int)
        full = Image.open(io.BytesIO(source)).convert("RGB")
        short = min(full.size)
        size = (full.width * 6 // short, full.height * 6 // short)
        theirs = np.asarray(full.resize(size, Image.Resampling.BILINEAR), dtype=int)
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= (1 if source.startswith(b"\x89PNG") else 2)


def test_a_killed_conversion_goes_on(
    flowers: Path, tmp_path: Path, binaries: Path, execute: Callable[..., str]
) -> None:
    """Killed while it writes: no half file under a final name; the next start keeps what is whole."""
    command = cli(
        binaries / "dimred", "data convert --dataset=mock --to=base64 --files=40 --threads=1 --split=train --quiet"
    )
    out = tmp_path / "out"
    process = subprocess.Popen([*command, "--output", str(out)])
    while not (out / "train" / "part-00001-of-00040").exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = sorted((out / "train").glob("part-*-of-00040"))
    assert 2 <= len(done) < 40
    for file in done:
        assert len(file.read_bytes().splitlines()) == 1250
    times = [file.stat().st_mtime_ns for file in done]
    subprocess.run([*command, "--output", str(out)], check=True)
    assert [file.stat().st_mtime_ns for file in done] == times
    assert len(list((out / "train").glob("part-*-of-00040"))) == 40
    assert not list((out / "train").glob("*.tmp"))


def test_a_killed_shuffle_split_goes_on_to_the_same_files(tmp_path: Path, binaries: Path) -> None:
    for number in range(8):
        source = tmp_path / f"data/train/{number % 2}/{number}.png"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(picture(number))
        for copy in range(1000):
            (source.parent / f"{number}-{copy}.png").hardlink_to(source)
    command = cli(
        binaries / "dimred",
        "data shuffle-split",
        tmp_path / "data",
        "--split=train --nranks=40 --seed=3 --threads=1 --quiet --output",
    )
    process = subprocess.Popen([*command, str(tmp_path / "cut")])
    while not (tmp_path / "cut/base64_rank_3").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut/file_list.txt").exists()
    assert len(list((tmp_path / "cut").glob("base64_rank_*[0-9]"))) < 40
    for name in ("cut", "whole"):
        subprocess.run([*command, str(tmp_path / name)], check=True)
    whole = {file.name: file.read_bytes() for file in (tmp_path / "whole").iterdir()}
    assert whole == {file.name: file.read_bytes() for file in (tmp_path / "cut").iterdir()}
    assert len(whole) == 43  # the files, their list, labels.txt and dimred-data.txt


def test_images_that_were_rewritten_are_not_mixed_with_those_before(
    flowers: Path, tmp_path: Path, execute: Callable[..., str], fails: Callable[..., str]
) -> None:
    source, image = tmp_path / "source", tmp_path / f"source/train/{CLASSES[0]}/000.jpg"
    shutil.copytree(flowers, source)
    jobs = {
        "convert": ["convert", "--files=2"],
        "split": ["shuffle-split", "--nranks=2", "--split=train"],
        "pack": ["pack"],
    }
    for name, (tool, *words) in jobs.items():
        execute("dimred", "data", tool, source, tmp_path / name, *words, "--quiet")
        execute("dimred", "data", tool, source, *words, "--quiet", "--output", tmp_path / name)
    os.utime(image, ns=(1, image.stat().st_mtime_ns + 1))
    for name, (tool, *words) in jobs.items():
        line = fails(2, "data", tool, source, *words, "--output", tmp_path / name)
        assert "holds the files of another job" in line


def test_names_bad_input(
    flowers: Path, tmp_path: Path, binaries: Path, fails: Callable[..., str], execute: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    assert "did you mean shuffle-split?" in fails(2, "data", "shufle-split")
    assert "needs --output" in fails(2, "data", "convert", flowers)
    assert "needs an --output outside the data" in fails(2, "data", "convert", flowers, "--output", flowers / "new")
    assert "does not exist" in fails(2, "data", "convert", tmp_path / "none", "--output", out)
    assert "--nranks: needs" in fails(2, "data", "shuffle-split", flowers, "--nranks=0", "--output", out)
    (out / "x").mkdir(parents=True)
    for form in ("tfrecord", "base64", "packed"):
        line = fails(2, "data", "convert", flowers, f"--to={form}", "--output", out)
        assert "already holds other files, such as x" in line
    assert [file.name for file in out.iterdir()] == ["x"]
    for split in ("train", "test"):  # the parts of Base64 files may come one after the other
        parts = ["data", "convert", flowers, "--to=base64", f"--split={split}", "--output", tmp_path / "parts"]
        execute("dimred", *parts)
    done = tmp_path / "done"
    execute("dimred", "data", "convert", flowers, "--to=tfrecord", "--output", done)
    execute("dimred", "data", "convert", flowers, "--to=tfrecord", "--output", done)
    assert "holds the files of another job" in fails(2, "data", "convert", flowers, "--files=2", "--output", done)
    shard = done / "train-00000-of-00001"
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "train-00000-of-00001").write_bytes(content)
    line = fails(1, "data", "convert", damaged, "--output", tmp_path / "new")
    assert re.search(r"train-00000-of-00001, offset 0: .*the payload does not match its checksum", line)
    shown = completed([binaries / "dimred", "data", "inspect", damaged, "--quiet"])
    assert shown.returncode == 1
    assert "note: skipped" in shown.stdout and "1 bad record skipped" in shown.stdout
    for tool, *words in (
        ["convert", "--to=packed"],
        ["convert", "--to=base64"],
        ["pack"],
        ["shuffle-split", "--nranks=2"],
    ):
        place = tmp_path / "".join([tool, *words])
        copied = completed(
            [binaries / "dimred", "data", tool, damaged, *words, "--on_bad_sample=skip", "--output", place]
        )
        assert copied.returncode == 0, copied.stderr
        assert re.search(r"train: skipped .*train-00000-of-00001, offset 0: .*checksum", copied.stderr), copied.stderr


def test_inspect_counts_what_is_there(flowers: Path, execute: Callable[..., str]) -> None:
    said = execute("dimred", "data", "inspect", flowers, "--quiet")
    train = said[: said.index("test:")]
    for label, name in enumerate(CLASSES):
        count = sum(number % 3 == label for number in range(COUNT))
        assert re.search(rf"^ +{label}  {name}  {count}$", train, re.MULTILINE)
    assert re.search(r"jpeg colour +15", train) and re.search(r"png colour +8", train)
    assert "height 8 to 30, width 9 to 9" in train


def test_inspect_says_where_test_images_differ(tmp_path: Path, binaries: Path) -> None:
    def images(part: str, size: tuple[int, int], mode: str, numbers: range) -> None:
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True, exist_ok=True)
            for number in numbers:
                Image.new(mode, size).save(tmp_path / part / name / f"{number}.png")

    def notes(code: int = 0) -> list[str]:
        done = completed([binaries / "dimred", "data", "inspect", tmp_path, "--quiet"])
        assert done.returncode == code, done.stderr
        assert ("the test images have another size than the training images" in done.stderr) == (code == 1)
        return [line.strip() for line in done.stdout.splitlines() if "note:" in line]

    images("train", (8, 9), "L", range(2))
    images("test", (8, 9), "L", range(1))
    assert notes() == []
    begin = "note: the test images differ from the training images in"
    images("test", (8, 12), "RGB", range(1, 2))
    assert notes(1) == [
        f"{begin} size: height 9 to 12, width 8 to 8, not 9 x 8",
        f"{begin} channels: colour and grey, not grey",
    ]
    images("train", (8, 12), "RGB", range(2, 3))  # photographs: training images of all sorts
    assert notes() == []


def test_converts_to_packed_in_the_order_of_the_permutation(
    flowers: Path, tmp_path: Path, execute: Callable[..., str], fails: Callable[..., str]
) -> None:
    convert = ["data", "convert", flowers, "--split=train", "--quiet"]
    for form in ("packed", "base64"):
        execute("dimred", *convert, f"--to={form}", "--shuffle", "--seed=5", "--output", tmp_path / form)
    execute("dimred", "data", "convert", tmp_path / "packed", "--to=base64", "--quiet", "--output", tmp_path / "back")
    orders = [read_base64([tmp_path / name / "train/part-00000-of-00001"]) for name in ("back", "base64")]
    assert orders[0] == orders[1] != in_order(flowers)
    output = ["--output", tmp_path / "refused"]
    assert "files has no effect: it needs to = tfrecord or base64" in fails(
        2, *convert, "--to=packed", "--files=2", *output
    )
    assert "seed has no effect: it needs shuffle" in fails(2, *convert, "--to=tfrecord", "--seed=5", *output)
    whole = ["data", "convert", flowers, "--quiet", "--to=tfrecord"]  # 23 and 6 samples
    assert "--files needs to be at most 6 (the number of samples in the test part), received 7" in fails(
        2, *whole, "--files=7", *output
    )
    assert not (tmp_path / "refused").exists()
    inside = ["--output", flowers / "train" / "out"]
    assert "outside the data" in fails(2, "data", "convert", f"{flowers}/train/*/*.jpg", "--to=packed", *inside)


def test_tools_count_what_is_bad_or_damaged(
    flowers: Path, tmp_path: Path, execute: Callable[..., str], fails: Callable[..., str], binaries: Path
) -> None:
    data = tmp_path / "test_data"  # a path that once read as "no test set"
    shutil.copytree(flowers, data)
    large = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (160, 160, 3), dtype=np.uint8)).save(large, "JPEG")
    (data / "train/daisy/cut.jpg").write_bytes(large.getvalue()[:-60])
    (data / "train/daisy/bad.jpg").write_bytes(b"\xff\xd8\xff rubbish")
    said = completed([binaries / "dimred", "data", "inspect", data])
    assert said.returncode == 1
    problems = [line for line in said.stdout.splitlines() if line.startswith("  problem: ")]
    assert [Path(line.split(": ")[1]).name for line in problems] == ["bad.jpg", "cut.jpg"]
    assert "ends early" in problems[1]
    pack = ["data", "pack", data, "--encoding=planes", "--output", tmp_path / "packed"]
    assert "daisy/bad.jpg" in fails(1, *pack)
    done = completed([binaries / "dimred", *pack, "--on_bad_sample=skip"])
    assert done.returncode == 0, done.stderr
    assert "train: left out 1 bad samples; the first bad sample: " in done.stderr
    assert re.search(
        "train: 1 damaged images could be decoded and written only in part; "
        "the first damaged image: .*cut.jpg: ends early",
        done.stderr,
    )
    assert "train: 24 images" in done.stdout and "test: 6 images" in done.stdout
    (data / "train/daisy/rubbish.jpg").write_bytes(b"no image")
    split = ["data", "shuffle-split", data, "--nranks=2", "--output", tmp_path / "split"]
    assert "daisy/rubbish.jpg" in fails(1, *split)
    shutil.rmtree(tmp_path / "split")
    done = completed([binaries / "dimred", *split, "--on_bad_sample=skip"])
    assert done.returncode == 0, done.stderr
    assert "train: left out 1 bad samples; the first bad sample: " in done.stderr
    assert "daisy/rubbish.jpg: needs a JPEG or PNG file" in done.stderr
    assert "2 files of 13 images, 1 of them repeated" in done.stdout
    assert [len(read_base64([tmp_path / f"split/base64_rank_{rank}"])) for rank in range(2)] == [13, 13]
    shutil.rmtree(data / "test" / "tulip")
    assert "only one of the two sets has tulip" in fails(
        2, "data", "convert", data, "--to=packed", "--output", tmp_path / "out"
    )
