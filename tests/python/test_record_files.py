"""TFRecord and Base64 files against TensorBoard's reader and writer, protobuf's runtime, and Python's base64."""

from __future__ import annotations

import base64
import gzip
import io
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
from tensorboard.summary.writer.record_writer import RecordWriter

CLASSES = ["daisy", "rose", "tulip"]
COUNT = 23


def example_class() -> type:
    """tf.Example, from the text of tensorflow/core/example/{example,feature}.proto."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, int, str], parent: object = file) -> object:
        where = parent.message_type if parent is file else parent.nested_type
        made = where.add(name=name)
        for text, number, label, kind, of in fields:
            made.field.add(name=text, number=number, label=label, type=kind, type_name=of or None)
        return made

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message("BytesList", ("value", 1, many, field.TYPE_BYTES, ""))
    message("FloatList", ("value", 1, many, field.TYPE_FLOAT, ""))
    message("Int64List", ("value", 1, many, field.TYPE_INT64, ""))
    feature = message(
        "Feature",
        ("bytes_list", 1, one, field.TYPE_MESSAGE, ".t.BytesList"),
        ("float_list", 2, one, field.TYPE_MESSAGE, ".t.FloatList"),
        ("int64_list", 3, one, field.TYPE_MESSAGE, ".t.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for part in feature.field:
        part.oneof_index = 0
    features = message("Features", ("feature", 1, many, field.TYPE_MESSAGE, ".t.Features.FeatureEntry"))
    entry = message(
        "FeatureEntry",
        ("key", 1, one, field.TYPE_STRING, ""),
        ("value", 2, one, field.TYPE_MESSAGE, ".t.Feature"),
        parent=features,
    )
    entry.options.map_entry = True
    message("Example", ("features", 1, one, field.TYPE_MESSAGE, ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


Example = example_class()


def picture(number: int) -> bytes:
    """A JPEG or PNG that differs for every number."""
    pixels = np.random.default_rng(number).integers(0, 256, (8 + number, 9, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG" if number % 3 == 0 else "JPEG")
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """COUNT images in class folders, train; two a class in test."""
    root = tmp_path_factory.mktemp("images")
    for number in range(COUNT):
        file = root / "train" / CLASSES[number % 3] / f"{number:03}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number))
    for number in range(6):
        file = root / "test" / CLASSES[number % 3] / f"{number:03}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(100 + number))
    return root


def in_order(folder: Path, split: str = "train") -> list[tuple[bytes, int]]:
    """(bytes, label) by class and file."""
    return [
        (file.read_bytes(), label)
        for label, name in enumerate(CLASSES)
        for file in sorted((folder / split / name).iterdir())
    ]


def read_tfrecords(files: list[Path]) -> list[tuple[bytes, int]]:
    """By TensorBoard's reader, which verifies checksums, and protobuf's runtime."""
    found = []
    for file in files:
        reader = PyRecordReader_New(str(file))
        while True:
            try:
                reader.GetNext()
            except Exception as end:  # its own OutOfRangeError
                assert "OutOfRange" in type(end).__name__
                break
            example = Example.FromString(reader.record())
            feature = example.features.feature
            (image,) = feature["image/encoded"].bytes_list.value
            (label,) = feature["image/class/label"].int64_list.value
            (form,) = feature["image/format"].bytes_list.value
            (name,) = feature["image/class/text"].bytes_list.value
            assert form == (b"png" if image.startswith(b"\x89PNG") else b"jpeg")
            assert name.decode() == CLASSES[label]
            assert reader.record() == example.SerializeToString(deterministic=True)
            found.append((image, label))
    return found


def read_base64(files: list[Path]) -> list[tuple[bytes, int]]:
    found = []
    for file in files:
        for line in file.read_text().splitlines():
            text, label = line.split("\t")
            found.append((base64.b64decode(text, validate=True), int(label)))
    return found


def write_tfrecords(file: Path, samples: list[tuple[bytes, int]]) -> None:
    with file.open("wb") as stream:
        writer = RecordWriter(stream)
        for image, label in samples:
            example = Example()
            example.features.feature["image/encoded"].bytes_list.value.append(image)
            example.features.feature["image/format"].bytes_list.value.append(b"JPEG")
            example.features.feature["image/height"].int64_list.value.append(3)
            example.features.feature["weights"].float_list.value.extend([1.5, 2.5])
            example.features.feature["image/class/label"].int64_list.value.append(label)
            writer.write(example.SerializeToString())
        writer.flush()


def test_converts_a_folder_to_tfrecord_files(folder: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "convert", folder, "--to=tfrecord", "--files=3", "--output", tmp_path / "out")
    names = sorted(file.name for file in (tmp_path / "out").glob("*-of-*"))
    assert names == [f"{split}-{i:05}-of-00003" for split in ("test", "train") for i in range(3)]
    assert read_tfrecords([tmp_path / "out" / name for name in names[3:]]) == in_order(folder)
    assert read_tfrecords([tmp_path / "out" / name for name in names[:3]]) == in_order(folder, "test")
    assert (tmp_path / "out" / "labels.txt").read_text() == "0:daisy\n1:rose\n2:tulip\n"


def test_converts_a_folder_to_base64_files(folder: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "convert", folder, "--to=base64", "--files=2", "--output", tmp_path / "out")
    listed = (tmp_path / "out" / "train" / "file_list.txt").read_text().split()
    assert read_base64([tmp_path / "out" / "train" / name for name in listed]) == in_order(folder)


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


def test_shuffle_splits_into_files_of_equal_size(folder: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    def split(name: str, seed: int) -> list[list[tuple[bytes, int]]]:
        out = tmp_path / name
        said = execute("dimred", "data", "shuffle-split", folder, "--nranks=4", f"--seed={seed}", "--output", out)
        assert "4 files of 6 images, 1 of them repeated" in said
        listed = (out / "file_list.txt").read_text().split()
        assert listed == [f"base64_rank_{rank}" for rank in range(4)]
        return [read_base64([out / file]) for file in listed]

    first = split("first", 1)
    assert [len(part) for part in first] == [6, 6, 6, 6]
    together = [sample for part in first for sample in part]
    counts = Counter(together)
    assert set(counts) == set(in_order(folder))
    assert sorted(counts.values()) == [1] * 22 + [2]
    assert together[:COUNT] != in_order(folder)
    assert split("again", 1) == first
    assert split("other", 2) != first
    assert in_order(folder)  # the input is still there


def test_packed_files_give_the_same_samples(folder: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute("dimred", "data", "pack", folder, "--output", tmp_path / "packed")
    execute("dimred", "data", "convert", tmp_path / "packed", "--to=base64", "--output", tmp_path / "out")
    assert read_base64([tmp_path / "out/train/part-00000-of-00001"]) == in_order(folder)
    assert read_base64([tmp_path / "out/test/part-00000-of-00001"]) == in_order(folder, "test")


def test_packs_at_a_short_side_as_pillow_reduces(folder: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    """Planes of Pillow's BILINEAR: within 1, as Pillow 13 takes rows before columns where that is less work; of a
    JPEG within 2, as its decoder may round otherwise."""
    execute("dimred", "data", "pack", folder, "--encoding=planes", "--short_side=6", "--output", tmp_path / "packed")
    execute("dimred", "data", "convert", tmp_path / "packed", "--to=base64", "--output", tmp_path / "out")
    found = read_base64([tmp_path / "out/train/part-00000-of-00001"])
    assert len(found) == COUNT
    for (image, label), (source, expected) in zip(found, in_order(folder), strict=True):
        assert label == expected
        ours = np.asarray(Image.open(io.BytesIO(image)), dtype=int)
        full = Image.open(io.BytesIO(source)).convert("RGB")
        short = min(full.size)
        size = (full.width * 6 // short, full.height * 6 // short)
        theirs = np.asarray(full.resize(size, Image.Resampling.BILINEAR), dtype=int)
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= (1 if source.startswith(b"\x89PNG") else 2)


def test_a_killed_conversion_goes_on(folder: Path, tmp_path: Path, binaries: Path, execute: Callable[..., str]) -> None:
    """Killed while it writes: no half file under a final name; the next start keeps what is whole."""
    command = [str(binaries / "dimred"), "data", "convert", "--dataset=mock", "--to=base64", "--files=40",
               "--threads=1", "--split=train", "--quiet"]  # fmt: skip
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


def test_names_bad_input(
    folder: Path, tmp_path: Path, binaries: Path, fails: Callable[..., str], execute: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    assert "did you mean shuffle-split?" in fails(2, "data", "shufle-split")
    assert "needs --output" in fails(2, "data", "convert", folder)
    assert "needs an --output outside the data" in fails(2, "data", "convert", folder, "--output", folder / "new")
    assert "does not exist" in fails(2, "data", "convert", tmp_path / "none", "--output", out)
    assert "--nranks: needs" in fails(2, "data", "shuffle-split", folder, "--nranks=0", "--output", out)
    (out / "x").mkdir(parents=True)
    assert "holds other files already (x)" in fails(2, "data", "convert", folder, "--output", out)
    done = tmp_path / "done"
    execute("dimred", "data", "convert", folder, "--to=tfrecord", "--output", done)
    execute("dimred", "data", "convert", folder, "--to=tfrecord", "--output", done)
    assert "holds the files of another job" in fails(2, "data", "convert", folder, "--files=2", "--output", done)
    shard = done / "train-00000-of-00001"
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "train-00000-of-00001").write_bytes(content)
    line = fails(1, "data", "convert", damaged, "--output", tmp_path / "new")
    assert re.search(r"train-00000-of-00001, offset 0: .*checksum of its payload differs", line)
    shown = subprocess.run(
        [binaries / "dimred", "data", "inspect", damaged, "--quiet"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 1
    assert "note: skipped" in shown.stdout and "1 bad records skipped" in shown.stdout


def test_inspect_counts_what_is_there(folder: Path, execute: Callable[..., str]) -> None:
    said = execute("dimred", "data", "inspect", folder, "--quiet")
    train = said[: said.index("test:")]
    for label, name in enumerate(CLASSES):
        count = sum(number % 3 == label for number in range(COUNT))
        assert re.search(rf"^ +{label}  {name}  {count}$", train, re.MULTILINE)
    assert re.search(r"jpeg colour +15", train) and re.search(r"png colour +8", train)
    assert "height 8 to 30, width 9 to 9" in train


def test_converts_to_packed_in_the_order_of_the_permutation(folder: Path, tmp_path: Path, execute: Callable[..., str],
                                                            fails: Callable[..., str]) -> None:  # fmt: skip
    convert = ["data", "convert", folder, "--split=train", "--quiet"]
    for form in ("packed", "base64"):
        execute("dimred", *convert, f"--to={form}", "--shuffle", "--seed=5", "--output", tmp_path / form)
    execute("dimred", "data", "convert", tmp_path / "packed", "--to=base64", "--quiet", "--output", tmp_path / "back")
    orders = [read_base64([tmp_path / name / "train/part-00000-of-00001"]) for name in ("back", "base64")]
    assert orders[0] == orders[1] != in_order(folder)
    output = ["--output", tmp_path / "refused"]
    assert "files needs --to tfrecord or base64, received 2" in fails(2, *convert, "--to=packed", "--files=2", *output)
    assert "seed needs shuffle, received 5 without" in fails(2, *convert, "--to=tfrecord", "--seed=5", *output)
    whole = ["data", "convert", folder, "--quiet", "--to=tfrecord"]  # 23 and 6 samples
    assert "at most the 6 samples of the test part" in fails(2, *whole, "--files=7", *output)
    assert not (tmp_path / "refused").exists()
    inside = ["--output", folder / "train" / "out"]
    assert "outside the data" in fails(2, "data", "convert", f"{folder}/train/*/*.jpg", "--to=packed", *inside)


def test_tools_count_what_is_bad_or_damaged(folder: Path, tmp_path: Path, execute: Callable[..., str],
                                            fails: Callable[..., str], binaries: Path) -> None:  # fmt: skip
    data = tmp_path / "test_data"  # a path that once read as "no test set"
    shutil.copytree(folder, data)
    large = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (160, 160, 3), dtype=np.uint8)).save(large, "JPEG")
    (data / "train/daisy/cut.jpg").write_bytes(large.getvalue()[:-60])
    (data / "train/daisy/bad.jpg").write_bytes(b"\xff\xd8\xff rubbish")
    said = subprocess.run([binaries / "dimred", "data", "inspect", data], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    problems = [line for line in said.stdout.splitlines() if line.startswith("  problem: ")]
    assert [Path(line.split(": ")[1]).name for line in problems] == ["bad.jpg", "cut.jpg"]
    assert "ends early" in problems[1]
    pack = ["data", "pack", data, "--encoding=planes", "--output", tmp_path / "packed"]
    assert "daisy/bad.jpg" in fails(1, *pack)
    done = subprocess.run([binaries / "dimred", *pack, "--on_bad_sample=skip"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "train: 1 bad samples were left out; the first: " in done.stderr
    assert re.search("train: 1 damaged images were written as far as they go; the first: .*cut.jpg: ends early", done.stderr)
    assert "train: 24 images" in done.stdout and "test: 6 images" in done.stdout
    shutil.rmtree(data / "test" / "tulip")
    assert "only one of them has tulip" in fails(2, "data", "convert", data, "--to=packed", "--output", tmp_path / "out")
