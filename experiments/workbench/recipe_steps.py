"""A recipe's step: the command, what it writes, and the note of the options that it was made with."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from .jobs import flags, is_done

DATA_OPTIONS = ("data", "test_data")  # files known by size and time: they may be large
VERIFIED = "verification.json"


class RecipeError(ValueError):
    """A mistake in a recipe or its use, in one line."""


@dataclass(frozen=True)
class Step:
    """One dimred command and what it writes."""

    name: str
    command: str
    options: dict[str, Any]
    output: Path

    def is_done(self) -> bool:
        """Runs resume by themselves."""
        if self.command == "model":
            return self.output.is_file()
        if self.command == "verify":
            return (self.output / VERIFIED).is_file()
        return is_done(self.command, self.output)

    def note(self) -> Path:
        """The options that it was made with."""
        return self.output.with_name(f"{self.name}.options.json")

    def noted(self) -> dict[str, Any]:
        """The contents of the note: `with` as made_with(), and when it was `begun`; empty without one."""
        try:
            note = json.loads(self.note().read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return note if isinstance(note, dict) and isinstance(note.get("with"), dict) else {}

    def made_with(self, ranks: int) -> dict[str, Any]:
        """Options, ranks, the files that the options name, and when the steps were begun whose output they name."""
        options = dict(self.options)
        hooks = [
            hook for hook in str(options.pop("hooks", "")).split(",") if hook not in ("", "batches")
        ]  # the twin's own
        files, sources = {}, {}
        for key, value in options.items():
            if not (isinstance(value, str) and value.startswith("/")):
                continue
            path = Path(value)
            if self.output.parent in path.parents:
                other = replace(
                    self, name=path.relative_to(self.output.parent).parts[0].removesuffix(".npy").removesuffix(".pt")
                )
                sources[other.name] = other.noted().get("begun", "")
            elif path.is_file():
                files[value] = known_by(path, key)
        made = {"options": options, "hooks": hooks, "ranks": ranks, "files": files, "from": sources}
        return json.loads(json.dumps(made))

    def write_note(self, asked: dict[str, Any]) -> None:
        """Keeps when it was begun where it goes on."""
        before = self.noted()
        goes_on = self.output.is_dir() and before.get("with") == asked
        begun = before["begun"] if goes_on else str(time.time_ns())
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.note().write_text(json.dumps({"with": asked, "begun": begun}))


def network_of(weights: Path) -> dict[str, str]:
    """What a file of scripts/slim_checkpoint.sh says of its network; empty for other weights."""
    if not weights.is_file():
        return {}
    try:
        with safe_open(weights, "np") as file:
            said = file.metadata() or {}
    except SafetensorError:  # PyTorch's, say
        return {}
    return said if said.keys() >= {"network", "preprocessing_name"} else {}


def known_by(file: Path, option: str) -> str:
    """Changes when the file does."""
    if option in DATA_OPTIONS:
        found = file.stat()
        return f"{found.st_size} bytes of {found.st_mtime_ns}"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def command_line(step: Step, ranks: int, dimred: Path) -> list[str]:
    """The words that one would type; verify and model run alone."""
    launcher = []
    if ranks > 1 and step.command not in ("verify", "model"):
        launcher = ["torchrun", "--no-python", "--standalone", f"--nproc-per-node={ranks}"]
    again = (
        ["--overwrite"] if step.command == "pca" and "overwrite" not in step.options else []
    )  # a matrix without its sidecar is half a matrix
    return [*launcher, str(dimred), step.command, *flags(step.options), f"--output={step.output}", *again]


def require_made_so(step: Step, ranks: int) -> None:
    """Raises RecipeError for what is there of the step and was not made with these options and steps."""
    remedy = "choose another --output, or remove this one"
    before, asked = step.noted().get("with", {}), step.made_with(ranks)
    there = step.is_done() or step.output.is_dir()
    if there and before and {**before, "from": None} == {**asked, "from": None}:
        for name, begun in asked["from"].items():
            if before["from"].get(name) != begun:
                raise RecipeError(f"{step.output} was made before {name}; {remedy}")
    if step.is_done() and before != asked:
        raise RecipeError(f"{step.output} was made with other options ({step.note().name}); {remedy}")


def require_order(steps: list[Step], ranks: int) -> None:
    """Raises RecipeError, before anything runs, for a step that is done while an earlier one is not."""
    open_step = ""
    for step in steps:
        require_made_so(step, ranks)
        if not step.is_done():
            open_step = step.name
        elif open_step:
            raise RecipeError(f"{step.output} was made before {open_step}; choose another --output, or remove this one")
