"""Chooses the length of the schedule for run_stage_1.sh, so that stage 1 stops while its learning rate is high.

    .venv/bin/python scripts/schedule_length.py PROGRAM [OPTION...]

A new run takes 90/70 of its epochs, as the seed tutorial stops its 90 at 70; a run that is taken up again or continued
keeps its recorded length. Prints the length and a line that says so; nothing where the schedule is left alone. The
program itself reads the options; where it refuses them, its message and exit code are those of this script.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LEFT_ALONE = {"help", "h", "total_epochs", "total_steps", "fastnn", "find_learning_rate"}
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def stretched(epochs: int) -> int:
    """The length of a schedule that stops at 70 of 90 parts after `epochs`."""
    return -(-90 * epochs // 70)


def name_of(argument: str) -> str:
    """--total-epochs=9 -> total_epochs; empty for what is no option."""
    return argument.partition("=")[0].lstrip("-").replace("-", "_") if argument.startswith("-") else ""


def without_ranks(arguments: Sequence[str]) -> list[str]:
    """The options of the program alone."""
    kept = []
    words = iter(arguments)
    for word in words:
        if word == "--ranks":
            next(words, None)
        elif not word.startswith("--ranks="):
            kept.append(word)
    return kept


def ask(program: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What the program says of each option of stage 1, as JSON. Asked by each rank alone, as others print nothing."""
    alone = {name: value for name, value in os.environ.items() if name not in RANKS + SIZES}
    command = [program, "stage1", *arguments, "--help", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=alone)


def recorded_length(path: str, parents: int) -> tuple[Path, float] | None:
    """The run that `path` is, or lies in by as many folders at most, and the length of its schedule; None where no run
    is."""
    for folder in (Path(path), *Path(path).parents[:parents]) if path else ():
        if (config := folder / "config.toml").is_file():
            return folder, float(tomllib.loads(config.read_text()).get("total_epochs", 0))
    return None


def choose(options: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """The length, empty for the program's own, and what to say of it."""
    value = {name: row["value"] for name, row in options.items()}
    falls = options["end_learning_rate"]["acts"]  # only then does the length set the last rate
    if not falls or value["total_epochs"] or value["total_steps"]:
        return "", ""
    epochs, output = value["epochs"], value["output"]
    wanted = stretched(epochs)
    if "://" in output:
        return "", (
            "the learning rate falls to its end, because the output is a URL; "
            f"--total_epochs {wanted} keeps the rate high"
        )
    if run := recorded_length(output, 0) or recorded_length(value["resume_from"], 2):
        folder, length = run
        return (f"{length:g}", f"{folder} keeps its schedule of {length:g} epochs") if length > epochs else ("", "")
    if value["resume_from"] or value["anneal_from_epoch"] >= 0:
        return "", ""
    return (
        str(wanted),
        f"the schedule has {wanted} epochs, and training stops after {epochs}, while the learning rate is still high, "
        f"so that stage 2 can average; --total_epochs {epochs} lets the rate fall to its end",
    )


def main(program: str, *arguments: str) -> int:
    """0, or the exit code of a program that refuses its options."""
    if LEFT_ALONE & {name_of(argument) for argument in arguments}:
        return 0
    speaks = all(os.environ.get(name, "0") == "0" for name in RANKS)
    asked = ask(program, without_ranks(arguments))
    if asked.returncode:
        sys.stderr.write(asked.stderr if speaks else "")
        return asked.returncode
    options = {row["name"]: row for row in json.loads(asked.stdout)["options"]}
    length, line = choose(options)
    print(length)
    if line and speaks and not options["quiet"]["value"]:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
