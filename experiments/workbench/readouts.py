"""One set of weights out of several snapshots by more than their mean, and the scores of weights on chosen images of an IDX data set."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from dimred.runs import BadRun, read_weights
from dimred.runs.snapshots import snapshot_files
from dimred_twins import build
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.func import functional_call, jvp
from torch.nn import functional
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # of Debian's dataset-fashion-mnist
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """images [n, 1, height, width] float32, as the network sees them; labels [n] int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, chosen: slice) -> Samples:
        """Of these samples."""
        return Samples(self.images[chosen], self.labels[chosen])


def read_idx(file: Path) -> NDArray[np.uint8]:
    """The bytes of an IDX file, plain or packed as .gz, in their shape."""
    whole = file.read_bytes() if file.is_file() else gzip.decompress(Path(f"{file}.gz").read_bytes())
    shape = np.frombuffer(whole, ">i4", whole[3], 4)
    return np.frombuffer(whole, np.uint8, offset=4 + 4 * whole[3]).reshape(shape)


def write_idx(folder: Path, part: str, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> None:
    """The images [n, height, width] and labels of part "train" or "t10k"."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in (("images-idx3", pixels), ("labels-idx1", labels)):
        head = np.array([2048 + values.ndim, *values.shape], ">i4").tobytes()  # 0x08: unsigned bytes
        (folder / f"{part}-{name}-ubyte").write_bytes(head + values.tobytes())


def read_samples(folder: Path, part: str, run: Path, indices: NDArray[np.int64] | None = None) -> Samples:
    """Samples of part "train" or "t10k", all or these, with the mean and deviation that the run trained with."""
    manifest = json.loads((run / "manifest.json").read_text())
    pixels, labels = (read_idx(folder / f"{part}-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    chosen = np.arange(len(labels)) if indices is None else indices
    scaled = (pixels[chosen] / 255 - manifest["mean"][0]) / manifest["deviation"][0]
    return Samples(torch.from_numpy(scaled.astype(np.float32))[:, None], torch.from_numpy(labels[chosen].astype(np.int64)))


def held_out_indices(size: int, trained: int, count: int) -> NDArray[np.int64]:
    """So many, evenly spread over those of `size` samples that --train_samples=trained leaves out. Raises BadRun."""
    rest = np.delete(np.arange(size), np.arange(trained) * size // trained)
    if not 0 < count <= len(rest):
        raise BadRun(f"held_out needs 1 to {len(rest)} of the samples that train_samples leaves out, received {count}")
    return rest[np.arange(count) * len(rest) // count]


def read_held_out(folder: Path, run: Path, trained: int, count: int) -> Samples:
    """So many of the training file's samples that a run with --train_samples=trained has not seen. Raises BadRun."""
    size = len(read_idx(folder / "train-labels-idx1-ubyte"))
    return read_samples(folder, "train", run, held_out_indices(size, trained, count))


class Judge:
    """Scores flat weights of a network, without BatchNorm: no readout here recalibrates. Raises ValueError for one with it."""

    def __init__(self, model: str, samples: Samples, classes: int = 10) -> None:
        channels, height, width = samples.images.shape[1:]
        self.network = build(model, channels, height, width, classes).eval()
        if list(self.network.buffers()):
            raise ValueError(f"needs a network without BatchNorm, received {model}")
        self._shapes = {name: p.shape for name, p in self.network.named_parameters()}

    def logits(self, w: Tensor, images: Tensor) -> Tensor:
        """[n, classes], differentiable in w [M]."""
        parts = torch.split(w, [shape.numel() for shape in self._shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
        return functional_call(self.network, named, images)  # type: ignore[no-any-return]

    def blocks(self) -> list[slice]:
        """Of the flat weights, one for each layer with parameters."""
        ends: dict[str, int] = {}
        at = 0
        for name, shape in self._shapes.items():
            at += shape.numel()
            ends[name.rpartition(".")[0]] = at
        return [slice(begin, end) for begin, end in zip([0, *ends.values()], ends.values(), strict=False)]

    def outputs(self, w: Floats, samples: Samples) -> Tensor:
        """Logits [n, classes] in float64; by parts of 100 samples, channels last, in a third of the time of 1,000 as they lie."""
        last, parts = torch.channels_last, []
        torch.nn.utils.vector_to_parameters(torch.from_numpy(w), self.network.parameters())
        self.network.to(memory_format=last)  # type: ignore[call-overload]
        with torch.no_grad():
            for images in torch.split(samples.images, 100):
                parts.append(self.network(images.contiguous(memory_format=last)).double())
        return torch.cat(parts)

    def scores(self, w: Floats, samples: Samples) -> tuple[float, float]:
        """Mean cross-entropy and accuracy."""
        logits = self.outputs(w, samples)
        return mean_loss(logits, samples), float((logits.argmax(1) == samples.labels).double().mean())

    def tempered_loss(self, w: Floats, held_out: Samples, test: Samples) -> tuple[float, float]:
        """The temperature that fits the held-out samples, which should not have chosen w, and the mean cross-entropy of the test ones at it."""
        found = fitted_temperature(self.outputs(w, held_out), held_out)
        return found, mean_loss(self.outputs(w, test) / found, test)


def mean_loss(logits: Tensor, samples: Samples) -> float:
    """Mean cross-entropy of logits [n, classes], in nats."""
    return float(functional.cross_entropy(logits, samples.labels))


def fitted_temperature(logits: Tensor, samples: Samples) -> float:
    """What to divide the logits [n, classes] by for the lowest cross-entropy (Guo et al. 2017), from 1/100 to 100. Raises BadRun for one that
    is not finite."""
    if not logits.isfinite().all():
        raise BadRun("[readouts] a logit is not finite: no temperature fits")
    bounds = (-math.log(100), math.log(100))
    fit = minimize_scalar(lambda power: mean_loss(logits / math.exp(power), samples), bounds=bounds, method="bounded",
                          options={"xatol": 1e-6})  # fmt: skip
    return math.exp(fit.x)


def read_rows(files: Iterable[Path]) -> Floats:
    """Snapshots as rows [k, M]."""
    return np.stack([read_weights(file) for file in files])


def last(run: Path) -> Floats:
    """The weights of a run's newest snapshot."""
    found: Floats = read_rows(snapshot_files(run)[-1:])[0]
    return found


def mean(rows: NDArray[np.floating]) -> Floats:
    """Of the snapshots, summed in float64."""
    found: Floats = rows.mean(0, dtype=np.float64).astype(np.float32)
    return found


def anderson(rows: NDArray[np.floating], regularisation: float) -> Doubles:
    """Coefficients [k], summing to one, of snapshots in their order: the combination whose step to the next snapshot is shortest
    (regularised nonlinear acceleration, Scieur, d'Aspremont and Bach 2016). regularisation: relative to the Gram matrix's norm."""
    steps = np.diff(rows.astype(np.float64), axis=0)
    gram = steps @ steps.T
    solved = np.linalg.solve(gram / np.linalg.norm(gram, 2) + regularisation * np.eye(len(gram)), np.ones(len(gram)))
    return np.concatenate([[0.0], solved / solved.sum()])


def combined(rows: NDArray[np.floating], coefficients: Doubles) -> Floats:
    """Their sum, in float64."""
    return (coefficients @ rows.astype(np.float64)).astype(np.float32)


def best_on_line(floor: Floats, target: Floats, lambdas: Iterable[float], loss: Callable[[Floats], float]) -> tuple[float, Floats]:
    """Lambda, and weights floor + lambda (target - floor), of the lowest loss."""
    points = {at: (floor + np.float32(at) * (target - floor)).astype(np.float32) for at in lambdas}
    best = min(points, key=lambda at: loss(points[at]))
    return best, points[best]


Schedule = Callable[[Optimizer, int], LRScheduler]  # over so many steps


def linear_to_zero(optimizer: Optimizer, steps: int) -> LRScheduler:
    return LinearLR(optimizer, 1.0, 0.0, steps)


def trained(judge: Judge, weights: Callable[[], Tensor], optimizer: Optimizer, schedule_of: Schedule, samples: Samples,
            options: Mapping[str, float], seed: int) -> Floats:  # fmt: skip
    """weights() after options' epochs over the samples, in batches of options' batch_size, of cross-entropy."""
    size, order = int(options["batch_size"]), torch.Generator().manual_seed(seed)
    schedule = schedule_of(optimizer, int(options["epochs"]) * -(-len(samples) // size))
    for _ in range(int(options["epochs"])):
        for batch in torch.randperm(len(samples), generator=order).split(size):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            functional.cross_entropy(judge.logits(weights(), samples.images[batch]), samples.labels[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    found: Floats = weights().detach().numpy()
    return found


def learned_by_layers(judge: Judge, rows: Floats, samples: Samples, options: Mapping[str, float], seed: int) -> Floats:
    """From the mean: coefficients [layers, k] of the snapshots less their mean, by Adam with a cosine to zero."""
    start = torch.from_numpy(mean(rows))
    spread = torch.from_numpy(rows) - start
    blocks = judge.blocks()
    coefficients = torch.zeros(len(blocks), len(rows), requires_grad=True)

    def weights() -> Tensor:
        return start + torch.cat([c @ spread[:, block] for c, block in zip(coefficients, blocks, strict=True)])

    optimizer = torch.optim.Adam([coefficients], lr=options["learning_rate"])
    return trained(judge, weights, optimizer, CosineAnnealingLR, samples, options, seed)


def tuned_in_directions(judge: Judge, start: Floats, directions: Floats, samples: Samples, options: Mapping[str, float],
                        seed: int) -> Floats:  # fmt: skip
    """P-SGD with a free last layer: from `start` by momentum SGD along directions [k, M] of unit length and in all weights of the last
    layer, at rates of their own that fall linearly to zero. Along no direction it trains the last layer alone."""
    begin = judge.blocks()[-1].start
    body, along = torch.from_numpy(start[:begin]), torch.from_numpy(directions[:, :begin])
    coefficients, head = torch.zeros(len(directions), requires_grad=True), torch.from_numpy(start[begin:]).clone().requires_grad_()
    groups = [{"params": [coefficients], "lr": options["learning_rate"]}, {"params": [head], "lr": options["head_rate"]}]

    def weights() -> Tensor:
        return torch.cat([body + coefficients @ along, head])

    return trained(judge, weights, torch.optim.SGD(groups, momentum=0.9), linear_to_zero, samples, options, seed)


def principal_directions(rows: Floats, count: int) -> Floats:
    """[count, M]: principal components of the snapshots, each as long as their standard deviation along it."""
    spread = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    _, sizes, components = np.linalg.svd(spread, full_matrices=False)
    found: Floats = (sizes[:count, None] * components[:count] / np.sqrt(len(rows))).astype(np.float32)
    return found


def directional_outputs(judge: Judge, w: Floats, directions: Floats, samples: Samples) -> tuple[Tensor, Tensor]:
    """Logits [n, classes], and their derivatives [n, classes, r] along the directions, one forward-mode pass each."""
    at, columns = torch.from_numpy(w), []
    logits = torch.empty(0)
    for direction in directions:
        logits, column, *_ = jvp(lambda flat: judge.logits(flat, samples.images), (at,), (torch.from_numpy(direction),))
        columns.append(column)
    return logits, torch.stack(columns, 2)


def gauss_newton_step(jacobian: Doubles, gradient: Doubles, curvature: Doubles, damping: float) -> Doubles:
    """The step [r] of outputs [n, c] whose losses have this gradient [n, c] and Hessian [n, c, c] in them. damping: of the step's
    square, relative to the mean diagonal of J^T H J."""
    matrix = np.einsum("ncr,ncd,nds->rs", jacobian, curvature, jacobian, optimize=True)
    slope = np.einsum("ncr,nc->r", jacobian, gradient)
    size = len(slope)
    step: Doubles = -np.linalg.solve(matrix + damping * np.trace(matrix) / size * np.eye(size), slope)
    return step


def gauss_newton(judge: Judge, rows: Floats, samples: Samples, options: Mapping[str, float], dampings: Iterable[float],
                 loss: Callable[[Floats], float]) -> tuple[float, Floats]:  # fmt: skip
    """One step from the mean in the snapshots' leading components; the damping and weights of the lowest loss."""
    start, directions = mean(rows), principal_directions(rows, int(options["components"]))
    part = samples.part(slice(int(options["samples"])))
    logits, jacobian = directional_outputs(judge, start, directions, part)
    chances = logits.double().softmax(1)
    gradient = chances - functional.one_hot(part.labels, chances.shape[1])
    curvature = torch.diag_embed(chances) - chances[:, :, None] * chances[:, None, :]
    points = {}
    for damping in dampings:
        step = gauss_newton_step(jacobian.double().numpy(), gradient.numpy(), curvature.numpy(), damping)
        points[damping] = (start + step @ directions).astype(np.float32)
    best = min(points, key=lambda damping: loss(points[damping]))
    return best, points[best]
