"""Loss and accuracy of weights by `dimred evaluate`, kept beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.files import write_whole
from workbench.jobs import execute

LINE = re.compile(r"^(validation|test|  attacked) +loss ([\d.einfa+-]+)  accuracy ([\d.]+) %", re.MULTILINE)

TEMPERED = re.compile(r"^(validation|test) +loss ([\d.einfa+-]+)  calibration error ([\d.]+) %", re.MULTILINE)
TEMPERATURE = re.compile(r"^logits divided by the temperature ([\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Evaluation:
    """Evaluates with these options; what was evaluated before with the same is read from the folder."""

    binary: Path
    folder: Path
    options: Mapping[str, Any]

    def scores(self, name: str, weights: Sequence[Path]) -> dict[str, float]:
        """Of one set of weights, or of the mean of several: {"validation_loss", "test_accuracy", ...}, those of the images under attack
        ("test_attacked_loss", ...) and at a fitted temperature ("temperature", "test_tempered_loss", ...). Raises CommandFailed, OSError."""
        done = self.folder / f"{name}.json"
        if done.is_file():
            kept = json.loads(done.read_text())
            if kept["options"] == self.options:
                return dict(kept["scores"])
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = weights[0]
        if len(weights) > 1:
            listed = self.folder / f"{name}.txt"
            listed.write_text("".join(f"{file}\n" for file in weights))
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        execute(self.binary, "evaluate", self.options, log, [listed])
        said = log.read_text()
        scores: dict[str, float] = {}
        of = ""
        for line, loss, accuracy in LINE.findall(said):
            of = f"{of}_attacked" if line == "  attacked" else line
            scores |= {f"{of}_loss": float(loss), f"{of}_accuracy": float(accuracy) / 100}
        for of, loss, error in TEMPERED.findall(said):
            scores |= {f"{of}_tempered_loss": float(loss), f"{of}_calibration_error": float(error) / 100}
        if found := TEMPERATURE.search(said):
            scores["temperature"] = float(found[1])
        text = json.dumps({"options": self.options, "scores": scores})
        write_whole(done, lambda path: path.write_text(text))
        return scores
