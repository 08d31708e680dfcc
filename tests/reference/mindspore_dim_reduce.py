"""The steps of MindSpore's own boost.DimReduce on problems of problem.py, one rank, PyNative mode.

    .venv-mindspore/bin/python tests/reference/mindspore_dim_reduce.py FOLDER...

reads what stage2_replay reads (write_folder) and writes mindspore.npy beside it, the float32 weights after each step
[steps, M]. Run by test_mindspore.py in the environment of scripts/mindspore.sh, so it imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.boost.dim_reduce import DimReduce


class Loss(nn.Cell):  # type: ignore[misc]
    """Mean cross-entropy of d -> h tanh -> C, whose flat parameters are in the order of mlp.py."""

    def __init__(self, numbers: dict[str, Any], weights: np.ndarray) -> None:
        super().__init__()
        d, h, classes = numbers["d"], numbers["h"], numbers["C"]
        shapes = [(h, d), (h,), (classes, h), (classes,)]
        parts = np.split(weights, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
        arrays = [ms.Tensor(part.reshape(shape)) for part, shape in zip(parts, shapes, strict=True)]
        self.hidden = nn.Dense(d, h, weight_init=arrays[0], bias_init=arrays[1])
        self.output = nn.Dense(h, classes, weight_init=arrays[2], bias_init=arrays[3])
        self.cross_entropy = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        # Its float32 tanh is off by 1e-4 on processors, its float64 one by nothing that float32 holds.
        hidden = ops.tanh(self.hidden(images).astype(ms.float64)).astype(ms.float32)
        return self.cross_entropy(self.output(hidden), labels)


def flat(weights: ms.ParameterTuple) -> np.ndarray:
    """[M]."""
    return np.concatenate([weight.asnumpy().ravel() for weight in weights])


def trace(folder: Path) -> np.ndarray:
    """[steps, M]."""
    numbers = json.loads((folder / "problem.json").read_text())
    weights, basis, images, labels = (
        np.load(folder / f"{name}.npy") for name in ("weights", "basis", "images", "labels")
    )
    network = Loss(numbers, weights)
    parameters = ms.ParameterTuple(network.trainable_params())
    clone = parameters.clone(prefix="clone", init="same")
    constants = {name: numbers[name] for name in ("rho", "gamma", "alpha", "sigma")}
    # Its optimizer is BoostTrainOneStepCell's.
    step = DimReduce(
        network, nn.SGD(parameters, learning_rate=1), parameters, basis, len(basis), **constants, rank=0, rank_size=1
    )
    loss_and_gradient = ms.value_and_grad(network, None, parameters)
    rows = []
    for i in range(numbers["steps"]):
        part = slice(i * numbers["batch"], (i + 1) * numbers["batch"])
        batch = ms.Tensor(images[part]), ms.Tensor(labels[part].astype(np.int32))
        loss, gradient = loss_and_gradient(*batch)
        step(loss, gradient, ops.ones_like(loss), parameters, clone, *batch)
        rows.append(flat(parameters))
    return np.array(rows)


def main() -> None:
    """All folders in one process, which takes seconds to start."""
    ms.set_context(mode=ms.PYNATIVE_MODE, runtime_num_threads=1)
    for folder in map(Path, sys.argv[1:]):
        np.save(folder / "mindspore.npy", trace(folder))


if __name__ == "__main__":
    main()
