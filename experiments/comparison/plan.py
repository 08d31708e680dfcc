"""A comparison's TOML, checked key by key before any work."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dimred.runs import flatten

from .options import BUDGET, EPOCHS, RELATIVE, SEED, ConfigError, Option, Tables, line_of, nearest

OWN = "method"  # the role of what is compared with the baselines
ROLES = (OWN, "baseline", "control")
TOP = ("title", "question", "selection_seeds", "confirmation_seeds", "stage1", "matrices", "methods", "axes")
AXES = ("stage1", "matrices", "methods")
EXTRA = ("role", "command", "matrix")  # of a method, beside its recipe; all else are options of its command
RECIPE = "config"  # of a table: a file whose options it begins with
NAME = re.compile(r"[A-Za-z0-9_-]+")  # of methods and matrices: parts of folder names
Options = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """One way to go on from stage 1. A value in `variants` is tried in turn; validation chooses."""

    name: str
    role: str
    command: str  # stage2, or stage1: stage 1 continued
    options: Options
    variants: dict[str, list[Any]]  # may hold `matrix`


@dataclass(frozen=True)
class Plan:
    """The contents of a comparison's TOML."""

    title: str
    selection_seeds: list[int]
    confirmation_seeds: list[int]
    stage1: Options
    matrices: dict[str, Options]
    methods: list[Method]
    axes: dict[str, dict[str, list[Any]]]  # stage1 | matrices | methods -> option -> values
    ask: Tables = field(repr=False)
    tables: dict[str, dict[str, Option]] = field(repr=False)  # of stage1, stage2, pca


class Reader:
    """Turns a TOML text into a Plan; every complaint is one line with file, line and key."""

    def __init__(self, file: Path, ask: Tables) -> None:
        """`ask` knows the options of the subcommands."""
        self.file, self.ask = file, ask
        self.tables: dict[str, dict[str, Option]] = {}
        try:
            self.text = file.read_text()
            self.toml = tomllib.loads(self.text)
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error

    def fail(self, place: str, rule: str) -> None:
        """Raises ConfigError."""
        line = line_of(self.text, place)
        raise ConfigError(f"{self.file}{f':{line}' if line else ''}: {place}: {rule}")

    def table(self, command: str) -> dict[str, Option]:
        """Asked once."""
        if command not in self.tables:
            self.tables[command] = self.ask.ask(command)
        return self.tables[command]

    def known(self, place: str, key: str, names: Iterable[str], what: str) -> None:
        """The key must be one of `names`."""
        names = list(names)
        if key not in names:
            self.fail(f"{place}.{key}" if place else key, f"unknown {what}{nearest(key, names)}")

    def option(self, place: str, key: str, command: str) -> Option:
        """One that a comparison may set."""
        table = self.table(command)
        ours = {name for name, option in table.items() if option.is_set_by_callers}
        if key in ours or (key == SEED and command != "pca"):
            self.fail(f"{place}.{key}", "compare sets this option itself")
        names = [name for name in table if name not in ours]
        extra = {"stage1": [BUDGET], "stage2": []}.get(command, []) if "methods" in place else []
        self.known(place, key, [*names, *extra], f"option of dimred {command}")
        return table.get(key, Option(key, "number"))

    def value(self, place: str, key: str, option: Option, value: Any, relative: bool = False) -> None:
        """Checks one value."""
        checked = value
        if relative and isinstance(value, str) and (found := RELATIVE.match(value)):
            checked = float(value) if found[1] and option.type == "integer" else 1
        rule = option.rule(checked)
        if isinstance(value, str) and not value.isprintable():
            rule = "needs a printable text"
        if not rule and relative and key == BUDGET and checked != int(checked):
            rule = "stage 1 continued needs whole epochs"
        if rule:
            self.fail(f"{place}.{key}", f"{rule}, received {value!r}")

    def values(self, place: str, key: str, option: Option, values: Any, relative: bool = False) -> list[Any]:
        """A list of them, for a sweep."""
        if not isinstance(values, list) or not values:
            self.fail(f"{place}.{key}", f"needs a list of values, received {values!r}")
        for value in values:
            self.value(place, key, option, value, relative)
        return values

    def merged(self, place: str, table: Options) -> Options:
        """The table behind the options of the recipe that `config` names; its path is beside the TOML."""
        if not isinstance(table, dict):
            self.fail(place, f"needs a table, received {table!r}")
        if RECIPE not in table:
            return table
        recipe = self.file.parent / str(table[RECIPE])
        try:
            options = flatten(tomllib.loads(recipe.read_text()))
        except (OSError, tomllib.TOMLDecodeError) as error:
            self.fail(f"{place}.{RECIPE}", f"{recipe}: {error}")
        return options | {key: value for key, value in table.items() if key != RECIPE}

    def plain(self, place: str, table: Options, command: str) -> Options:
        """Options without sweeps."""
        self.table(command)
        merged = self.merged(place, table)
        for key, value in merged.items():
            option = self.option(place, key, command)
            if isinstance(value, list) and not option.is_list:
                self.fail(f"{place}.{key}", f"needs one value; to sweep it write [axes.{place.split('.')[0]}]")
            self.value(place, key, option, value)
        return merged

    def method(self, name: str, table: Options, matrices: Iterable[str]) -> Method:
        """[methods.NAME]: a list as the value of an option is a sweep of its own."""
        place = f"methods.{name}"
        merged = self.merged(place, table)
        command, role = merged.get("command", "stage2"), merged.get("role", OWN)
        if command not in ("stage1", "stage2"):
            self.fail(f"{place}.command", f"needs stage1 or stage2, received {command!r}")
        if role not in ROLES:
            self.fail(f"{place}.role", f"needs one of {', '.join(ROLES)}, received {role!r}")
        self.table(command)
        options: Options = {}
        variants: dict[str, list[Any]] = {}
        for key, value in merged.items():
            if key == "matrix":
                names = value if isinstance(value, list) else [value]
                if not names:
                    self.fail(f"{place}.matrix", "needs the name of a matrix, received []")
                for matrix in names:
                    if matrix not in matrices:
                        self.fail(f"{place}.matrix", f"unknown matrix {matrix!r}{nearest(str(matrix), matrices)}")
                variants[key] = names
            elif key not in EXTRA:
                option = self.option(place, key, command)
                if isinstance(value, list) and not (option.is_list and value and not isinstance(value[0], list)):
                    variants[key] = self.values(place, key, option, value, command == "stage1")
                else:
                    self.value(place, key, option, value, command == "stage1")
                    options[key] = value
        if command == "stage1" and "matrix" in variants:
            self.fail(f"{place}.matrix", "stage 1 takes no matrix")
        return Method(name, role, command, options, variants)

    def read_axes(self, methods: list[Method]) -> dict[str, dict[str, list[Any]]]:
        """[axes.stage1], [axes.matrices], [axes.methods]."""
        axes: dict[str, dict[str, list[Any]]] = {name: {} for name in AXES}
        for table, sweeps in self.toml.get("axes", {}).items():
            self.known("axes", table, AXES, "table of axes")
            commands = {"stage1": ["stage1"], "matrices": ["pca"]}.get(table, sorted({m.command for m in methods}))
            for key, values in sweeps.items():
                place = f"axes.{table}"
                taking = [c for c in commands if key in self.table(c)]
                command = taking[-1] if taking else commands[-1]
                option = self.option(place, key, command)
                continued = key == BUDGET and any(sets_length(method) is False for method in methods)
                axes[table][key] = self.values(place, key, option, values, continued)
        return axes

    def seeds(self, key: str) -> list[int]:
        """A list of whole numbers, each once."""
        seeds = self.toml.get(key, [])
        whole = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
        if not whole or len(set(seeds)) < len(seeds):
            self.fail(key, f"needs a list of different whole numbers, received {seeds!r}")
        return seeds

    def kinds(self) -> None:
        """Checks that texts are texts and tables tables, and that names can be those of folders."""
        for key in ("title", "question"):
            if not isinstance(self.toml.get(key, ""), str):
                self.fail(key, f"needs a text, received {self.toml[key]!r}")
        for key in ("stage1", "matrices", "methods", "axes"):
            table = self.toml.get(key, {})
            if not isinstance(table, dict):
                self.fail(key, f"needs a table, received {table!r}")
            for name, value in table.items() if key != "stage1" else ():
                if not isinstance(value, dict):
                    self.fail(f"{key}.{name}", f"needs a table, received {value!r}")
                if not NAME.fullmatch(name):
                    self.fail(key, f"needs names of letters, digits, _ and -, received {name!r}")

    def live(
        self,
        axes: dict[str, dict[str, list[Any]]],
        stage1: Options,
        matrices: dict[str, Options],
        methods: list[Method],
    ) -> None:
        """Checks that every axis changes something: no axis touches what a matrix or method sets itself."""
        for key in axes["matrices"]:
            if not any(key not in own for own in matrices.values()):
                self.fail(f"axes.matrices.{key}", "changes nothing: every matrix sets this option, or no matrix exists")
        for key in axes["methods"]:
            takes = [m for m in methods if key in self.table(m.command) or (m.command == "stage1" and key == BUDGET)]
            free = [m for m in takes if key not in m.options | m.variants]
            if not free:
                self.fail(f"axes.methods.{key}", "changes nothing: every method with this option sets it itself")
            swept = {*axes["methods"], *axes["stage1"]}
            if all(
                key
                in self.ask.idle(
                    m.command, (stage1 if m.command == "stage1" else {}) | m.options, {*m.variants, *swept}
                )
                for m in free
            ):
                self.fail(f"axes.methods.{key}", "changes nothing: no method uses this option")

    def read(self) -> Plan:
        """The whole file."""
        for key in self.toml:
            self.known("", key, TOP, "key")
        self.kinds()
        for key in ("selection_seeds", "stage1", "methods"):
            if not self.toml.get(key):
                self.fail(key, "is needed")
        selection, confirmation = self.seeds("selection_seeds"), self.seeds("confirmation_seeds")
        if both := set(selection) & set(confirmation):
            self.fail("confirmation_seeds", f"needs other seeds than selection_seeds, received {sorted(both)} in both")
        stage1 = self.plain("stage1", self.toml["stage1"], "stage1")
        matrices = {
            name: self.plain(f"matrices.{name}", table, "pca") for name, table in self.toml.get("matrices", {}).items()
        }
        methods = [self.method(name, table, list(matrices)) for name, table in self.toml["methods"].items()]
        axes = self.read_axes(methods)
        self.live(axes, stage1, matrices, methods)
        for method in methods:
            if sets_length(method) is False and not {EPOCHS, BUDGET} & set(axes["methods"]):
                self.fail(f"methods.{method.name}", "needs epochs or budget")
        if EPOCHS not in stage1 | axes["stage1"]:
            self.fail("stage1.epochs", "is needed")
        for method in methods:
            if {EPOCHS, BUDGET} <= {*method.options, *method.variants}:
                self.fail(f"methods.{method.name}", "needs epochs or budget, received both")
        if not all(axes["stage1"].get("validation_fraction", [stage1.get("validation_fraction", 0)])):
            self.fail("stage1.validation_fraction", "needs > 0: validation chooses variants and the best baseline")
        title = self.toml.get("title", self.file.stem)
        return Plan(title, selection, confirmation, stage1, matrices, methods, axes, self.ask, self.tables)


def sets_length(method: Method) -> bool | None:
    """Whether stage 1 continued says itself how far; None for stage 2, which has a default."""
    own = {*method.options, *method.variants}
    return bool({EPOCHS, BUDGET} & own) if method.command == "stage1" else None


def read_plan(file: Path, ask: Tables) -> Plan:
    """Reads and checks a comparison's TOML. Raises ConfigError."""
    return Reader(file, ask).read()
