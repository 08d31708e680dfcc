"""The options of dimred's subcommands, as their --help prints them, and the check of a table of them."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LINE = re.compile(r"  --(\w+)(?: (\S+))?(?:\s{2,}(.*))?$")
CHOICES = re.compile(r"\(([^()|]+(?: \| [^()|;]+)+)(?:; default [^()]*)?\)")
ALIAS = re.compile(r"; also (\w+)(?: \(|$)")  # another name for the same
RELATIVE = re.compile(r"\+\d+(\.\d+)?$")  # "+2": so many epochs behind stage 1's end


class ConfigError(ValueError):
    """Something in the comparison's TOML that cannot be meant; the text is one line."""


@dataclass(frozen=True)
class Option:
    """One option: `kind` is N, X, NAME, TEXT, PATH, X,X,... or empty for a switch."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether a value is itself a list."""
        return self.kind.endswith("...")

    def rule(self, value: Any) -> str:
        """The rule that the value breaks; empty when it may pass (dimred itself checks ranges)."""
        if self.is_list:
            numbers = isinstance(value, list) and all(Option("", "X").rule(item) == "" for item in value)
            return "" if numbers else "needs a list of numbers"
        if self.choices:
            return "" if value in self.choices else f"needs one of {', '.join(self.choices)}"
        wanted = {"N": int, "X": (int, float), "": bool}.get(self.kind, str)
        wrong = not isinstance(value, wanted) or (self.kind in ("N", "X") and isinstance(value, bool))
        names = {"N": "a whole number", "X": "a number", "": "true or false"}
        return f"needs {names.get(self.kind, 'a text')}" if wrong else ""


def parse_help(text: str) -> dict[str, Option]:
    """The option table from the text of --help, other names for an option included; descriptions may run over
    several lines."""
    below = re.sub(r"^(  --\w+(?: \S+)?)\n {10,}", r"\1  ", text, flags=re.MULTILINE)  # names too long for a line
    joined = re.sub(r"\n {10,}", " ", below)
    options = {}
    for line in joined.splitlines():
        if found := LINE.match(line):
            name, kind, description = found.groups(default="")
            choices = CHOICES.search(description) if kind == "NAME" else None
            options[name] = Option(name, kind, tuple(choices[1].split(" | ")) if choices else ())
            if alias := ALIAS.search(description):
                options[alias[1]] = options[name]
    return options


@cache
def told_by(binary: Path, command: str, made: int) -> dict[str, Option]:
    """The options of `dimred command`, of the binary of that time (ns), which is asked once."""
    done = subprocess.run([binary, command, "--help", "all"], capture_output=True, text=True, timeout=60, check=True)
    return parse_help(done.stdout)


def read_options_of(binary: Path, command: str) -> dict[str, Option]:
    """The options of `dimred command`, not to be changed. Raises ConfigError when it cannot be asked."""
    try:
        made = binary.stat().st_mtime_ns if binary.exists() else 0  # found along PATH
        return told_by(binary, command, made)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{binary} {command} --help all: {error}; is it built? (scripts/setup.sh)") from error


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
