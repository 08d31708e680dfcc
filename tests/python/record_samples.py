"""Images and their labels in folders, TFRecord and Base64 files, by TensorBoard, protobuf and Python alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

CLASSES = ["daisy", "rose", "tulip"]
COUNT = 23


def example_class() -> Any:
    """tf.Example, from the text of tensorflow/core/example/{example,feature}.proto."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, int, str], parent: Any = file) -> Any:
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
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    """Samples as TensorBoard's reader, which verifies checksums, and protobuf's runtime give them."""
    from tensorboard.compat.tensorflow_stub.errors import OutOfRangeError  # a second to load
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    found = []
    for file in files:
        reader = PyRecordReader_New(str(file))
        while True:
            try:
                reader.GetNext()
            except OutOfRangeError:
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
    """Writes samples by TensorBoard's writer."""
    from tensorboard.summary.writer.record_writer import RecordWriter  # half a second to load

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
