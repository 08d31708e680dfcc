"""A character GPT, as nanoGPT's setting for processors: 4 layers, 4 heads, width 128, context 64; 0.8 M parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, CONTEXT = 4, 4, 128, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.attention(self.norm_1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        changed: Tensor = x + self.down(functional.gelu(self.up(self.norm_2(x))))
        return changed


class GPT(nn.Module):
    """Codes [batch, length <= CONTEXT] -> logits [batch, length, vocabulary]; the output layer is the embedding."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                scale = 0.02 / math.sqrt(2 * LAYERS) if "projection" in name or "down" in name else 0.02
                nn.init.normal_(parameter, 0, scale)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.characters(codes) + self.places(torch.arange(codes.shape[1]))
        return functional.linear(self.norm(self.blocks(x)), self.characters.weight)


def loss_of(model: nn.Module, codes: Tensor) -> Tensor:
    """Mean cross-entropy in nats a character of [batch, length + 1] codes, each predicted from those before it."""
    logits = model(codes[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten().long())
