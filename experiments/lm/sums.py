"""Reinforcement learning: the character GPT on sums of two numbers of two digits, "12+34=046", with exact reward."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from lm.gpt import GPT
from lm.training import Losses, generator_at, groups_of, optimizer_of

CODES = {character: code for code, character in enumerate("0123456789+=")}
QUESTION, ANSWER = 6, 3  # characters
SUMS, ANSWERS = 16, 8  # of a step, and of each of its sums
STARTING, START_BATCH, START_RATE = 360, 64, 1e-3  # of the supervised start


def all_sums() -> Tensor:
    """Codes [10000, 9] in one random order."""
    texts = [f"{a:02}+{b:02}={a + b:03}" for a in range(100) for b in range(100)]
    order = torch.randperm(len(texts), generator=generator_at(0, 0)).tolist()
    return torch.tensor([[CODES[c] for c in texts[i]] for i in order])


def log_probabilities(model: nn.Module, sums: Tensor) -> Tensor:
    """Log probability of each character of the answers [n, 3]."""
    logits = model(sums[:, :-1])[:, QUESTION - 1 :]
    chances: Tensor = functional.log_softmax(logits, -1).gather(-1, sums[:, QUESTION:, None])
    return chances.squeeze(-1)


@torch.no_grad()
def answered(model: nn.Module, questions: Tensor, generator: torch.Generator) -> Tensor:
    """The questions [n, 6] with answers drawn at temperature 1, [n, 9]."""
    text = questions
    for _ in range(ANSWER):
        drawn = torch.multinomial(functional.softmax(model(text)[:, -1], -1), 1, generator=generator)
        text = torch.cat([text, drawn], 1)
    return text


class Sums:
    """The task: GRPO, of which each batch is used once, from a network that gives about half of the answers."""

    name, kind, end, weight_decay, clip = "sums", "AdamW", 480, 0.0, 1.0

    def __init__(self) -> None:
        self.training, self.validation, self.test = torch.split(all_sums(), [8_000, 1_000, 1_000])

    def start(self, seed: int) -> nn.Module:
        model = GPT(len(CODES))
        model.load_state_dict(self.started(seed))
        return model

    @cache  # noqa: B019  one task lives as long as the program
    def started(self, seed: int) -> dict[str, Tensor]:
        """The weights after the supervised start."""
        torch.manual_seed(seed)
        model = GPT(len(CODES))
        optimizer = optimizer_of("AdamW", groups_of(model, self.weight_decay), START_RATE)
        for step in range(STARTING):
            chosen = torch.randint(len(self.training), (START_BATCH,), generator=generator_at(seed, step))
            optimizer.zero_grad()
            torch.autograd.backward(-log_probabilities(model, self.training[chosen]).mean())
            nn.utils.clip_grad_norm_(model.parameters(), self.clip)
            optimizer.step()
        return model.state_dict()

    def loss(self, model: nn.Module, seed: int, step: int) -> Tensor:
        """Minus the advantage of each answer, its reward among those of its sum, times its log probability."""
        generator = generator_at(seed + 1_000, step)
        sums = self.training[torch.randint(len(self.training), (SUMS,), generator=generator)]
        sums = sums.repeat_interleave(ANSWERS, 0)
        drawn = answered(model, sums[:, :QUESTION], generator)
        reward = (drawn == sums).all(1).float().view(SUMS, ANSWERS)
        advantage = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)
        return -(advantage.view(-1, 1) * log_probabilities(model, drawn)).mean()

    @torch.inference_mode()
    def losses(self, model: nn.Module) -> Losses:
        """One minus the mean probability of the right answer."""

        def mean(sums: Tensor) -> float:
            return 1 - log_probabilities(model, sums).sum(1).exp().mean().item()

        return mean(self.validation), mean(self.test)
