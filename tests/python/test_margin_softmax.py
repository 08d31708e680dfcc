"""The class-sharded margin softmax on real ranks against PyTorch's autograd of the published formulas."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cli import cli, completed
from conftest import REPOSITORY
from ranks import run_ranks

SAMPLES, CLASSES, EMBEDDING = 10, 23, 8


@pytest.fixture(scope="module")
def problem(tmp_path_factory) -> tuple[Path, dict]:
    """Features, labels and weights, and the file that holds them."""
    generator = np.random.default_rng(5)
    values = {
        "features": generator.normal(size=(SAMPLES, EMBEDDING)).tolist(),
        "labels": generator.integers(0, CLASSES, SAMPLES).tolist(),
        "weights": generator.normal(size=(CLASSES, EMBEDDING)).tolist(),
    }
    values["features"][0] = [-3 * w for w in values["weights"][values["labels"][0]]]  # an angle of pi
    values["features"][1] = (2 * np.array(values["weights"][values["labels"][1]]) + 0.01).tolist()
    path = tmp_path_factory.mktemp("head") / "problem.json"
    path.write_text(json.dumps(values))
    return path, values


def insightface(cosine: torch.Tensor, m: float) -> torch.Tensor:
    """recognition/arcface_torch/losses.py, ArcFace with easy_margin off, in its own words."""
    sine = torch.sqrt(1.0 - cosine**2)
    moved = cosine * math.cos(m) - sine * math.sin(m)
    return torch.where(cosine > math.cos(math.pi - m), moved, cosine - math.sin(math.pi - m) * m)


def plsc(cosine: torch.Tensor, m1: float, m2: float, m3: float) -> torch.Tensor:
    """plsc/models/dist_algo.py, v0.2."""
    return torch.cos(m1 * torch.acos(cosine) + m2) - m3


KINDS = {
    ("--margin_loss=softmax",): None,
    ("--margin_loss=arcface",): lambda c: insightface(c, 0.5),
    ("--margin_loss=arcface", "--margin_m2=1.7", "--margin_scale=20"): lambda c: insightface(c, 1.7),
    ("--margin_loss=arcface", "--margin_beyond_pi=cosine"): lambda c: plsc(c, 1, 0.5, 0),
    ("--margin_loss=cosface", "--margin_scale=30"): lambda c: c - 0.35,
    (
        "--margin_loss=combined",
        "--margin_m1=1.35",
        "--margin_m2=0.3",
        "--margin_m3=0.2",
        "--margin_scale=16",
    ): lambda c: plsc(c, 1.35, 0.3, 0.2),
}


def scale_of(options: tuple[str, ...]) -> float:
    """s, as the options give it."""
    given = [float(text.split("=")[1]) for text in options if text.startswith("--margin_scale=")]
    return given[0] if given else 64.0


def expected(values: dict, options: tuple[str, ...], classes: list[int]) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Loss and gradients over these classes; the sample whose angle is exactly pi apart, where autograd has none."""
    target = KINDS[options]
    x = torch.tensor(values["features"], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(values["weights"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([classes.index(label) for label in values["labels"]])
    used = w[classes]
    if target is None:
        logits = x @ used.T
    else:
        cosine = (F.normalize(x) @ F.normalize(used).T).clamp(-1, 1)
        with_margin = target(cosine.gather(1, labels[:, None]))
        logits = scale_of(options) * cosine.scatter(1, labels[:, None], with_margin)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    assert x.grad is not None and w.grad is not None
    return loss.item(), x.grad, w.grad[classes]


@pytest.mark.parametrize(
    ("options", "ranks"),
    [*((options, 2) for options in KINDS), (list(KINDS)[1], 1), (list(KINDS)[1], 3)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else f"{value} ranks",
)
def test_equals_autograd(binaries: Path, problem: tuple[Path, dict], options: tuple[str, ...], ranks: int) -> None:
    path, values = problem
    sampling = ["--class_sampling_ratio=0.4", "--seed=3", "--step=8"] if ranks == 3 else []
    done = run_ranks(binaries / "head_tool", [path, *options, *sampling], ranks)
    assert done.codes == [0] * ranks, done.errors
    parts = [json.loads(text) for text in done.output]
    classes = [c for part in parts for c in part["classes"]]
    if sampling:
        assert set(values["labels"]) <= set(classes) and len(classes) < CLASSES
    else:
        assert classes == list(range(CLASSES))
    x = np.concatenate([part["feature_gradient"] for part in parts]).reshape(SAMPLES, EMBEDDING)
    w = np.concatenate([part["weight_gradient"] for part in parts]).reshape(-1, EMBEDDING)
    assert np.isfinite(x).all() and np.isfinite(w).all()
    loss, dx, dw = expected(values, options, classes)
    for part in parts:
        assert part["loss"] == pytest.approx(loss, rel=1e-10)
    # At an angle of pi a cosine has no direction to change in: autograd divides by zero or by what
    # rounding left of it, so that sample's gradient, and its class's, are compared elsewhere.
    smooth = np.arange(SAMPLES) > 0 if KINDS[options] is not None else np.full(SAMPLES, True)
    others = np.array([c != values["labels"][0] for c in classes]) if KINDS[options] is not None else ...
    np.testing.assert_allclose(x[smooth], dx.numpy()[smooth], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(w[others], dw.numpy()[others], rtol=1e-7, atol=1e-10)


def test_a_ranks_memory_is_its_share(binaries: Path, tmp_path: Path) -> None:
    """On 4 ranks at most 1/4 + 10 % of what one rank needs for the same classes and samples; sent as predicted."""
    command = cli(
        sys.executable,
        REPOSITORY / "experiments" / "benchmarks" / "class_sharded.py",
        binaries / "class_sharded",
        "--classes=50000 --global_batch_size=64 --ranks 1 4 --steps=1",
        json=tmp_path / "out.json",
    )
    done = completed(command)
    assert done.returncode == 0, done.stdout + done.stderr
    one, four = json.loads((tmp_path / "out.json").read_text())
    peaks = [max(part["peak_bytes"] for part in result["measured"]) for result in (one, four)]
    assert peaks[1] <= 1.1 / 4 * peaks[0]
    assert [peak / result["predicted_bytes"] for peak, result in zip(peaks, (one, four), strict=True)] == pytest.approx(
        [1, 1], abs=0.2
    )
    assert {part["sent"] for part in four["measured"]} == {four["predicted_sent"]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--margin_loss=cosface", "--margin_m2=0.3"],
            "margin_m2 has no effect: it needs margin_loss = arcface or combined",
        ),
        (["--margin_m2=3.2"], "--margin_m2: needs a number in [0, 3.14"),
        ([], "needs at least one class for each rank, received 2 classes and 3 ranks"),
    ],
)
def test_refuses_on_every_rank(binaries: Path, tmp_path: Path, options: list[str], text: str) -> None:
    file = tmp_path / "two_classes.json"
    file.write_text(json.dumps({"features": [[1, 2]] * 3, "labels": [0, 1, 0], "weights": [[1, 0], [0, 1]]}))
    done = run_ranks(binaries / "head_tool", [file, *options], 3)
    assert done.codes == [1] * 3
    for errors in done.errors:
        assert text in errors and len(errors.splitlines()) == 1, errors
