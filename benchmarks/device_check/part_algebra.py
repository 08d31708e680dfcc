"""The kernels of stage 2 and of the PCA against copies of the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .check import Check
from .figures import Figure, at_least
from .processes import Failed

RESNET50_COLUMNS = 25_557_032
ROWS, REPEATS = 60, 10
BAR = at_least(0.85)
# Both reads of P in a step, by their names in device_algebra's answer.
STEP = {"project": "project", "advance": "back-project, momentum, trial weights"}
# Passes of the PCA over W, by the copy that each is held against.
PASSES = {"gram_streamed": ("Gram matrix, W from the host", "host_copy"),
          "gram_kept": ("Gram matrix, W on the device", "copy"),
          "components_kept": ("components, W on the device", "copy")}  # fmt: skip


def measured(check: Check, program: str, *numbers: int) -> dict[str, Any]:
    """What the program tells. Raises Failed where that is no line of JSON."""
    output = check.run(program, *numbers).output
    try:
        told: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Failed(f"{program} needs to print a line of JSON, received {output[-100:]!r}") from error
    return told


def shares(turns: dict[str, Any], name: str, moved: int, copy: str) -> list[float]:
    """Of each turn: bytes a second over those of the copy."""
    pairs: Sequence[tuple[float, float]] = list(zip(turns[name], turns[copy], strict=True))
    return [(moved / seconds) / (turns[f"{copy}_bytes"] / other) for seconds, other in pairs]


def of_stage2(check: Check, turns: dict[str, Any]) -> None:
    """Of a basis of one type; float32 is judged, and its step is what later parts go by."""
    wide = turns["dtype"] == "Float"
    kind = "float32" if wide else "bfloat16"
    for name, title in STEP.items():
        rounds = [{name: s, "copy": c} for s, c in zip(turns[name], turns["copy"], strict=True)]
        check.add(Figure(f"{title}, P in {kind}: part of a copy's bandwidth",
                         shares(turns, name, turns[f"{name}_bytes"], "copy"), bar=BAR if wide else None,
                         rounds=rounds))  # fmt: skip
    step = [sum(seconds) for seconds in zip(*(turns[name] for name in STEP), strict=True)]
    check.add(Figure(f"both reads of P in {kind}", [1e3 * s for s in step], "ms"))
    if wide:
        check.shared["algebra"] = step


def of_pca(check: Check, turns: dict[str, Any]) -> None:
    """Its passes over W."""
    for name, (title, copy) in PASSES.items():
        check.add(Figure(f"{title}: part of a {copy.replace('_', ' ')}'s bandwidth",
                         shares(turns, name, turns["gram_bytes"], copy)))  # fmt: skip


def on_a_processor(check: Check) -> None:
    """The same mathematics, P read twice, by the CPU's functions."""
    told = measured(check, "stage2_algebra", 20_000, check.sizes.components, 3)
    rounds = [{"copy": c, "algebra": a} for c, a in zip(told["copy"], told["algebra"], strict=True)]
    check.add(Figure("algebra on the processor: part of a copy's bandwidth",
                     [r["copy"] / r["algebra"] for r in rounds], rounds=rounds))  # fmt: skip
    check.shared["algebra"] = told["algebra"]


def algebra(check: Check) -> None:
    """For ResNet-50's M."""
    if not check.on_device:
        on_a_processor(check)
        return
    told = measured(check, "device_algebra", RESNET50_COLUMNS, check.sizes.components, ROWS, REPEATS)
    for turns in told["stage2"]:
        of_stage2(check, turns)
    of_pca(check, told["pca"])
