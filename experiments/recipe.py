"""A published training recipe from one TOML file: its steps in order, in full or in its short version.

    python experiments/recipe.py experiments/recipes/fastnn_cifar10.toml --data FOLDER --short

A recipe says what it costs and what it should give, and has a table per step: a dimred command (the
table's name, or its `command`) and its options; `{data}`, `{pretraining_data}` and `{NAME}` stand for the
options of these names and for what step NAME wrote. [short] and [short.NAME] replace values for a version of a few minutes on a CPU ("" takes an
option away). Started again it goes on where it stopped. --dry_run prints the commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from comparison.options import ConfigError, nearest, read_options_of
from dimred_runs import BadRun, is_finished, read_run
from workbench.jobs import DIMRED, flags

PLACES = ("data", "pretraining_data")  # options, and texts that say what belongs there
TEXTS = ("title", "source", "cost", "gives", *PLACES)
COMMANDS = ("stage1", "pca", "stage2", "verify")
DATA_OPTIONS = ("data", "test_data")  # files known by size and time: they may be large
FILE_OPTIONS = {"config", "fastnn", "boost"}  # other files of options, which --help has not in its table
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
        """Runs resume by themselves; a matrix is there when its sidecar, which is written last, is."""
        if self.command == "verify":
            return (self.output / VERIFIED).is_file()
        return is_finished(self.output) if self.command.startswith("stage") else self.output.with_suffix(".json").is_file()

    def note(self) -> Path:
        """What it was made with."""
        return self.output.with_name(f"{self.name}.options.json")

    def noted(self) -> dict[str, Any]:
        """What the note says: `with` as made_with(), and when it was `begun`; empty without one."""
        try:
            note = json.loads(self.note().read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return note if isinstance(note, dict) and isinstance(note.get("with"), dict) else {}

    def made_with(self, ranks: int) -> dict[str, Any]:
        """Options, ranks, the files that the options name, and when the steps were begun whose output they name."""
        options = dict(self.options)
        hooks = [hook for hook in str(options.pop("hooks", "")).split(",") if hook not in ("", "batches")]  # the twin's own
        files, sources = {}, {}
        for key, value in options.items():
            if not (isinstance(value, str) and value.startswith("/")):
                continue
            path = Path(value)
            if self.output.parent in path.parents:
                other = replace(self, name=path.relative_to(self.output.parent).parts[0].removesuffix(".npy"))
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


def known_by(file: Path, option: str) -> str:
    """Changes when the file does."""
    if option in DATA_OPTIONS:
        found = file.stat()
        return f"{found.st_size} bytes of {found.st_mtime_ns}"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Recipe:
    """What the file says, with the short version's values in place when that was asked for."""

    title: str
    texts: dict[str, str]
    ranks: int
    steps: list[Step]


def filled(name: str, value: Any, places: dict[str, str]) -> Any:
    """A value with its {PLACES} replaced; `{{` is a brace."""
    if not isinstance(value, str):
        return value
    try:
        return value.format_map(places)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise RecipeError(f"{name}: needs one of {', '.join(places)} in braces ({{{{ is a brace), received {value!r}") from error


def read_recipe(file: Path, output: Path, given: dict[str, Path | None], short: bool) -> Recipe:
    """Checks the file's shape; its options are checked by dimred."""
    try:
        tables = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RecipeError(f"{file}: {error}") from error
    brief = tables.pop("short", {})
    if short:
        if not brief:
            raise RecipeError(f"{file}: has no short version")
        for key, value in brief.items():
            if isinstance(value, dict) and key not in tables:
                raise RecipeError(f"{file}: [short.{key}]: there is no step [{key}]")
            tables[key] = tables.get(key, {}) | value if isinstance(value, dict) else value
    texts = {key: tables.pop(key, "") for key in TEXTS}
    ranks = tables.pop("ranks", 1)
    if not texts["title"] or not isinstance(ranks, int) or ranks < 1:
        raise RecipeError(f"{file}: needs a title, and ranks >= 1")
    places = {"here": str(file.resolve().parent)}
    for place in PLACES:
        path = given[place]
        if texts[place] and path is None:
            raise RecipeError(f"{file}: needs --{place}: {texts[place]}")
        if path and not texts[place]:
            raise RecipeError(f"{file}: has no use for --{place}, received {path}")
        if path:
            places[place] = str(path.resolve())
    steps = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise RecipeError(f"{file}: {name}: needs to be one of {', '.join(TEXTS)}, ranks, or a step's table")
        options = dict(table)
        command = options.pop("command", name)
        if command not in COMMANDS:
            raise RecipeError(f"{file}: [{name}]: needs a command of {', '.join(COMMANDS)}, received {command}")
        options = {key: filled(f"{file}: {name}.{key}", value, places) for key, value in options.items() if value != ""}
        steps.append(Step(name, command, options, output / (f"{name}.npy" if command == "pca" else name)))
        places[name] = str(steps[-1].output)
    return Recipe(texts["title"], texts, ranks, steps)


def changed(steps: list[Step], settings: list[str]) -> list[Step]:
    """The steps with each STEP.OPTION=VALUE in place."""
    table = {step.name: dict(step.options) for step in steps}
    for text in settings:
        place, equals, value = text.partition("=")
        name, dot, option = place.partition(".")
        if not equals or not dot or name not in table:
            raise RecipeError(f"--set: needs STEP.OPTION=VALUE, STEP one of {', '.join(table)}; received {text}")
        table[name][option] = value
    return [replace(step, options=table[step.name]) for step in steps]


def command_line(step: Step, ranks: int, dimred: Path) -> list[str]:
    """As one would type it; verify runs alone."""
    launcher = []
    if ranks > 1 and step.command != "verify":
        launcher = ["torchrun", "--no-python", "--standalone", f"--nproc-per-node={ranks}"]
    options = {
        key: str(value).lower() if isinstance(value, bool)
        else ",".join(map(str, value)) if isinstance(value, list)
        else value
        for key, value in step.options.items()
    }  # fmt: skip
    again = ["--overwrite"] if step.command == "pca" and "overwrite" not in options else []  # a matrix without its sidecar is half a matrix
    return [*launcher, str(dimred), step.command, *flags(options), f"--output={step.output}", *again]


def require_known_options(recipe: Recipe, options_of: Callable[[str], Collection[str]]) -> None:
    """Raises RecipeError for the first option that a step's command has not."""
    for step in recipe.steps:
        known = {*options_of(step.command), *FILE_OPTIONS}
        for name in step.options:
            if name not in known:
                raise RecipeError(f"{step.name}.{name}: unknown option of dimred {step.command}{nearest(name, known)}")


def results(recipe: Recipe) -> list[str]:
    """A line per training step, its last row, and per verification."""
    lines = []
    for step in recipe.steps:
        if step.command == "verify":
            told = json.loads((step.output / VERIFIED).read_text())
            accuracy, deviation = 100 * told["accuracy"], 100 * told["accuracy_deviation"]
            lines.append(f"{step.name:12} {told['pairs']} pairs, accuracy {accuracy:.2f} % +- {deviation:.2f}")
        if not step.command.startswith("stage"):
            continue
        run = read_run(step.output)
        last, trained = run.result(), run.curve["train_loss"].dropna().iloc[-1]
        lines.append(
            f"{step.name:12} {last['epoch']:6.3g} epochs  training loss {trained:.4f}  "
            f"test accuracy {100 * last['test_accuracy']:.2f} %  {run.curve['seconds'].iloc[-1]:.0f} s"
        )
    return lines


def require_made_so(step: Step, ranks: int) -> None:
    """Raises RecipeError for what is there of the step and was not made with these options and steps."""
    remedy = "choose another --output, or remove it"
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
            raise RecipeError(f"{step.output} was made before {open_step}; choose another --output, or remove it")


def run(recipe: Recipe, options: argparse.Namespace) -> None:
    """All steps in order. Raises RecipeError for one that fails, or was not made with these options and steps."""
    require_known_options(recipe, partial(read_options_of, options.dimred))
    ranks = options.ranks or recipe.ranks
    require_order(recipe.steps, ranks)
    for step in recipe.steps:
        words = command_line(step, ranks, options.dimred)
        done = step.is_done()
        print(("# done: " if done else "$ ") + shlex.join(words), flush=True)
        if options.dry_run or done:
            continue
        require_made_so(step, ranks)  # an earlier step may have been made anew since
        step.write_note(step.made_with(ranks))
        code = subprocess.run(words, check=False).returncode
        if code:
            raise RecipeError(f"step {step.name} ended with {code}; the same command goes on from there")


def parser(description: str) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("recipe", type=Path, help="a file of experiments/recipes")
    parser.add_argument("--data", type=Path, help="what the recipe trains on")
    parser.add_argument("--pretraining_data", type=Path, help="what its backbone trains on")
    parser.add_argument("--short", action="store_true", help="a few minutes on a CPU")
    parser.add_argument("--output", type=Path, help="default: runs/NAME, or runs/NAME_short")
    parser.add_argument("--ranks", type=int, help="other than the recipe's")
    parser.add_argument("--set", nargs="*", action="extend", default=[], metavar="STEP.OPTION=VALUE", help="other than the recipe's")
    parser.add_argument("--dry_run", action="store_true", help="only print the commands")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser


def read(options: argparse.Namespace, output: Path) -> Recipe:
    """The recipe that the command line means. Raises RecipeError."""
    given = {place: getattr(options, place) for place in PLACES}
    recipe = read_recipe(options.recipe, output, given, options.short)
    if options.ranks is not None and options.ranks < 1:
        raise RecipeError(f"--ranks: needs >= 1, received {options.ranks}")
    return replace(recipe, steps=changed(recipe.steps, options.set))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a recipe; its exit code."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    name = options.recipe.stem + ("_short" if options.short else "")
    output = (options.output or Path("runs") / name).resolve()
    begin = time.monotonic()
    try:
        recipe = read(options, output)
        print(f"{recipe.title}\ncost: {recipe.texts['cost']}\ngives: {recipe.texts['gives']}\n")
        run(recipe, options)
        if not options.dry_run:
            print("", *results(recipe), f"{time.monotonic() - begin:.0f} s in all", sep="\n")
    except (RecipeError, ConfigError, BadRun) as error:
        print(f"recipe.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
