"""MindSpore's .ckpt, written by protobuf from the published schema: mindspore/ccsrc/utils/checkpoint.proto."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TYPES = {"float32": "Float32", "float16": "Float16", "float64": "Float64", "int32": "Int32", "int64": "Int64"}


def _message_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="checkpoint.proto", package="mindspore", syntax="proto2")

    def add(message: Any, name: str, number: int, kind: int, label: int, type_name: str | None = None) -> None:
        message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)

    checkpoint = file.message_type.add(name="Checkpoint")
    value = checkpoint.nested_type.add(name="Value")
    add(value, "tag", 1, field.TYPE_STRING, field.LABEL_REQUIRED)
    add(value, "tensor", 2, field.TYPE_MESSAGE, field.LABEL_REQUIRED, ".mindspore.TensorProto")
    add(checkpoint, "value", 1, field.TYPE_MESSAGE, field.LABEL_REPEATED, ".mindspore.Checkpoint.Value")
    tensor = file.message_type.add(name="TensorProto")
    add(tensor, "dims", 1, field.TYPE_INT64, field.LABEL_REPEATED)
    add(tensor, "tensor_type", 2, field.TYPE_STRING, field.LABEL_REQUIRED)
    add(tensor, "tensor_content", 3, field.TYPE_BYTES, field.LABEL_REQUIRED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("mindspore.Checkpoint"))


def write(path: Path, arrays: dict[str, np.ndarray], slices: int = 1, crc: bool = False) -> None:
    """Writes as mindspore.save_checkpoint: a message a slice, a scalar's dims are [0], maybe a CRC-32 at the end."""
    checkpoint = _message_class()
    data = b""
    for tag, array in arrays.items():
        for part in np.array_split(array.reshape(-1), slices):
            message = checkpoint()
            value = message.value.add(tag=tag)
            value.tensor.dims.extend(array.shape or (0,))
            value.tensor.tensor_type = TYPES[str(array.dtype)]
            value.tensor.tensor_content = part.tobytes()
            data += message.SerializeToString()
    path.write_bytes(data + (b"crc_num" + zlib.crc32(data).to_bytes(10, "big") if crc else b""))


NAMES = {"running_mean": "moving_mean", "running_var": "moving_variance", "weight": "gamma", "bias": "beta"}


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    """The state dict under MindSpore's names: BatchNorm's differ, and it counts no batches."""
    from torch import nn

    norms = {name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
    arrays = {}
    for key, tensor in model.state_dict().items():
        layer, last = key.rsplit(".", 1)
        if last == "num_batches_tracked":
            continue
        name = f"{layer}.{NAMES[last]}" if layer in norms else key
        name = name.replace(".downsample.", ".down_sample_layer.")
        arrays["end_point" + name[2:] if name.startswith("fc.") else name] = tensor.numpy()
    return arrays
