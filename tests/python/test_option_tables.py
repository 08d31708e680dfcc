"""Other systems' names for our options: each of their targets is a row of a table, which dimred itself prints."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from dimred.runs.grouping import SAME_EXPERIMENT

REPOSITORY = Path(__file__).resolve().parents[2]
LIB = REPOSITORY / "lib"


def rows_of(execute: Callable[..., str], command: str) -> list[dict[str, Any]]:
    """The table of its options."""
    return json.loads(execute("dimred", *command.split(), "--help", "json"))["options"]


def names_of(execute: Callable[..., str], *commands: str) -> set[str]:
    """The options of these commands."""
    return {row["name"] for command in commands for row in rows_of(execute, command)}


def test_targets_of_the_imports_are_options(execute) -> None:
    fastnn = (LIB / "imports/fastnn.cpp").read_text()
    named = re.findall(r'\b(?:as|if_given|local_folder|chosen_files)\("(\w+)"', fastnn)
    named += re.findall(r'\bof\((?:\w+|\{[^}]*\}), "(\w+)"\)', fastnn) + re.findall(
        r'settings\.push_back\(\{"(\w+)"', fastnn
    )
    maps = re.findall(r"\bmap\(\{(\{.*?\})\}", fastnn)
    found = {*named, *(name for text in maps for name in re.findall(r'\{"(\w+)", ', text))}
    stage1 = names_of(execute, "stage1")
    assert {"learning_rate", "prefetch", "test_data", "adam_beta1", "model", "total_steps", "bucket_mb"} <= found
    assert found <= stage1, found - stage1
    boost = (LIB / "imports/mindspore.cpp").read_text()
    targets = {name for name in re.findall(r'\{"\w+",\s*"\w+",\s*"(\w*)",', boost) if name}
    assert {"rho", "n_component", "collective_timeout"} <= targets
    assert targets <= names_of(execute, "stage2")


def script(name: str) -> ModuleType:
    """A module of scripts/."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_resume_may_change_inputs_and_seeds_make_no_other_experiment() -> None:
    """A run's length is another experiment, though a resume may change it; older versions' names stay."""
    rows = [
        {"name": name, "resume": resume, "role": role}
        for name, resume, role in (
            ("threads", "free", "threads"),
            ("epochs", "free", None),
            ("snapshots", "fixed", "input"),
            ("data", "fixed", "data"),
            ("test_data", "fixed", None),
            ("split_seed", "fixed", None),
            ("bucket_mb", "fixed", None),
            ("learning_rate", "fixed", None),
            ("was_free", "fixed", None),
        )
    ]
    found = script("options_reference").same_experiment(rows, ["label_noise_seed", "threads", "was_free"])
    assert found == ["bucket_mb", "data", "label_noise_seed", "snapshots", "split_seed", "test_data", "threads"]


def test_reports_group_runs_by_the_tables_of_the_options(execute) -> None:
    rows = [row for command in ("stage1", "stage2") for row in rows_of(execute, command)]
    expected = script("options_reference").same_experiment(rows, SAME_EXPERIMENT)
    assert expected == sorted(SAME_EXPERIMENT)
    assert "label_noise_seed" in SAME_EXPERIMENT  # an option of runs that 8b694755 made
    assert {"output", "seed", "basis_seed", "checkpoint", "data", "start_file"} <= SAME_EXPERIMENT
    assert not {"epochs", "learning_rate", "n_component", "preset", "initialize_from"} & SAME_EXPERIMENT


IDLE: dict[str, dict[str, tuple[str, ...]]] = {
    "pca": {
        "gram": ("--gram=g.npy", "--centre=base"),
        "centre": ("--centre=base", "--kind=random"),
        "seed": ("--seed=3", "--kind=span"),
    },
    "merge": {
        "decay": ("--decay=0.5",),
        "alpha": ("--alpha=0.5", "--kind=ema"),
        "gamma": ("--gamma=3", "--kind=pma-ema"),
    },
    "data convert": {"files": ("--files=2", "--to=packed"), "seed": ("--seed=5", "--to=tfrecord")},
    "data preview": {"seed": ("--seed=5", "--preprocessing_name=fashion")},
    "data pack": {"quality": ("--quality=80", "--encoding=keep")},
    "import": {"overwrite": ("FILE", "--overwrite")},
}


def test_commands_without_a_network_refuse_options_without_effect(execute, fails) -> None:
    """All that need a condition, as their tables say; what trains or evaluates is checked where it is resolved."""
    data = ("convert", "index", "inspect", "pack", "preview", "shuffle-split")
    for command in ("pca", "merge", "import", "inspect", "inspect --trajectory=x", *(f"data {tool}" for tool in data)):
        cases = IDLE.get(command, {})
        assert {row["name"] for row in rows_of(execute, command) if row["needs"]} == set(cases), command
        for name, words in cases.items():
            assert f"] {name} has no effect: it needs " in fails(2, *command.split(), *words)
    drawn = fails(2, "inspect", "--schedule", "linear", "--power", "3")
    assert "power has no effect: it needs schedule = polynomial" in drawn
    assert "precision has no effect" in fails(2, "export", "RUN", "--precision", "bfloat16")
    assert "amp_deny has no effect" in fails(2, "export", "RUN", "--amp_deny", "relu")


def words_of_commands(execute: Callable[..., str]) -> list[list[str]]:
    """The words of every command, of its tools and of what stands in its place."""
    commands = re.findall(r"^  ([a-z]\w+)  ", execute("dimred", "--help"), re.MULTILINE)
    tools = [
        [name, tool]
        for name in ("data", "store")
        for tool in re.findall(r"^  ([a-z][\w-]+)  ", execute("dimred", name, "--help"), re.MULTILINE)
    ]
    others = [["inspect", f"--{name}"] for name in ("schedule", "landscape", "trajectory", "model")]
    return [*([name] for name in commands), *tools, *others, ["stage1", "--find_learning_rate", "x.csv"]]


def test_the_help_of_every_command_fits_a_screen(execute) -> None:
    """Fifty lines of a hundred columns; what is left out can be asked for."""
    every = words_of_commands(execute)
    assert len(every) > 25
    for words in every:
        lines = execute("dimred", *words, "--help").splitlines()
        assert len(lines) <= 50, words
        assert max(map(len, lines)) <= 120, words
        all_lines = execute("dimred", *words, "--help", "all").splitlines()
        assert len(all_lines) == len(lines) or any("--help all" in line for line in lines), words


def test_predict_names_its_images_in_its_usage(execute) -> None:
    assert "\nusage: dimred predict WEIGHTS IMAGE... [options]\n" in execute("dimred", "predict", "--help")


def test_a_word_with_a_dash_is_no_checkpoint(fails) -> None:
    """A command that takes any number of files takes no mistyped option for one."""
    assert "-output: unknown option" in fails(2, "merge", "a.safetensors", "-output", "x")


def test_a_seed_says_what_it_needs(execute) -> None:
    """A seed without effect would be a control that is none."""
    of_data = {"split_seed": "validation_fraction > 0"}
    expected: dict[str, dict[str, str | None]] = {
        "stage1": {"seed": None, **of_data},
        "stage2": {"seed": None, "basis_seed": "pca_mat to be unset and basis = random or shuffled", **of_data},
        "evaluate": {"seed": "recalibrate_batchnorm or validation_fraction > 0", **of_data},
        "inspect --landscape=x": {"seed": "samples > 0, batchnorm = recalibrate or validation_fraction > 0", **of_data},
        "pca": {"seed": "kind = random or shuffled"},
        "data preview": {
            "seed": "(preprocessing_name = imagenet, inception, vgg or cifarnet), pad > 0, flip or colour_jitter"
        },
    }
    for command, seeds in expected.items():
        rows = [row for row in rows_of(execute, command) if row["name"].endswith("seed")]
        assert {row["name"]: row["needs"] and row["needs"]["text"] for row in rows} == seeds, command


def test_names_of_other_trainers_lead_to_options(execute) -> None:
    """Commands that a name stands for are among them."""
    text = (LIB / "support/translated.cpp").read_text()
    targets = set(re.findall(r'Name\{"[\w-]+", "([\w-]+)"\}', text))
    options = names_of(execute, "stage1", "stage2", "pca", "evaluate", "predict")
    commands = set(re.findall(r"^  ([a-z]\w+) ", execute("dimred", "--help"), re.MULTILINE))
    assert len(targets) > 20
    assert targets <= options | commands, targets - options - commands


def test_the_gate_finds_options_outside_their_table() -> None:
    lint = script("lint_options")
    names = {"power", "rate", "warmup_epochs"}
    for text, found in (
        ('table.add("power", &power, "of it").needs(is("rate", {"power", "rate"}) || above("warmup_epochs"));', []),
        ('if (was_set("warmup_epochs")) f();', ["warmup_epochs"]),
        ('constexpr std::array free{"power", "rate"};', ["power", "rate"]),
        ('json["rate"] = 1; json.at("warmup_epochs"); put({{"warmup_epochs", 3}}); open("power");', []),
    ):
        assert [name for _, name in lint.uses_in_cpp(text, names)] == found, text
    for text, found in (
        ('FREE = ("power", "rate")\nprint("rate")', ["power", "rate"]),
        ('table = {"warmup_epochs": 1}\ntable.get("warmup_epochs")\ntable[["rate", "power"]]', []),
        ('ask("warmup_epochs")', ["warmup_epochs"]),
    ):
        assert sorted(name for _, name in lint.uses_in_python(text, names)) == found, text
