"""scripts/slim_checkpoint.sh: a checkpoint of TF-Slim's ResNet v1 as the weights of `dimred model slim:NAME`, which has
its strides.

TensorFlow reads it; a layer keeps its name ("/" becomes ".") and its parts get PyTorch's. Step counts, optimizer slots
and what lies outside of the network are passed over."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

UNITS = {
    "resnet_v1_50": (3, 4, 6, 3),
    "resnet_v1_101": (3, 4, 23, 3),
    "resnet_v1_152": (3, 8, 36, 3),
    "resnet_v1_200": (3, 24, 36, 3),
}
PARTS = {
    "weights": "weight",
    "biases": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
ENDINGS = (".index", ".meta")
WRONG, FAILED = 2, 1  # exit codes: the caller's fault, and the file's


class Refused(Exception):
    """Why, in one line, and the exit code."""

    def __init__(self, text: str, code: int = WRONG) -> None:
        super().__init__(text)
        self.code = code


class Reader(Protocol):
    """The part of what tf.train.load_checkpoint returns that is used."""

    def get_variable_to_shape_map(self) -> dict[str, list[int]]: ...

    def get_tensor(self, name: str) -> Any: ...


def kernels(network: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Its convolutions with BatchNorm: scope, and the kernel's shape (height, width, in, out)."""
    yield "conv1", (7, 7, 3, 64)
    into = 64
    for block, count in enumerate(UNITS[network]):
        width = 64 * 2**block
        for unit in range(count):
            scope = f"block{block + 1}/unit_{unit + 1}/bottleneck_v1"
            if unit == 0:
                yield f"{scope}/shortcut", (1, 1, into, 4 * width)
            yield f"{scope}/conv1", (1, 1, into, width)
            yield f"{scope}/conv2", (3, 3, width, width)
            yield f"{scope}/conv3", (1, 1, width, 4 * width)
            into = 4 * width


def variables(network: str, classes: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all its variables by TF-Slim's names."""
    found: dict[str, tuple[int, ...]] = {}
    for scope, shape in kernels(network):
        found[f"{network}/{scope}/weights"] = shape
        for part in ("gamma", "beta", "moving_mean", "moving_variance"):
            found[f"{network}/{scope}/BatchNorm/{part}"] = shape[3:]
    return found | {f"{network}/logits/weights": (1, 1, 2048, classes), f"{network}/logits/biases": (classes,)}


def our_name(variable: str) -> str:
    """resnet_v1_50/block1/unit_1/bottleneck_v1/conv1/BatchNorm/gamma -> block1.unit_1.conv1.BatchNorm.weight"""
    *scopes, part = [word for word in variable.split("/")[1:] if word != "bottleneck_v1"]
    return ".".join([*scopes, PARTS[part]])


def network_of(names: Iterable[str], source: str) -> str:
    """The one whose scope the checkpoint has."""
    scopes = {name.split("/")[0] for name in names}
    found = sorted(scopes & UNITS.keys())
    if len(found) != 1:
        first = min(names, default="nothing")
        holds = " and ".join(found) if found else f"{first}, which belongs to none of these networks"
        raise Refused(f"{source}: needs the variables of one of TF-Slim's {', '.join(UNITS)}, received {holds}")
    return found[0]


def require_same(
    expected: dict[str, tuple[int, ...]], there: dict[str, list[int]], network: str, source: str
) -> list[str]:
    """Raises Refused for the first variable that differs; the result names what is passed over."""
    for name, shape in expected.items():
        if name not in there:
            raise Refused(f"{source}: is not TF-Slim's {network}: the variable {name} is missing")
        if tuple(there[name]) != shape:
            raise Refused(
                f"{source}: is not TF-Slim's {network}: {name} needs the shape {list(shape)}, received "
                f"{list(there[name])}"
            )
    others = sorted(there.keys() - expected.keys())
    for name in others:
        slot = name.rpartition("/")[0] in expected  # resnet_v1_50/conv1/weights/Momentum
        if name.startswith(f"{network}/") and not slot and name != f"{network}/mean_rgb":
            raise Refused(f"{source}: is not TF-Slim's {network}, which has no variable {name}")
    return others


def as_torch(name: str, values: np.ndarray, source: str) -> np.ndarray:
    """float32, kernels as (out, in, height, width). Raises Refused for values that are no numbers."""
    if values.dtype.kind not in "fV":  # V: bfloat16
        raise Refused(f"{source}: {name} needs floating-point values, received {values.dtype}")
    import numpy as np  # which --check does without

    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise Refused(
            f"{source}: {name} has {np.count_nonzero(~np.isfinite(values))} values that are not finite", FAILED
        )
    return np.ascontiguousarray(values.transpose(3, 2, 0, 1)) if values.ndim == 4 else values


def converted(reader: Reader, source: str) -> tuple[str, dict[str, np.ndarray], list[str]]:
    """The network's name, its tensors, and the variables that were passed over."""
    import numpy as np

    there = reader.get_variable_to_shape_map()
    network = network_of(there, source)
    logits = there.get(f"{network}/logits/weights", [0])
    expected = variables(network, logits[-1] if logits else 0)
    others = require_same(expected, there, network, source)
    tensors = {our_name(name): as_torch(name, reader.get_tensor(name), source) for name in expected}
    for scope, _ in kernels(network):
        counter = our_name(f"{network}/{scope}/BatchNorm/gamma").replace(".weight", ".num_batches_tracked")
        tensors[counter] = np.zeros((), np.int64)  # TF-Slim counts no batches
    return network, tensors, others


def prefix_of(path: Path) -> str:
    """A checkpoint's prefix: the one file of version 1, or what .index and .data-* of version 2 begin with."""
    if path.suffix in ENDINGS or ".data-" in path.suffix:
        path = path.with_suffix("")
    index = path.with_name(f"{path.name}.index")
    if not index.is_file():
        if not path.is_file():
            raise Refused(
                f"{path}: the checkpoint does not exist, neither as one file nor as {path.name}.index and "
                f"{path.name}.data-*"
            )
        return str(path)
    if not any(path.parent.glob(f"{path.name}.data-?????-of-?????")):
        raise Refused(f"{path}: {index.name} exists, but {path.name}.data-* does not", FAILED)
    return str(path)


def write(tensors: dict[str, np.ndarray], metadata: dict[str, str], output: Path) -> None:
    """Whole or not at all."""
    from safetensors.numpy import save

    with tempfile.NamedTemporaryFile(dir=output.parent, prefix=".dimred-", delete=False) as file:
        try:
            file.write(save(tensors, metadata))
            file.flush()
            os.fsync(file.fileno())
            os.umask(mask := os.umask(0))
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, output)
        except BaseException:
            os.unlink(file.name)
            raise


def checked(checkpoint: Path, output: Path) -> str:
    """The checkpoint's prefix. Raises Refused for what can be refused before TensorFlow is there."""
    if output.suffix != ".safetensors" or not output.parent.is_dir():
        raise Refused(f"{output}: needs a name that ends in .safetensors, in a folder that exists")
    if output.exists():
        raise Refused(f"{output} exists already")
    return prefix_of(checkpoint)


def convert(checkpoint: Path, output: Path) -> str:
    """What was written, in lines."""
    prefix = checked(checkpoint, output)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it has much to say about processors
    import tensorflow as tf

    try:
        network, tensors, others = converted(tf.train.load_checkpoint(prefix), prefix)
    except Refused:
        raise
    except Exception as error:  # the reader makes a Python exception of each kind of TensorFlow's
        raise Refused(f"{prefix}: TensorFlow cannot read the file: {str(error).splitlines()[0]}", FAILED) from error
    classes = len(tensors["logits.bias"])
    write(tensors, {"format": "pt", "network": f"slim:{network}", "preprocessing_name": "vgg"}, output)
    parameters = sum(values.size for name, values in tensors.items() if name.endswith(("weight", "bias")))
    passed = f", {', '.join(others[:3])}{', ...' if len(others) > 3 else ''}" if others else ""
    return (
        f"{output}: {parameters} parameters, {classes} classes; skipped: {len(others)} variables{passed}\n"
        f"dimred model slim:{network} --num_classes N\n"
        f"dimred stage1 --model {network}.pt --initialize_from {output} --checkpoint_exclude_patterns '^logits' "
        "--preprocessing_name vgg"
    )


def main(arguments: list[str]) -> int:
    """The exit code."""
    try:
        words = [Path(word) for word in arguments if word != "--check"]
        if len(words) != 2:
            raise Refused(f"needs CKPT OUT.safetensors, received {len(words)} words")
        if "--check" in arguments:
            checked(*words)
        else:
            print(convert(*words))
    except (Refused, OSError) as error:
        print(f"slim_checkpoint: {error}", file=sys.stderr)
        return error.code if isinstance(error, Refused) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
