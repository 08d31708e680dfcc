"""What MindSpore does in mindspore_peer.py, one task a process, in the environment of scripts/mindspore.sh; it imports
nothing of ours.

    .venv-mindspore/bin/python experiments/benchmarks/mindspore_side.py pca|epoch|step|recipe '{"source": "W.npy", ...}'

Prints one line of JSON. Seconds are wall-clock, `processor` those of all threads; imports are left out, and so are the
first two steps, in which graphs are compiled. MindSpore runs at its best here: in graph mode (PyNative is 4 to 8 times
slower), with as many threads as cores (by default it starts 30), on batches that are indexed from resident arrays.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.boost.base import _compute_pca_mat, _load_weights
from mindspore.boost.dim_reduce import DimReduce

WARM_UP = 2  # steps
PUBLISHED = {"rho": 0.55, "gamma": 0.9, "alpha": 0.001, "sigma": 0.4}
Request = dict[str, Any]


class Clock:
    """Seconds and processor time since it was made."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.wall, "processor": time.process_time() - self.processor}


class ConvNet(nn.Cell):  # type: ignore[misc]
    """models/convnet.cpp."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv2d(inputs, outputs, 3, pad_mode="valid", has_bias=True)
            for inputs, outputs in ((1, 32), (32, 64), (64, 64))
        )
        self.fc1, self.fc2 = nn.Dense(576, 64), nn.Dense(64, 10)
        self.relu, self.pool, self.flatten = nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        x = self.pool(self.relu(self.conv1(images)))
        x = self.relu(self.conv3(self.pool(self.relu(self.conv2(x)))))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


class BoostStep(nn.Cell):  # type: ignore[misc]
    """BoostTrainOneStepCell's step with DimReduce; that class asks for initialised communication, which processors lack
    here."""

    def __init__(self, loss: nn.Cell, parameters: ms.ParameterTuple, basis: np.ndarray) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.weights = loss, parameters
        self.weights_clone = parameters.clone(prefix="weights_clone", init="same")
        self.grad = ops.GradOperation(get_by_list=True)
        optimizer = nn.SGD(parameters, learning_rate=1)
        self.dim_reduce = DimReduce(loss, optimizer, parameters, basis, len(basis), **PUBLISHED, rank=0, rank_size=1)

    def construct(self, images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        loss = self.network(images, labels)
        gradient = self.grad(self.network, self.weights)(images, labels)
        step = self.dim_reduce(loss, gradient, ops.ones_like(loss), self.weights, self.weights_clone, images, labels)
        return ops.depend(loss, step)


class Samples:
    """Images [n, 1, 28, 28], normalised by the training set's mean and deviation, and labels [n], of an npy data
    set."""

    def __init__(self, folder: Path, split: str) -> None:
        scale = np.load(folder / "train" / "images.npy").astype(np.float32) / 255
        images = np.load(folder / split / "images.npy").astype(np.float32) / 255
        self.images = ((images - scale.mean()) / scale.std())[:, None]
        self.labels = np.load(folder / split / "labels.npy").astype(np.int32)

    def batches(self, size: int, order: np.ndarray | None = None) -> Iterator[tuple[ms.Tensor, ms.Tensor]]:
        """Whole batches alone, as another shape would be another graph."""
        rows = np.arange(len(self.labels)) if order is None else order
        for begin in range(0, len(rows) - size + 1, size):
            part = rows[begin : begin + size]
            yield ms.Tensor(self.images[part]), ms.Tensor(self.labels[part])


class Training:
    """The network, and what changes it."""

    def __init__(self, request: Request) -> None:
        folder = Path(request["data"])
        self.train, self.test = Samples(folder, "train"), Samples(folder, "test")
        self.batch_size = int(request["batch_size"])
        self.generator = np.random.default_rng(request["seed"])
        self.network = ConvNet()
        self.loss = nn.WithLossCell(self.network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        self.parameters = ms.ParameterTuple(self.network.trainable_params())
        if request.get("weights"):
            self.load(np.load(request["weights"]))

    def load(self, weights: np.ndarray) -> None:
        """Flat, in our order of parameters, which is this network's too."""
        begin = 0
        for parameter in self.parameters:
            parameter.set_data(ms.Tensor(weights[begin : begin + parameter.size].reshape(parameter.shape)))
            begin += parameter.size
        if begin != len(weights):
            raise SystemExit(f"the network has {begin} parameters, but the file has {len(weights)}")

    def sgd_step(self, rates: list[float]) -> nn.Cell:
        """Momentum as the published recipe has it: weight decay of weights alone; a rate for each step."""
        biases = [parameter for parameter in self.parameters if parameter.name.endswith("bias")]
        weights = [parameter for parameter in self.parameters if not parameter.name.endswith("bias")]
        groups = [{"params": weights, "weight_decay": 1e-4}, {"params": biases, "weight_decay": 0.0}]
        step = nn.TrainOneStepCell(self.loss, nn.Momentum(groups, rates, 0.9))
        step.set_train()
        return step

    def shuffled(self) -> Iterator[tuple[ms.Tensor, ms.Tensor]]:
        return self.train.batches(self.batch_size, self.generator.permutation(len(self.train.labels)))

    def endless(self) -> Iterator[tuple[ms.Tensor, ms.Tensor]]:
        while True:
            yield from self.shuffled()

    def accuracy(self) -> float:
        """The accuracy on whole batches of 500 of the test set."""
        size = min(500, len(self.test.labels))
        right = [
            (self.network(images).asnumpy().argmax(1) == labels.asnumpy()) for images, labels in self.test.batches(size)
        ]
        return float(np.concatenate(right).mean())

    def timed(self, step: nn.Cell, count: int) -> dict[str, float]:
        """The mean cost of one of `count` steps."""
        batches = self.endless()
        for _ in range(WARM_UP):
            step(*next(batches)).asnumpy()
        clock = Clock()
        for _ in range(count):
            loss = step(*next(batches))
        loss.asnumpy()
        return {name: value / count for name, value in clock.read().items()}


def pca(request: Request) -> dict[str, Any]:
    """Its PCA of an n x M .npy, from loading the file to saving P."""
    clock = Clock()
    basis = _compute_pca_mat(np.load(request["source"]), request["components"], randomized=not request["full"])
    np.save(request["output"], basis)
    return clock.read()


def epoch(request: Request) -> dict[str, Any]:
    """A step of stage 1."""
    training = Training(request)
    return training.timed(training.sgd_step([0.05] * (WARM_UP + request["steps"])), request["steps"])


def boost_step(request: Request) -> dict[str, Any]:
    """A step of stage 2, and the accuracy of the weights that it starts from."""
    training = Training(request)
    accuracy = training.accuracy()
    step = BoostStep(training.loss, training.parameters, np.ascontiguousarray(np.load(request["basis"]), np.float32))
    return training.timed(step, request["steps"]) | {"accuracy": accuracy}


def recipe(request: Request) -> dict[str, Any]:
    """Stage 1 with snapshots as checkpoint files, the PCA of their folder, and stage 2."""
    clock = Clock()
    training, folder = Training(request), Path(request["output"])
    steps = len(training.train.labels) // training.batch_size
    whole = request["total_epochs"] * steps
    step = training.sgd_step([request["learning_rate"] * (1 - i / whole) for i in range(request["epochs"] * steps)])
    result: dict[str, Any] = {"start": training.accuracy()}
    each = steps // request["snapshots_per_epoch"]
    for i in range(request["epochs"]):
        for j, batch in enumerate(training.shuffled()):
            step(*batch)
            if (j + 1) % each == 0:
                ms.save_checkpoint(training.network, str(folder / f"{i:03}_{j:04}.ckpt"))
    result |= {"stage1": training.accuracy(), "stage1_seconds": clock.read()["seconds"]}
    basis = np.ascontiguousarray(
        _compute_pca_mat(_load_weights(str(folder), training.network), request["components"]), np.float32
    )
    result["pca_seconds"] = clock.read()["seconds"] - result["stage1_seconds"]
    boost = BoostStep(training.loss, training.parameters, basis)
    for _ in range(request["boost_epochs"]):
        for batch in training.shuffled():
            boost(*batch)
    result["stage2"] = training.accuracy()
    return result | clock.read()


TASKS = {"pca": pca, "epoch": epoch, "step": boost_step, "recipe": recipe}


def main() -> None:
    """One task."""
    task, request = sys.argv[1], json.loads(sys.argv[2])
    ms.set_context(mode=ms.GRAPH_MODE, runtime_num_threads=request["threads"])
    ms.set_seed(request["seed"])
    print(json.dumps(TASKS[task](request)))


if __name__ == "__main__":
    main()
