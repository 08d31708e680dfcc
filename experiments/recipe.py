"""Runs a published training recipe from one TOML file: all steps in order, in full or in a short version.

    python experiments/recipe.py experiments/recipes/fastnn_cifar10.toml --data FOLDER --short

A recipe says what it costs and what it should give, and has a table per step: a dimred command (the
table's name, or its `command`) and its options; `{data}`, `{pretraining_data}` and `{NAME}` stand for the
options of these names and for what step NAME wrote. [short] and [short.NAME] replace values for a version of a few
minutes on a CPU ("" takes an option away). Started again it goes on where it stopped. --dry_run prints the commands.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from comparison.options import ConfigError, Tables, nearest
from workbench.jobs import DIMRED
from workbench.recipe_steps import VERIFIED, RecipeError, Step, command_line, network_of, require_made_so, require_order

from dimred.runs import BadRun, read_run

PLACES = ("data", "pretraining_data")  # options, and texts that say what belongs there
TEXTS = ("title", "source", "cost", "gives", *PLACES)
COMMANDS = ("stage1", "pca", "stage2", "verify")
FILE_OPTIONS = {"config", "fastnn", "boost"}  # other files of options, which --help has not in its table


@dataclass(frozen=True)
class Recipe:
    """The contents of the file, with the short version's values in place when that was asked for."""

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
        raise RecipeError(
            f"{name}: needs one of {', '.join(places)} in braces ({{{{ is a brace), received {value!r}"
        ) from error


def read_recipe(
    file: Path, output: Path, given: dict[str, Path | None], short: bool, backbone: Path | None = None
) -> Recipe:
    """Checks the file's shape; its options are checked by dimred. `backbone`: weights in the place of that step."""
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
                raise RecipeError(f"{file}: [short.{key}]: the recipe has no step [{key}]")
            tables[key] = tables.get(key, {}) | value if isinstance(value, dict) else value
    texts = {key: tables.pop(key, "") for key in TEXTS}
    ranks = tables.pop("ranks", 1)
    if not texts["title"] or not isinstance(ranks, int) or ranks < 1:
        raise RecipeError(f"{file}: needs a title, and ranks >= 1")
    places = {"here": str(file.resolve().parent)}
    if backbone:
        if not tables.pop("backbone", None):
            raise RecipeError(f"{file}: the recipe has no backbone, received --backbone {backbone}")
        places["backbone"] = str(backbone.resolve())
        texts["pretraining_data"] = ""
    for place in PLACES:
        path = given[place]
        if texts[place] and path is None:
            raise RecipeError(f"{file}: needs --{place}: {texts[place]}")
        if path and not texts[place]:
            raise RecipeError(f"{file}: the recipe does not use --{place}, received {path}")
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
    if backbone and (said := network_of(backbone)):
        steps = with_network(steps, said, Path(places["data"]), output)
    return Recipe(texts["title"], texts, ranks, steps)


def with_network(steps: list[Step], said: dict[str, str], data: Path, output: Path) -> list[Step]:
    """Steps that train the network of converted weights on images as it takes them, behind those that write it for the
    data's classes."""
    folder = data / "train" if (data / "train").is_dir() else data
    classes = sum(place.is_dir() for place in folder.iterdir()) if folder.is_dir() else 0
    if classes < 2:
        raise RecipeError(
            f"--data: needs a folder with one folder for each class, to write {said['network']}; received {data}"
        )
    networks, changed = {}, []
    for step in steps:
        fixed = "_fixed" if "trainable_include_patterns" in step.options else ""  # a part of a module trains only so
        network = Step(
            f"network{fixed}",
            "model",
            {"name": said["network"] + fixed, "num_classes": classes},
            output / f"network{fixed}.pt",
        )
        own = {"model": str(network.output), "preprocessing_name": said["preprocessing_name"]}
        if "model" in step.options:
            networks[network.name] = network
        options = {key: own.get(key, "^logits" if value == "logits" else value) for key, value in step.options.items()}
        changed.append(replace(step, options=options))
    return [*networks.values(), *changed]


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
            report = json.loads((step.output / VERIFIED).read_text())
            accuracy, deviation = 100 * report["accuracy"], 100 * report["accuracy_deviation"]
            lines.append(f"{step.name:12} {report['pairs']} pairs, accuracy {accuracy:.2f} % +- {deviation:.2f}")
        if not step.command.startswith("stage"):
            continue
        run = read_run(step.output)
        last, losses = run.result(), run.curve["train_loss"].dropna()
        trained = f"training loss {losses.iloc[-1]:.4f}" if len(losses) else "no training"
        tested = f"test accuracy {100 * last['test_accuracy']:.2f} %" if run.is_tested else "no test set"
        lines.append(
            f"{step.name:12} {last['epoch']:6.3g} epochs  {trained}  {tested}  {run.curve['seconds'].iloc[-1]:.0f} s"
        )
    return lines


def run(recipe: Recipe, options: argparse.Namespace) -> None:
    """All steps in order. Raises RecipeError for one that fails, or was not made with these options and steps."""
    require_known_options(recipe, Tables(options.dimred).ask)
    ranks = options.ranks or recipe.ranks
    require_order(recipe.steps, ranks)
    for step in recipe.steps:
        words = command_line(step, ranks, options.dimred)
        done = step.is_done()
        print(("# done: " if done else "$ ") + shlex.join(words), flush=True)
        if options.dry_run or done:
            continue
        require_made_so(step, ranks)  # an earlier step may have been made again since
        step.write_note(step.made_with(ranks))
        code = subprocess.run(words, env={"DIMRED_PYTHON": sys.executable, **os.environ}, check=False).returncode
        if code:
            raise RecipeError(f"step {step.name} ended with {code}; run the same command again to continue from there")


def parser(description: str) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("recipe", type=Path, help="a file of experiments/recipes")
    parser.add_argument("--data", type=Path, help="training data of the recipe")
    parser.add_argument("--pretraining_data", type=Path, help="training data of the recipe's backbone")
    parser.add_argument(
        "--backbone",
        type=Path,
        help="weights to use instead of training the backbone: a state_dict of torch, safetensors, a run or a file of"
        " scripts/slim_checkpoint.sh",
    )
    parser.add_argument(
        "--short", action="store_true", help="run the short version, which takes a few minutes on a CPU"
    )
    parser.add_argument("--output", type=Path, help="folder of the runs (default: runs/NAME, or runs/NAME_short)")
    parser.add_argument("--ranks", type=int, help="number of ranks to use instead of the recipe's")
    parser.add_argument(
        "--set",
        nargs="*",
        action="extend",
        default=[],
        metavar="STEP.OPTION=VALUE",
        help="options that replace the recipe's",
    )
    parser.add_argument("--dry_run", action="store_true", help="only print the commands")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser


def read(options: argparse.Namespace, output: Path) -> Recipe:
    """The recipe that the command line means. Raises RecipeError."""
    given = {place: getattr(options, place) for place in PLACES}
    recipe = read_recipe(options.recipe, output, given, options.short, options.backbone)
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
