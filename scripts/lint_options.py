"""Options that are known outside their table: lint_options.py FILE... (all C++ and Python files, paths from here).

The table that defines an option is the one place that knows it (docs/decisions.md). A text that equals an option's name
is reported, unless it stands where an option is defined or a condition names one, is a key of JSON or of a mapping, or
is excepted below. A name of one plain word (data, steps, weights) is also a folder's, a column's or a vector's: it is
reported beside another option's name in one list. Tests are not looked at: they say what they expect.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DEFINED = re.compile(r'\b(?:add|add_choice)(?:<\w+>)?\(\s*"(\w{2,})"')
NO_TABLES = ("tests/", "experiments/")  # programs of their own
IN_TABLES = re.compile(  # calls whose arguments are of a row's definition
    r"\b(?:add|add_choice)(?:<\w+>)?\(|\b(?:is|is_on|above|has_value|given|chosen_by|choose_defaults|alias)\("
    r"|\.chosen_by = "
)
KEYS = re.compile(r"(?:\[|\bat\(|\bvalue\(|\bcontains\(|\bcount_of\([\w.]+, )$")  # of JSON
LITERAL = re.compile(r'"(\w+)"')
MAPPINGS = {"get", "pop", "setdefault", "at"}

# Files, the texts that may stand there (all where none is named), and why. One that excepts nothing is reported, too.
EXCEPTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("lib/imports/", (), "other systems' names for ours; tests/python/test_option_tables.py: each is a row"),
    ("lib/support/translated.cpp", (), "other programs' names for ours; the same test"),
    (
        "lib/options/option_help.cpp",
        ("data", "output", "overwrite", "threads", "quiet", "stream_cache", "stream_fetches"),
        "the names of roles in --help json",
    ),
    ("experiments/comparison/options.py", ("output", "overwrite", "threads", "quiet"), "the same roles"),
    ("experiments/comparison/options.py", ("epochs", "budget", "seed"), "what a comparison itself sets"),
    ("experiments/benchmarks/", (), "flags of other trainers and of the benchmarks' own programs"),
    ("commands/trainer_main.cpp", ("find_learning_rate",), "which command it is, before it has a table"),
    ("lib/models/autocast.cpp", ("amp_allow", "amp_deny"), "messages of checks that are made without a table, too"),
    ("lib/models/initialization.cpp", ("batch_norm_eps", "batch_norm_momentum"), "the same"),
    ("lib/models/margin.cpp", ("margin_loss",), "the scope of a message, which a user knows as the option"),
    ("lib/engine/passes/loss_scale.cpp", ("loss_scale",), "the same"),
    ("pca/basis.cpp", ("pca_mat",), "the same"),
    ("lib/serving/signature.cpp", ("batch_norm_eps",), "a key of signature.json"),
    ("lib/engine/data_sets.cpp", ("train_samples", "test_samples"), "messages of checks without a table"),
    (
        "experiments/",
        tuple("components device epochs method pairs seed threads trials weights".split()),
        "columns of results",
    ),
    (
        "experiments/",
        ("global_batch_size", "precision", "preprocessing_name", "data", "test_data"),
        "keys of files of a run",
    ),
    ("experiments/workbench/files.py", ("best", "checkpoints", "snapshots"), "folders of a run"),
    ("checkpoints/last_rate.cpp", ("learning_rate",), "a column of curve.csv"),
    ("checkpoints/state.h", ("weights", "momentum"), "vectors of a state"),
    (
        "checkpoints/weight_names.cpp",
        ("learning_rate", "momentum", "weight_decay", "loss_scale"),
        "tensors that other programs keep beside weights",
    ),
    ("lib/data/splits.cpp", ("test_data",), "messages of a room without a table"),
    (
        "commands/saved_weights.cpp",
        ("pad", "flip", "colour_jitter", "seed"),
        "options that only the recalibration of BatchNorm uses, which no table knows",
    ),
    ("lib/serving/pairs.cpp", ("pairs",), "parts of a pickle"),
    ("lib/support/result_file.cpp", ("best", "checkpoints"), "folders of a run"),
    (
        "lib/run/weights/weights.cpp",
        ("weights", "start_latest"),
        "scope and option in the refusal of an unordered series",
    ),
    ("lib/run/run_folder.cpp", ("best", "checkpoints"), "folders of a run"),
    ("scripts/bundle/make.py", ("device_algebra",), "a program of ours"),
    ("scripts/lint_options.py", (), "this list"),
    (
        "scripts/options_reference.py",
        ("epochs", "stop_at_step", "test_data", "start_file", "bucket_mb", "first_bucket_mb"),
        "what the columns of the table do not tell about an experiment",
    ),
    (
        "scripts/schedule_length.py",
        ("total_epochs", "total_steps", "find_learning_rate"),
        "flags that leave the schedule alone, also where a value is the default",
    ),
    ("python/bindings.cpp", ("copy_from", "allow_different_config", "shard_size"), "names of Python arguments"),
    ("python/inspect_bindings.cpp", ("write_manifest",), "names of Python arguments"),
    ("python/dimred/_arguments.py", ("decay", "alpha", "gamma"), "names of Python arguments"),
    ("python/dimred/_inspect.py", ("dtype", "file", "write_manifest"), "names of Python arguments and columns"),
    (
        "python/dimred/_merge.py",
        ("kind", "last", "stride", "decay", "alpha", "gamma", "coefficients", "copy_from"),
        "names of Python arguments",
    ),
    ("python/method_bindings.cpp", ("weight_decay", "sam_radius"), "names of Python properties"),
    ("python/dimred/__init__.py", ("average", "recalibrate_batchnorm", "trajectory"), "functions of the package"),
    (
        "python/dimred/",
        ("allow_different_config", "weight_decay", "weight_decay_of", "sam_radius", "total_steps"),
        "names of Python arguments",
    ),
    (
        "python/dimred/_trajectory.py",
        ("flips", "block", "window", "seed", "name", "weights"),
        "names of Python arguments and columns",
    ),
    ("python/dimred/_trained.py", ("name",), "a key of an optimizer's group"),
)


def is_cpp(file: str) -> bool:
    """Whether the file is C++ source."""
    return file.endswith((".cpp", ".h", ".inc", ".cu", ".cuh"))


def exceptions_for(file: str, name: str) -> set[int]:
    """Where EXCEPTIONS has the name in this file."""
    return {
        i for i, (place, names, _) in enumerate(EXCEPTIONS) if file.startswith(place) and (not names or name in names)
    }


def option_names(files: Iterable[str]) -> set[str]:
    """The names that the C++ tables define."""
    tables = (file for file in files if is_cpp(file) and not file.startswith(NO_TABLES))
    return {name for file in tables for name in DEFINED.findall(Path(file).read_text())}


def is_in_table(text: str, start: int) -> bool:
    """Whether the literal is the first argument of a call of IN_TABLES, or any of a condition's."""
    line = text[max(0, start - 200) : start]
    calls = [call for call in IN_TABLES.finditer(line) if line.count("(", call.end()) == line.count(")", call.end())]
    return bool(calls) and (not calls[-1][0].startswith("add") or not line[calls[-1].end() :].strip())


def uses_in_cpp(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of each name outside tables and keys."""
    listed = {
        start
        for found in re.finditer(r'"(\w+)",\s*(?="(\w+)")', text)
        if {found[1], found[2]} <= names
        for start in (found.start(), found.end())
    }
    for found in LITERAL.finditer(text):
        start, name = found.start(), found[1]
        if name not in names or not ("_" in name or start in listed):
            continue
        before = text[max(0, start - 60) : start]
        is_pair = re.search(r"\{\s*$", before) and re.match(r",\s*[^\s\"]", text[found.end() : found.end() + 9])
        if not (is_in_table(text, start) or KEYS.search(before) or is_pair):
            yield text.count("\n", 0, start) + 1, name


def keys_of(node: ast.AST) -> list[ast.expr]:
    """The expressions that are keys in it: also the columns of a table."""
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key]
    if isinstance(node, ast.Subscript):
        return [node.slice, *(node.slice.elts if isinstance(node.slice, ast.List | ast.Tuple) else [])]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAPPINGS:
        return node.args[:1]
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return [node.left]
    return []


def uses_in_python(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of each name that is no key."""
    nodes = list(ast.walk(ast.parse(text)))
    keys = {id(key) for node in nodes for key in keys_of(node)}
    lists = [node.elts for node in nodes if isinstance(node, ast.List | ast.Tuple | ast.Set)]
    named = [[item for item in items if isinstance(item, ast.Constant) and item.value in names] for items in lists]
    listed = {id(item) for items in named if len(items) > 1 for item in items}
    for node in nodes:
        if not isinstance(node, ast.Constant) or node.value not in names or id(node) in keys:
            continue
        name = str(node.value)
        if "_" in name or id(node) in listed:
            yield node.lineno, name


def main() -> int:
    """Prints the findings; 1 where there are any."""
    files = [file for file in sys.argv[1:] if is_cpp(file) or file.endswith(".py")]
    names, found, used = option_names(files), 0, set[int]()
    for file in files:
        if file.startswith("tests/"):
            continue
        uses = uses_in_cpp if is_cpp(file) else uses_in_python
        for line, name in uses(Path(file).read_text(), names):
            excepted = exceptions_for(file, name)
            used |= excepted
            if not excepted:
                print(f'{file}:{line}: "{name}" is an option, and only its table may use the name')
                found += 1
    for i, (place, *_) in enumerate(EXCEPTIONS):
        if i not in used and any(file.startswith(place) for file in files):
            print(f"scripts/lint_options.py: exception {i + 1} for {place} matches nothing; remove the exception")
            found += 1
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
