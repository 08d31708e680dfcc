"""The character GPT on text that every Debian machine can have: the manual pages of `manpages` and `manpages-dev`."""

from __future__ import annotations

import gzip
import hashlib
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from lm.gpt import CONTEXT, GPT, loss_of
from lm.training import Losses, generator_at

BATCH = 12
PACKAGES = ("manpages", "manpages-dev")
CHARACTERS = "\n" + "".join(chr(code) for code in range(32, 127))
CODES = {character: code for code, character in enumerate(CHARACTERS)}


@dataclass(frozen=True)
class Text:
    """Codes of characters, one page after the other: uint8 [characters] each. A page is in one of the three alone."""

    training: Tensor
    validation: Tensor
    test: Tensor


def read_text() -> Text:
    """Raises SystemExit where the packages or their pages are missing."""
    try:
        listing = subprocess.run(["dpkg", "-L", *PACKAGES], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(
            f"this experiment needs Debian's packages {' and '.join(PACKAGES)}; apt install {' '.join(PACKAGES)}"
        ) from None
    pages = sorted({path for line in listing.splitlines() if line.endswith(".gz") and (path := Path(line)).is_file()})
    if not pages:
        raise SystemExit(
            "this experiment needs the manual pages, but path-exclude in /etc/dpkg/dpkg.cfg.d leaves them out"
        )
    parts: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
    for page in pages:
        source = gzip.decompress(page.read_bytes()).decode("utf-8", "replace")
        if not source.startswith(".so "):  # the page is another one
            parts[part_of(page.name)].append(codes_of(source))
    return Text(*(torch.cat(part) for part in parts))


def part_of(name: str) -> int:
    """0 training, 1 validation (1 %), 2 test (2 %): the same on every machine."""
    share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) / 2**32
    return 1 if share < 0.01 else 2 if share < 0.03 else 0


def codes_of(source: str) -> Tensor:
    """Lines of macros and comments are left out, as are characters beyond ASCII."""
    lines = (line for line in source.splitlines() if line and line[0] not in ".'")
    return torch.tensor([CODES[c] for c in "\n".join(lines) + "\n\n" if c in CODES], dtype=torch.uint8)


def batch_at(text: Tensor, seed: int, step: int) -> Tensor:
    """The codes [BATCH, CONTEXT + 1] of step `step`, counted from 0."""
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator_at(seed, step))
    return torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()]).int()


@torch.inference_mode()
def mean_loss(model: nn.Module, text: Tensor) -> float:
    """Nats a character over consecutive windows of `text`."""
    windows = text[: (len(text) - 1) // CONTEXT * CONTEXT + 1].unfold(0, CONTEXT + 1, CONTEXT).int()
    losses = [loss_of(model, part).item() * len(part) for part in torch.split(windows, 24)]
    return math.fsum(losses) / len(windows)


class Pages:
    """The task: the next character of a page."""

    name, kind, end, weight_decay, clip = "gpt", "AdamW", 8_000, 0.1, 1.0

    def __init__(self) -> None:
        self.text = read_text()

    def start(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return GPT(len(CHARACTERS))

    def loss(self, model: nn.Module, seed: int, step: int) -> Tensor:
        return loss_of(model, batch_at(self.text.training, seed, step))

    def losses(self, model: nn.Module) -> Losses:
        """Nats a character."""
        return mean_loss(model, self.text.validation), mean_loss(model, self.text.test)
