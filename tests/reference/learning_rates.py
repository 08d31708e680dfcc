"""Published learning-rate schedules, written as their sources do: one list of all steps each."""

from __future__ import annotations

import math


def fastnn(
    kind: str,
    learning_rate: float,
    stop_at_step: int,
    *,
    decay_scheme: str,
    warmup_steps: int = 0,
    factor: float = 0.94,
    end_learning_rate: float = 1e-4,
) -> list[float]:
    """alibaba/FastNN, images/utils/optimizer_utils.py, with tf.train's two decays."""
    start = {
        "luong5": int(stop_at_step / 2),
        "luong10": int(stop_at_step / 2),
        "luong234": int(stop_at_step * 2 / 3),
        "": stop_at_step,
    }[decay_scheme]
    times = {"luong5": 5, "luong10": 10, "luong234": 4, "": 1}[decay_scheme]
    decay_steps = int((stop_at_step - start) / times)
    rates = []
    for step in range(stop_at_step):
        rate = learning_rate
        if step < warmup_steps:
            rate *= math.exp(math.log(0.01) / warmup_steps) ** (warmup_steps - step)
        if kind == "fixed":
            rate = learning_rate
        elif step >= start and kind == "exponential":
            rate *= factor ** math.floor((step - start) / decay_steps)
        elif step >= start and kind == "polynomial":
            done = min(step - start, decay_steps)
            rate = (rate - end_learning_rate) * (1 - done / decay_steps) ** 1.0 + end_learning_rate
        rates.append(rate)
    return rates


def mindspore(mode: str, lr_init: float, lr_end: float, lr_max: float, warmup: int, total: int) -> list[float]:
    """get_lr of models/official/cv/ResNet/src/lr_generator.py before its cast to float32; steps."""

    def rate(i: int) -> float:
        if mode == "step":
            marks = [0.2 * total, 0.5 * total, 0.7 * total, 0.9 * total]
            passed = sum(i >= mark for mark in marks)
            return 0.00005 if passed == 4 else [1, 0.1, 0.01, 0.001][passed] * lr_max
        if mode == "cosine":
            if i < warmup:
                return lr_init + (lr_max - lr_init) / warmup * (i + 1)
            decay_steps = total - warmup
            cosine = 0.5 * (1 + math.cos(math.pi * 2 * 0.47 * i / decay_steps))
            return lr_max * ((total - i) / decay_steps * cosine + 0.00001)
        if i < warmup:
            return lr_init + (lr_max - lr_init) * i / warmup
        if mode == "steps":
            passed = sum(i >= mark for mark in [0.3 * total, 0.6 * total, 0.8 * total])
            return [1, 0.1, 0.01, 0.001][passed] * lr_max
        left = 1 - (i - warmup) / (total - warmup)
        if mode == "poly":
            return max(0.0, lr_max * left * left)
        return lr_max - (lr_max - lr_end) * (1 - left)

    return [rate(i) for i in range(total)]


def plsc(
    lr: float, global_batch_size: int, lr_steps: list[int], warmup_steps: int, steps: int, factor: float = 0.1
) -> list[float]:
    """PaddlePaddle/PLSC, plsc/entry.py and utils/learning_rate.py."""
    base = lr * global_batch_size / 1024
    values = [base * factor**i for i in range(len(lr_steps) + 1)]
    return [
        lr + (base - lr) * (step / warmup_steps)
        if step < warmup_steps
        else values[sum(step >= boundary for boundary in lr_steps)]
        for step in range(steps)
    ]


def moxing(strategy: str, steps_per_epoch: int, epochs: int) -> list[float]:
    """ModelArts-Lab's description of piecewise_lr."""
    pieces = []
    begin = 0.0
    for text in strategy.split(","):
        end, rates = text.split(":")
        arrow = next((arrow for arrow in ("->", "=>") if arrow in rates), None)
        first, last = map(float, rates.split(arrow)) if arrow else (float(rates), float(rates))
        pieces.append((begin, float(end), first, last, arrow))
        begin = float(end)

    def rate(epoch: float) -> float:
        for begin, end, first, last, arrow in pieces:
            if epoch < end:
                part = (epoch - begin) / (end - begin)
                if arrow == "=>":
                    return math.exp((1 - part) * math.log(first) + part * math.log(last))
                return (1 - part) * first + part * last
        return pieces[-1][3]

    return [rate(step / steps_per_epoch) for step in range(epochs * steps_per_epoch)]
