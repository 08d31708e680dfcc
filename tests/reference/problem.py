"""Small stage-2 problems for the replay tests, in memory and as folders for stage2_replay."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import mlp
from .mlp import Array, Shape
from .stage2_reference import Constants, Minibatch, Step, replay


@dataclass(frozen=True)
class Problem:
    """weights [M], basis [k, M], images [steps * batch, d]; all exact in float32."""

    shape: Shape
    batch: int
    steps: int
    constants: Constants
    weights: Array
    basis: Array
    images: Array
    labels: NDArray[np.int64]


def through_float32(values: Array) -> Array:
    """The float64 of what a float32 file holds, so that both sides start from the same numbers."""
    return values.astype(np.float32).astype(np.float64)


def random_basis(generator: np.random.Generator, weights: Array, k: int) -> Array:
    """P [k, M] from the SVD of a random walk of 2 k snapshots that ends at the weights."""
    walk = generator.normal(size=(2 * k, len(weights))).cumsum(axis=0)
    snapshots = weights + 0.1 * (walk - walk[-1])
    return np.linalg.svd(snapshots - snapshots.mean(axis=0), full_matrices=False)[2][:k]


SMALL = Shape(d=6, h=8, C=3)


def make_problem(
    seed: int, constants: Constants, batch: int, scale: float = 1.0, shape: Shape = SMALL, k: int = 5
) -> Problem:
    """C noisy clusters, 20 steps. `scale`: standard deviation of the starting weights."""
    generator = np.random.default_rng(seed)
    steps = 20
    labels = generator.integers(shape.C, size=steps * batch)
    centres = generator.normal(size=(shape.C, shape.d))
    images = centres[labels] + generator.normal(size=(steps * batch, shape.d))
    weights = through_float32(scale * generator.normal(size=shape.size))
    basis = through_float32(random_basis(generator, weights, k))
    images = through_float32(images)
    return Problem(shape, batch, steps, constants, weights, basis, images, labels)


def minibatch(images: Array, labels: NDArray[np.int64], shape: Shape) -> Minibatch:
    """Its loss and gradient as functions of the weights."""
    return Minibatch(
        loss=lambda w: mlp.loss(w, images, labels, shape),
        loss_and_gradient=lambda w: mlp.loss_and_gradient(w, images, labels, shape),
    )


def minibatches(problem: Problem) -> list[Minibatch]:
    """Step i sees rows i * batch to (i + 1) * batch."""
    batches = []
    for i in range(problem.steps):
        rows = slice(i * problem.batch, (i + 1) * problem.batch)
        batches.append(minibatch(problem.images[rows], problem.labels[rows], problem.shape))
    return batches


def reference(problem: Problem, preset: str) -> tuple[Array, list[Step]]:
    """The reference's weights after each step [steps, M] and its steps."""
    return replay(preset, problem.weights, problem.basis, minibatches(problem), problem.constants)


def write_folder(problem: Problem, folder: Path) -> None:
    """problem.json, weights.npy [M], basis.npy [k, M], images.npy [n, d], labels.npy [n]."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = asdict(problem.shape) | asdict(problem.constants)
    numbers |= {"k": len(problem.basis), "batch": problem.batch, "steps": problem.steps}
    (folder / "problem.json").write_text(json.dumps(numbers, indent=1) + "\n")
    for name in ("weights", "basis", "images", "labels"):
        np.save(folder / f"{name}.npy", getattr(problem, name).astype(np.float32))
