"""Computes the table of docs/explanation/trajectories.md: how often dimred.trajectory finds the drift of a tensor.

    .venv/bin/python experiments/trajectory_power.py

Each tensor is a walk of independent normal steps in 20 dimensions with a constant drift that gives the expected
straightness S. n: number of snapshots; T: number of tensors that are tested together. Each cell is the percentage of
tensors with the verdict `drift`, among at least --tensors; `few`: with n and T, the test cannot reject.
Cost: two minutes on one core.
"""

from __future__ import annotations

import argparse

import numpy as np
from workbench.text_table import text_table

import dimred

DIMENSIONS = 20
SNAPSHOTS, TENSORS, STRAIGHTNESS = (8, 11, 14, 20, 40), (1, 25, 161), (2.0, 4.0, 6.5)


def drifting(
    random: np.random.Generator, snapshots: int, tensors: int, straightness: float
) -> list[dict[str, np.ndarray]]:
    """Snapshots of named tensors. N steps with r times the noise's energy in drift have S = (N r + 1) / (r + 1)."""
    steps = snapshots - 1
    ratio = (straightness - 1) / (steps - straightness)
    moves = random.standard_normal((steps, tensors, DIMENSIONS))
    directions = random.standard_normal((tensors, DIMENSIONS))
    directions *= np.sqrt(DIMENSIONS) / np.linalg.norm(directions, axis=1, keepdims=True)
    places = np.cumsum(moves + np.sqrt(ratio) * directions, axis=0)
    rows = np.concatenate([np.zeros_like(places[:1]), places]).astype(np.float32)
    return [{f"tensor{i:03}": row[i] for i in range(tensors)} for row in rows]


def found(random: np.random.Generator, snapshots: int, tensors: int, straightness: float, least: int) -> str:
    """The part that is called drift; few: no test of that many snapshots and tensors can do so."""
    verdicts: list[str] = []
    while len(verdicts) < least:
        report = dimred.trajectory(drifting(random, snapshots, tensors, straightness), seed=len(verdicts))
        if report.limits:
            return "few"
        verdicts += [one.verdict for one in report.tensors.values()]
    return f"{100 * verdicts.count('drift') / len(verdicts):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=200, help="smallest number of tensors in each cell")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    header = ["n", *(f"T = {tensors}, S = {s:g}" for tensors in TENSORS for s in STRAIGHTNESS)]
    rows = [
        [
            str(n),
            *(
                found(random, n, tensors, s, options.tensors) if s < n - 1 else "-"
                for tensors in TENSORS
                for s in STRAIGHTNESS
            ),
        ]
        for n in SNAPSHOTS
    ]
    print(text_table(header, rows))


if __name__ == "__main__":
    main()
