"""Axis limits, round tick values and the map from data to pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

Point = tuple[float, float]


def nice_ticks(low: float, high: float, count: int, whole: bool = False) -> list[float]:
    """About `count` round numbers in [low, high]."""
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.75)
    if whole:
        step = max(1, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in [low, high], thinned to at most six; with 2 and 5 between few of them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [10.0**p * m for p in range(first, last + 1) for m in steps]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside[:: max(1, math.ceil(len(inside) / 6))]


def limits(values: list[float], wanted: tuple[float | None, float | None], pad: float) -> Point:
    """Data limits with a margin of `pad` times the range on the sides that are not given."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = low if wanted[0] is None else wanted[0]
    high = high if wanted[1] is None else wanted[1]
    if high <= low:
        low, high = low - 0.5, low + 0.5
    margin = pad * (high - low)
    return (low - margin if wanted[0] is None else low, high + margin if wanted[1] is None else high)


@dataclass
class Frame:
    """Data to pixels."""

    x: Point
    y: Point
    left: float
    right: float
    top: float
    bottom: float
    log_y: bool

    def px(self, x: float) -> float:
        return self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - self.left)

    def py(self, y: float) -> float:
        y = math.log10(y) if self.log_y else y
        return self.bottom - (y - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)
