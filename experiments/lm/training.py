"""Training of the character GPT. Batch and rate are functions of the step alone, so that arms which leave a run at some
step see the batches that the run itself would have seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lm.gpt import CONTEXT, GPT, loss_of
from lm.text import CHARACTERS, Text

BATCH, WARMUP, RATE = 12, 200, 1e-3
WEIGHT_DECAY, BETAS = 0.1, (0.9, 0.99)

Schedule = Callable[[int], float]  # the part of a run's rate at a step


@dataclass
class Run:
    """What a training holds after `step` steps."""

    seed: int
    model: GPT
    optimizer: torch.optim.Optimizer
    rate: float
    step: int = 0


def new_run(seed: int, rate: float = RATE) -> Run:
    torch.manual_seed(seed)
    model = GPT(len(CHARACTERS))
    return Run(seed, model, torch.optim.AdamW(groups_of(model), lr=rate, betas=BETAS), rate)


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def batch_at(text: Tensor, seed: int, step: int) -> Tensor:
    """The codes [BATCH, CONTEXT + 1] of step `step`, counted from 0."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator)
    return torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()]).int()


def constant(step: int) -> float:
    return min(1.0, (step + 1) / WARMUP)


def train(run: Run, text: Text, until: int, schedule: Schedule = constant) -> Iterator[Run]:
    """Yields `run` after each step up to `until`."""
    while run.step < until:
        for group in run.optimizer.param_groups:
            group["lr"] = run.rate * schedule(run.step)
        loss = loss_of(run.model, batch_at(text.training, run.seed, run.step))
        run.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
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


@torch.inference_mode()
def mean_loss(model: nn.Module, text: Tensor) -> float:
    """Nats a character over consecutive windows of `text`."""
    windows = text[: (len(text) - 1) // CONTEXT * CONTEXT + 1].unfold(0, CONTEXT + 1, CONTEXT).int()
    losses = [loss_of(model, part).item() * len(part) for part in torch.split(windows, 256)]
    return math.fsum(losses) / len(windows)
