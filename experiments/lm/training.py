"""Training at a constant rate. Batch and rate are functions of the step alone, so that arms which leave a run at some
step see the batches that the run itself would have seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.99)
SCHEDULE_FREE = "schedule-free AdamW"

Losses = tuple[float, float]  # on validation and on test data
Schedule = Callable[[int], float]  # the part of a run's rate at a step


class Diverged(ArithmeticError):
    """A loss or gradient is not finite; its text says where."""


class Task(Protocol):
    """What is trained: `end` steps of the optimizer `kind`."""

    name: str
    kind: str
    end: int
    weight_decay: float  # of matrices
    clip: float  # the longest gradient

    def start(self, seed: int) -> nn.Module:
        """The network with a seed's first weights."""

    def loss(self, model: nn.Module, seed: int, step: int) -> Tensor:
        """The loss of the batch of a step, counted from 0."""

    def losses(self, model: nn.Module) -> Losses:
        """What is compared, lower is better."""


@dataclass
class Run:
    """What a training holds after `step` steps."""

    task: Task
    seed: int
    rate: float
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: int = 0


def new_run(task: Task, seed: int, rate: float, kind: str = "") -> Run:
    model = task.start(seed)
    return Run(task, seed, rate, model, optimizer_of(kind or task.kind, groups_of(model, task.weight_decay), rate))


def optimizer_of(kind: str, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
    if kind == "AdamW":
        return torch.optim.AdamW(groups, lr=rate, betas=BETAS)
    if kind == "SGD":
        return torch.optim.SGD(groups, lr=rate, momentum=0.9)
    assert kind == SCHEDULE_FREE, kind
    from schedulefree import AdamWScheduleFree  # type: ignore[import-not-found,import-untyped,unused-ignore]

    optimizer = AdamWScheduleFree(groups, lr=rate, betas=BETAS)
    optimizer.train()
    return optimizer


def groups_of(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def generator_at(seed: int, step: int) -> torch.Generator:
    """The random numbers of a step."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


def train(run: Run, until: int, schedule: Schedule | None = None) -> Iterator[Run]:
    """Yields `run` after each step up to `until`, by default at a constant rate after a warm-up. Raises Diverged."""
    warmup = run.task.end // 40
    share = schedule or (lambda step: min(1.0, (step + 1) / warmup))
    while run.step < until:
        for group in run.optimizer.param_groups:
            group["lr"] = run.rate * share(run.step)
        loss = run.task.loss(run.model, run.seed, run.step)
        run.optimizer.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), run.task.clip)
        if not torch.isfinite(loss + norm):
            raise Diverged(f"a loss of {loss.item()} and a gradient of {norm.item()} at step {run.step + 1}")
        run.optimizer.step()
        run.step += 1
        yield run


def save(run: Run, path: Path) -> None:
    state = {"step": run.step, "model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.rename(path)


def restore(run: Run, path: Path) -> Run:
    state = torch.load(path)
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.step = state["step"]
    return run
