"""What is done with one run at the cost of END steps. Each arm gives a result for each of its variants, of which
validation text chooses one by seed; the choice costs nothing, in any arm. A backward pass costs as much as two forward
passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dimred
from lm.base import AFTER, END, FIRST, Base
from lm.gpt import GPT, loss_of
from lm.text import CHARACTERS
from lm.training import BETAS, WARMUP, WEIGHT_DECAY, batch_at, groups_of, train

Losses = tuple[float, float]
Results = Iterator[tuple[str, Losses]]
Arm = Callable[[Base], Results]
WINDOWS = (5, 10, 20, 40, 80)


def last(base: Base) -> Results:
    yield "", base.losses(base.at(END).model)


def window(kind: str, base: Base) -> Results:
    for n in WINDOWS:
        yield f"last={n}", base.losses_of(dimred.average(base.files(), kind, last=n))


def moving_average(base: Base) -> Results:
    for decay in (0.8, 0.9, 0.95):
        yield f"decay={decay}", base.losses_of(dimred.average(base.files(), "ema", last=80, decay=decay))


FALLS: dict[str, Callable[[float], float]] = {"linear": lambda x: 1 - x, "minus-sqrt": lambda x: 1 - math.sqrt(x)}


def annealed(shape: str, percent: int, base: Base) -> Results:
    """The last `percent` of steps at a falling rate: its end, and the mean of every tenth step of its second half."""
    leave = END - percent * END // 100
    run, tail = base.at(leave), []
    for _ in train(run, base.text, END, lambda step: FALLS[shape]((step - leave) / (END - leave))):
        if 2 * run.step >= leave + END and run.step % 10 == 0:
            tail.append({name: p.detach().clone() for name, p in run.model.named_parameters()})
    yield "end", base.losses(run.model)
    yield "mean of its tail", base.losses_of(dimred.average(tail, last=len(tail)))


def schedule_free(base: Base) -> Results:
    """Schedule-free AdamW from the first step on, with the same batches."""
    from schedulefree import AdamWScheduleFree  # type: ignore[import-not-found,import-untyped,unused-ignore]

    for rate in (1e-3, 3e-3):
        torch.manual_seed(base.seed)
        model = GPT(len(CHARACTERS))
        optimizer = AdamWScheduleFree(
            groups_of(model), lr=rate, betas=BETAS, weight_decay=WEIGHT_DECAY, warmup_steps=WARMUP
        )
        optimizer.train()
        for step in range(END):
            loss = loss_of(model, batch_at(base.text.training, base.seed, step))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        optimizer.eval()
        yield f"rate={rate}", base.losses(model)


def learned(base: Base) -> Results:
    """Coefficients of eight snapshots, evenly over the window, by losses of held-out text. A batch is four times
    as large as in training, so that AFTER / 4 gradients are paid for; a trial costs one, too."""
    model = base.at(END - AFTER).model
    files = base.files(END - AFTER)
    files = files[:: -(len(files) // 8)][:8][::-1]

    gradients = 0

    def batches() -> Iterator[Tensor]:
        while gradients < AFTER // 4:
            yield torch.cat([batch_at(base.text.validation, base.seed, 4 * gradients + i) for i in range(4)])

    def loss_and_grad(w: Any, batch: Tensor) -> tuple[float, np.ndarray]:
        nonlocal gradients
        gradients += 1
        average.w[:] = w
        average.load_into(model)
        model.zero_grad()
        loss = loss_of(model, batch)
        torch.autograd.backward(loss)
        by_name = dict(model.named_parameters())
        parts = [by_name[name].grad for name in average.names]
        return loss.item(), torch.cat([part.flatten() for part in parts if part is not None]).numpy()

    average = dimred.average(files, last=1)
    best = dimred.average(files, "learned", last=8, loss_and_grad=loss_and_grad, steps=AFTER, batches=batches())
    yield "", base.losses_of(best)


def psgd(base: Base) -> Results:
    """AFTER steps of SGD in the PCA of the window, from the mean of its latest 20 snapshots."""
    files = base.files(END - AFTER)
    basis = dimred.fit(files, 32)
    start = dimred.average(files, last=20)
    for rate in (0.03, 0.1, 0.3, 1.0):
        model = base.at(END - AFTER).model
        start.load_into(model)
        optimizer = dimred.SubspaceOptimizer(
            model, basis, preset="psgd", total_steps=AFTER, learning_rate=rate, weight_decay=0.0
        )
        for step in range(END - AFTER, END):
            batch = batch_at(base.text.training, base.seed, step)
            optimizer.step(partial(loss_of, model, batch))
        yield f"rate={rate}", base.losses(model)


def moved(base: Base, start: dimred.Average, along: np.ndarray, amounts: tuple[float, ...]) -> Results:
    origin = start.w.copy()
    for amount in amounts:
        start.w[:] = origin + amount * along
        yield f"amount={amount}", base.losses_of(start)


def two_point_line(base: Base) -> Results:
    """Beyond the last weights, along the way from those of 40 snapshots before."""
    files = base.files()
    end, before = dimred.average(files, last=1), dimred.average(files[:-40], last=1)
    yield from moved(base, end, end.w - before.w, (0.05, 0.1, 0.2, 0.5, 1.0))


def line_of_means(base: Base) -> Results:
    """Beyond the mean of the latest 20 snapshots, along the way from the mean of the 20 before."""
    files = base.files()
    end, before = dimred.average(files, last=20), dimred.average(files[:-20], last=20)
    yield from moved(base, end, end.w - before.w, (0.05, 0.1, 0.2, 0.5, 1.0))


def scaled_first_delta(base: Base) -> Results:
    """The window's first change, times a number."""
    files = base.files()
    start, after = dimred.average(files[:1], last=1), dimred.average(files[:2], last=1)
    yield from moved(base, start, after.w - start.w, (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0))


def rank_1_by_tensor(base: Base) -> Results:
    """Each tensor's changes from the window's first snapshot as one direction and a line over the steps (RELEX), to the
    end and beyond by parts of the window."""
    files = base.files()
    rows = [dimred.average([file], last=1) for file in files]
    steps = np.array([int(file.stem[9:]) for file in files], dtype=float)
    for beyond in (0.0, 0.1, 0.25, 0.5):
        result = dimred.average(files[:1], last=1)
        at, begin = END + beyond * (END - FIRST), 0
        for shape in result.shapes:
            part = slice(begin, begin := begin + math.prod(shape))
            result.w[part] += rank_1(np.stack([row.w[part] - rows[0].w[part] for row in rows]), steps, at)
        yield f"beyond={beyond}", base.losses_of(result)


def rank_1(changes: np.ndarray, steps: np.ndarray, at: float) -> np.ndarray:
    """[n, m] -> [m]: the first right singular vector times the line through its coefficients, at step `at`."""
    values, vectors = np.linalg.eigh(changes.astype(float) @ changes.T)
    if values[-1] <= 0:
        return np.zeros(changes.shape[1])
    direction = vectors[:, -1] @ changes / math.sqrt(values[-1])
    slope, offset = np.polyfit(steps, math.sqrt(values[-1]) * vectors[:, -1], 1)
    line: np.ndarray = (offset + slope * at) * direction
    return line


ARMS: dict[str, Arm] = {
    "last weights": last,
    "mean of a window": partial(window, "mean"),
    "EMA": moving_average,
    "minus-sqrt window": partial(window, "minus-sqrt"),
    "cosine window": partial(window, "cosine"),
    **{
        f"annealed {shape}, {percent} %": partial(annealed, shape, percent)
        for shape in FALLS
        for percent in (5, 10, 20)
    },
    "schedule-free AdamW": schedule_free,
    "learned coefficients": learned,
    "P-SGD in the window's PCA": psgd,
    "two-point line": two_point_line,
    "line of means": line_of_means,
    "scaled first delta": scaled_first_delta,
    "rank 1 by tensor": rank_1_by_tensor,
}
