"""Trains the ConvNet for one epoch in plain PyTorch and prints one line of JSON.

    python experiments/benchmarks/epoch_peer_loops.py resident|loader0|loader2 --data DIR ...

`resident`: normalised tensors in memory, a permutation, index_select for each batch.
`loaderN`: torch.utils.data.DataLoader with N workers over a Dataset that normalises each sample.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
from dimred_twins import build

Batch = tuple[torch.Tensor, torch.Tensor]


def read_idx(folder: Path, name: str) -> np.ndarray:
    """An IDX file of unsigned bytes, plain or .gz, in its own shape."""
    plain = folder / name
    data = plain.read_bytes() if plain.is_file() else gzip.decompress(plain.with_name(name + ".gz").read_bytes())
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


class Samples(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Bytes to a normalised [1, 28, 28] float32 tensor, one sample at a time."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, mean: float, deviation: float) -> None:
        self.images, self.labels = torch.tensor(images), torch.tensor(labels, dtype=torch.int64)
        self.mean, self.deviation = mean, deviation

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Batch:
        image = self.images[index].unsqueeze(0).float() / 255
        return (image - self.mean) / self.deviation, self.labels[index]


class Resident:
    """Batches of tensors that were normalised once, in a new permutation each time."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        images = (samples.images.unsqueeze(1).float() / 255 - samples.mean) / samples.deviation
        self.images, self.labels, self.batch_size = images, samples.labels, batch_size

    def __iter__(self) -> Iterator[Batch]:
        for rows in torch.randperm(len(self.labels)).split(self.batch_size):
            yield self.images[rows], self.labels[rows]


def timed(batches: Iterable[Batch], waits: list[float]) -> Iterator[Batch]:
    """Passes batches on and notes how long each was waited for."""
    iterator = iter(batches)
    while True:
        start = time.perf_counter()
        batch = next(iterator, None)
        waits.append(time.perf_counter() - start)
        if batch is None:
            return
        yield batch


def train_epoch(model: torch.nn.Module, optimiser: torch.optim.Optimizer, batches: Iterable[Batch]) -> dict[str, float]:
    """Wall-clock of one epoch; `compute_seconds` is without the waits for data."""
    model.train()
    waits: list[float] = []
    start = time.perf_counter()
    for images, labels in timed(batches, waits):
        optimiser.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "compute_seconds": seconds - sum(waits)}


@torch.no_grad()
def accuracy(model: torch.nn.Module, batches: Iterable[Batch]) -> float:
    """Part of the samples classified right."""
    model.eval()
    correct = [(model(images).argmax(1) == labels) for images, labels in batches]
    return torch.cat(correct).float().mean().item()


def make_batches(kind: str, samples: Samples, batch_size: int) -> Iterable[Batch]:
    """resident, loader0 or loader2."""
    if kind == "resident":
        return Resident(samples, batch_size)
    workers = int(kind.removeprefix("loader"))
    return DataLoader(samples, batch_size, shuffle=True, num_workers=workers)


def main() -> None:
    """Trains one epoch and prints seconds, compute_seconds and test accuracy as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["resident", "loader0", "loader2"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train_samples", type=int, default=0, help="use only the first N training samples; 0: all")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    images, labels = (read_idx(options.data, f"train-{part}") for part in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    mean, deviation = float(images.mean()) / 255, float(images.std()) / 255
    kept = options.train_samples or len(labels)
    train = Samples(images[:kept], labels[:kept], mean, deviation)
    shown, classes = (read_idx(options.data, f"t10k-{part}") for part in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    test = Samples(shown, classes, mean, deviation)
    model = build("convnet", 1, images.shape[1], images.shape[2], 10)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as ours
    optimiser = torch.optim.SGD(model.parameters(), options.learning_rate, options.momentum)
    result = train_epoch(model, optimiser, make_batches(options.kind, train, options.batch_size))
    print(json.dumps(result | {"accuracy": accuracy(model, Resident(test, 1000))}))


if __name__ == "__main__":
    main()
