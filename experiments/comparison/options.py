"""The options of dimred's subcommands, as their --help json says them, and the check of a table of them."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.jobs import flags

RELATIVE = re.compile(r"\+\d+(\.\d+)?$")  # "+2": two epochs after stage 1's end
SET_BY_CALLERS = {"input", "output", "overwrite", "threads", "quiet"}  # roles: a comparison chooses these itself
EPOCHS, BUDGET, SEED = "epochs", "budget", "seed"  # a run's length and draw, which a comparison itself reasons about
TYPES: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}  # others: a text
WORDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}


class ConfigError(ValueError):
    """Something in the comparison's TOML that cannot be meant; the text is one line."""


@dataclass(frozen=True)
class Option:
    """One option: its type is integer, number, boolean, text, path, choice or numbers."""

    name: str
    type: str
    choices: tuple[str, ...] = ()
    role: str | None = None
    acts: bool = True  # it has an effect beside the others' values
    depends_on: frozenset[str] = frozenset()  # options that decide whether it does

    @property
    def is_list(self) -> bool:
        """Whether a value is itself a list."""
        return self.type == "numbers"

    @property
    def is_set_by_callers(self) -> bool:
        """Whether a comparison chooses it itself: where a run reads and writes, and how it uses the machine."""
        return self.role in SET_BY_CALLERS

    def rule(self, value: Any) -> str:
        """The rule that the value breaks; empty when it may pass (dimred itself checks ranges)."""
        if self.is_list:
            numbers = isinstance(value, list) and all(Option("", "number").rule(item) == "" for item in value)
            return "" if numbers else "needs a list of numbers"
        if self.choices:
            return "" if value in self.choices else f"needs one of {', '.join(self.choices)}"
        wrong = not isinstance(value, TYPES.get(self.type, (str,)))
        is_truth = isinstance(value, bool) and self.type in ("integer", "number")
        return f"needs {WORDS.get(self.type, 'a text')}" if wrong or is_truth else ""


def parse_table(text: str) -> dict[str, Option]:
    """The option table from the text of --help json, other names for an option included."""
    options: dict[str, Option] = {}
    for row in json.loads(text)["options"]:
        depends_on = frozenset(row["needs"]["depends_on"] if row["needs"] else ())
        option = Option(row["name"], row["type"], tuple(row["choices"]), row["role"], row["acts"], depends_on)
        options |= {name: option for name in (row["name"], row["alias"]) if name}
    return options


@cache
def told_by(binary: Path, command: str, given: tuple[str, ...], made: int) -> dict[str, Option]:
    """The options of `dimred command` beside the flags `given`, of the binary of that time (ns), asked once."""
    words = [str(binary), command, *given, "--help", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 2:
        raise ConfigError(done.stderr.strip())
    done.check_returncode()
    return parse_table(done.stdout)


class Tables:
    """The options of a dimred program's subcommands."""

    def __init__(self, binary: Path) -> None:
        """Nothing is asked yet."""
        self.binary = binary

    def ask(self, command: str, given: tuple[str, ...] = ()) -> dict[str, Option]:
        """Not to be changed. Raises ConfigError when the program cannot be asked."""
        try:
            made = self.binary.stat().st_mtime_ns if self.binary.exists() else 0  # found along PATH
            return told_by(self.binary, command, given, made)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if isinstance(error, ConfigError):
                raise
            rule = f"{self.binary} {command} --help json: {error}; is dimred built? (scripts/setup.sh builds it)"
            raise ConfigError(rule) from error

    def idle(self, command: str, options: Mapping[str, Any], open_options: Collection[str] = ()) -> set[str]:
        """Options that dimred refuses beside these, as they leave them without effect. `open_options` are given, too,
        with values not known here: what depends on them is not among the answer."""
        table = self.ask(command)
        deciding = frozenset[str]().union(*(option.depends_on for option in table.values()))
        given = {key: value for key, value in options.items() if key in deciding}
        beside = self.ask(command, tuple(sorted(flags(given))))
        return {name for name, option in beside.items() if not option.acts and not option.depends_on & {*open_options}}


def nearest(name: str, known: Iterable[str]) -> str:
    """`; nearest: ...` for a name that is not known; nothing where none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; nearest: {close[0]}" if close else ""


def line_of(text: str, place: str) -> int:
    """Line on which the dotted key stands in a TOML text, or that of its table; 0: not found."""
    table, best = "", (0, 0)
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = head[1].replace('"', "")
            here = table
        elif key := re.match(r"\s*\"?([\w.\-]+)\"?\s*=", line):
            here = f"{table}.{key[1]}" if table else key[1]
        else:
            continue
        if place == here or place.startswith(here + "."):
            best = max(best, (len(here), number))
    return best[1]
