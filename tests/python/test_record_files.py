"""TFRecord and Base64 files against TensorBoard's reader and writer, protobuf's runtime, and Python's base64."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from record_samples import CLASSES, COUNT, in_order, picture, read_base64, read_tfrecords, write_tfrecords

pytest_plugins = ["record_samples"]


def test_converts_a_folder_to_tfrecord_files(flowers: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "convert", flowers, "--to=tfrecord", "--files=3", "--output", tmp_path / "out")
    names = sorted(file.name for file in (tmp_path / "out").glob("*-of-*"))
    assert names == [f"{split}-{i:05}-of-00003" for split in ("test", "train") for i in range(3)]
    assert read_tfrecords([tmp_path / "out" / name for name in names[3:]]) == in_order(flowers)
    assert read_tfrecords([tmp_path / "out" / name for name in names[:3]]) == in_order(flowers, "test")
    assert (tmp_path / "out" / "labels.txt").read_text() == "0:daisy\n1:rose\n2:tulip\n"


def test_converts_a_folder_to_base64_files(flowers: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "convert", flowers, "--to=base64", "--files=2", "--output", tmp_path / "out")
    listed = (tmp_path / "out" / "train" / "file_list.txt").read_text().split()
    assert read_base64([tmp_path / "out" / "train" / name for name in listed]) == in_order(flowers)


def test_reads_what_tensorboard_and_protobuf_wrote(tmp_path: Path, execute: Callable[..., str]) -> None:
    samples = [(picture(number), number % 3) for number in range(COUNT)]
    (tmp_path / "tf").mkdir()
    write_tfrecords(tmp_path / "tf" / "flowers_train_00000-of-00002.tfrecord", samples[:10])
    write_tfrecords(tmp_path / "second", samples[10:])
    with gzip.open(tmp_path / "tf" / "flowers_train_00001-of-00002.tfrecord.gz", "wb") as stream:
        stream.write((tmp_path / "second").read_bytes())
    execute("dimred", "data", "convert", tmp_path / "tf", "--to=base64", "--output", tmp_path / "out")
    assert read_base64([tmp_path / "out/train/part-00000-of-00001"]) == samples


@pytest.mark.parametrize("label_first", [False, True])
def test_reads_what_python_encoded(tmp_path: Path, execute: Callable[..., str], label_first: bool) -> None:
    samples = [(picture(number), number % 3) for number in range(COUNT)]
    lines = [(base64.b64encode(image).decode(), str(label)) for image, label in samples]
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, chunk in enumerate((lines[:9], lines[9:])):
        text = "".join("\t".join(reversed(line) if label_first else line) + "\r\n" for line in chunk)
        (parts / f"part{number}").write_text(text)
    (parts / "file_list.txt").write_text("part0\npart1\n")
    (parts / "labels.txt").write_text("\n".join(CLASSES))
    execute("dimred", "data", "convert", parts, "--to=tfrecord", "--output", tmp_path / "out")
    assert read_tfrecords([tmp_path / "out/train-00000-of-00001"]) == samples
    order = "label<TAB>base64" if label_first else "base64<TAB>label"
    assert order in execute("dimred", "data", "inspect", parts, "--quiet")
