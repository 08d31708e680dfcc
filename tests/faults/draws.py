"""Which cases are tried."""

from __future__ import annotations

import random
from typing import TypeVar

Item = TypeVar("Item")


def generator(seed: int, *names: object) -> random.Random:
    """One for each case, so that a case is the same whatever ran before it."""
    return random.Random("/".join(map(str, (seed, *names))))


def evenly(items: list[Item], count: int) -> list[Item]:
    """`count` of the items, spread over all; 0: all."""
    if count <= 0 or count >= len(items):
        return list(items)
    return [items[(2 * i + 1) * len(items) // (2 * count)] for i in range(count)]
