"""The result as one JSON file and as a table."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from workbench.text_table import text_table  # noqa: E402

from .runner import Result  # noqa: E402

VERDICTS = {True: "yes", False: "NO", None: "-"}


def driver_version() -> str:
    """The kernel driver's; empty where there is none."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found.group(1) if found else text.splitlines()[0]


def machine() -> dict[str, Any]:
    """What figures depend on beside the device."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"processor": found.group(1) if found else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(), "python": platform.python_version(), "driver": driver_version()}  # fmt: skip


def counts(results: Sequence[Result], judged: bool) -> dict[str, int]:
    """How many bars are reached."""
    verdicts = [figure.reached(judged) for result in results for figure in result.figures if figure.bar]
    return {"reached": verdicts.count(True), "not_reached": verdicts.count(False), "not_judged": verdicts.count(None)}


def finite(value: Any) -> Any:
    """The same with null for numbers that JSON has not."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(told: dict[str, Any], results: Sequence[Result], judged: bool) -> str:
    """One document."""
    whole = told | {"judged": judged} | counts(results, judged)
    whole |= {"parts": [result.as_json(judged) for result in results]}
    return json.dumps(finite(whole), indent=1) + "\n"


def table(results: Sequence[Result], judged: bool) -> str:
    """A line for each figure, then what is missing and why."""
    rows = [[result.name, figure.name, figure.text(), figure.bar.text() if figure.bar else "-",
             VERDICTS[figure.reached(judged)]] for result in results for figure in result.figures]  # fmt: skip
    lines = [text_table(["part", "figure", "median (lowest to highest)", "bar", "reached"], rows)] if rows else []
    said = {(r.name, f.note): f.name for r in results for f in reversed(r.figures) if f.note}  # the first figure's name
    notes = [f"{part}, {name}: {note}" for (part, note), name in said.items()]
    missing = [f"{result.name}: {result.outcome}: {result.why}" for result in results if result.outcome != "done"]
    missing += [f"{result.name}: without {one['what']}: {one['why']}" for result in results for one in result.left_out]
    for title, texts in (("Notes", notes), ("Not measured", missing)):
        if texts:
            lines.append("\n".join([title, *(f"  {text}" for text in texts)]))
    return "\n\n".join(lines)
