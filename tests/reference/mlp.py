"""A small network in float64 NumPy: d -> h tanh -> C, softmax cross-entropy, mean over the batch.

Its flat parameters [M] are weight1 [h, d], bias1 [h], weight2 [C, h], bias2 [C], in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Inputs, hidden units and classes."""

    d: int
    h: int
    C: int

    @property
    def size(self) -> int:
        """M."""
        return self.h * self.d + self.h + self.C * self.h + self.C


def unflatten(weights: Array, shape: Shape) -> tuple[Array, Array, Array, Array]:
    """weights [M] -> weight1 [h, d], bias1 [h], weight2 [C, h], bias2 [C]."""
    d, h, classes = shape.d, shape.h, shape.C
    ends = np.cumsum([h * d, h, classes * h])
    weight1, bias1, weight2, bias2 = np.split(weights, ends)
    return weight1.reshape(h, d), bias1, weight2.reshape(classes, h), bias2


def loss(weights: Array, images: Array, labels: NDArray[np.int64], shape: Shape) -> float:
    """Mean cross-entropy of images [B, d] with labels [B]."""
    return forward(weights, images, labels, shape)[0]


def forward(weights: Array, images: Array, labels: NDArray[np.int64], shape: Shape) -> tuple[float, Array, Array]:
    """(mean cross-entropy, hidden [B, h], probabilities [B, C])."""
    weight1, bias1, weight2, bias2 = unflatten(weights, shape)
    hidden = np.tanh(images @ weight1.T + bias1)
    logits = hidden @ weight2.T + bias2
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    return float(-log_probabilities[rows, labels].mean()), hidden, np.exp(log_probabilities)


def loss_and_gradient(weights: Array, images: Array, labels: NDArray[np.int64], shape: Shape) -> tuple[float, Array]:
    """(mean cross-entropy, its gradient [M])."""
    weight2 = unflatten(weights, shape)[2]
    value, hidden, probabilities = forward(weights, images, labels, shape)
    d_logits = probabilities.copy()
    d_logits[np.arange(len(labels)), labels] -= 1
    d_logits /= len(labels)
    d_hidden = (d_logits @ weight2) * (1 - hidden**2)
    parts = [d_hidden.T @ images, d_hidden.sum(0), d_logits.T @ hidden, d_logits.sum(0)]
    return value, np.concatenate([part.ravel() for part in parts])
