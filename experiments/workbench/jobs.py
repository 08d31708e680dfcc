"""Runs dimred commands so that an experiment can be stopped and started again."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dimred.runs import is_finished

REPOSITORY = Path(__file__).resolve().parents[2]
DIMRED = REPOSITORY / "build" / "bin" / "dimred"


class CommandFailed(RuntimeError):
    """A dimred command ended with an error; the text is its last line."""


def as_text(value: object) -> str:
    """A value as dimred's flags take it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(as_text, value)) if isinstance(value, list) else str(value)


def flags(options: Mapping[str, object]) -> list[str]:
    """{"batch_size": 64} -> ["--batch_size=64"]; None leaves an option out."""
    return [f"--{key}={as_text(value)}" for key, value in options.items() if value is not None]


def is_done(command: str, output: Path) -> bool:
    """Whether a command's result is there: a finished run, or a matrix and its sidecar, which is written last."""
    if command == "pca":
        return output.is_file() and output.with_suffix(".json").is_file()
    return is_finished(output)


def execute(binary: Path, command: str, options: Mapping[str, object], log: Path) -> None:
    """Runs `dimred command`, appending what it prints to `log`. Raises CommandFailed."""
    run_logged([str(binary), command, *flags(options)], log, f"dimred {command}")


def run_logged(arguments: Sequence[str], log: Path, name: str | None = None) -> None:
    """Runs a command, appending what it prints to `log`. Raises CommandFailed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        stream.write("$ " + " ".join(arguments) + "\n")
        stream.flush()
        done = subprocess.run(arguments, stdout=stream, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        lines = log.read_text().splitlines()
        raise CommandFailed(f"{name or arguments[0]} ended with {done.returncode}: {lines[-1]} ({log})")


def train(binary: Path, stage: str, folder: Path, options: Mapping[str, object]) -> None:
    """One run of stage1 or stage2 into `folder`; nothing when it is finished, else it resumes."""
    if not is_done(stage, folder):
        log = folder.with_name(folder.name + ".log")
        execute(binary, stage, {**options, "output": folder, "quiet": "true"}, log)


def fit(binary: Path, run: Path, output: Path, components: int, threads: int) -> None:
    """The PCA of a run's snapshots; nothing when it is there."""
    if not is_done("pca", output):
        options = {"snapshots": run / "snapshots", "components": components, "threads": threads, "overwrite": "true"}
        log = output.with_suffix(".log")
        execute(binary, "pca", {**options, "output": output, "quiet": "true"}, log)


def pair(text: str) -> tuple[str, str]:
    """ "rho=0.5" -> ("rho", "0.5"): the type of arguments that are options of a command. Raises ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"needs option=value, received {text!r}")
    return name, value
