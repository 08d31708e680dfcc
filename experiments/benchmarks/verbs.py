"""Measures `dimred convert`, `diff` and `inspect` against `cat` and `cp`, and against torch, accelerate and PEFT.

`cat` and `cp` read a checkpoint in 100 shards; torch, accelerate and PEFT read a smaller checkpoint.

python experiments/benchmarks/verbs.py --json docs/results/verbs.json

Makes its own files below --folder, removes them, and needs disk for five times --size. The contestants of a task take
turns, each round beginning with another, first with the inputs in the page cache, then without. Ratios are within a
round. `cat` and `cp` do not wait until the disk has what they wrote; `dimred convert` and `cat + cp + sync` do. torch,
accelerate and PEFT are those of --peers, a Python with requirements/test.txt; imports are counted.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor
from merge import BYTES, Cost, Form, bytes_of, floats_of, measured, share_not_nearest, write_checkpoint

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).with_name("verb_peers.py")
SHARDS = 100
STATES = {"warm": "page cache", "cold": "disk"}
GOAL_OF_MEMORY = 64 * 2**20
QUERIES = "model.layers.0.self_attn.q_proj"
RENAMES = r"^model\.(.*) -> \1"  # of the key under which FSDP's users save a model


@dataclass(frozen=True)
class Contestant:
    """A command, what it writes and the exit codes that it may have."""

    command: list[str]
    made: Path | None = None
    codes: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Task:
    """Contestants that read the files of the same folders; the first one is the yardstick."""

    inputs: list[Path]
    contestants: dict[str, Contestant]
    goal: float | None = None  # of dimred's seconds by the yardstick's, from disk
    facts: Callable[[], dict[str, float]] | None = None  # of the outputs of the last round

    def files(self) -> list[Path]:
        """Every file of the inputs."""
        return [file for folder in self.inputs for file in sorted(folder.iterdir())]

    def ours(self) -> str:
        """The name of dimred's contestant."""
        return next(name for name in self.contestants if name.startswith("dimred"))


class Inputs:
    """The checkpoints that the tasks read, each made when the first task asks for it."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.program = str(options.dimred)

    def out(self, name: str) -> Path:
        """A place for what a contestant writes."""
        return self.folder / "out" / name

    def by_peers(self, call: str, *paths: Path) -> list[str]:
        """The command of a function of verb_peers.py."""
        return [str(self.options.peers), str(PEERS), call, *map(str, paths)]

    def checkpoint(self, name: str, seed: int) -> Path:
        """A Llama of --size in 100 shards, of a layer each."""
        width = 1024 if self.options.size >= 2 else 256
        form = Form(layers=SHARDS, width=width, shards=SHARDS)
        write_checkpoint(self.folder / name, int(1e9 * self.options.size / BYTES), seed, form)
        return self.folder / name

    @functools.cached_property
    def model(self) -> Path:
        """What every verb reads."""
        return self.checkpoint("model", 1)

    @functools.cached_property
    def other(self) -> Path:
        """A model that differs in nearly every value."""
        return self.checkpoint("other", 2)

    @functools.cached_property
    def same(self) -> Path:
        """Another copy of the model."""
        return Path(shutil.copytree(self.model, self.folder / "same"))

    @functools.cached_property
    def base(self) -> Path:
        """The smaller model that peers read."""
        write_checkpoint(self.folder / "base", int(1e9 * min(1, self.options.size) / BYTES), 3)
        return self.folder / "base"

    @functools.cached_property
    def distributed(self) -> Path:
        """The smaller model as a distributed checkpoint."""
        subprocess.run(self.by_peers("make_distributed", self.base, self.folder / "distributed"), check=True)
        return self.folder / "distributed"

    @functools.cached_property
    def adapter(self) -> Path:
        """An adapter of PEFT's for the smaller model."""
        subprocess.run(self.by_peers("make_adapter", self.base, self.folder / "adapter"), check=True)
        return self.folder / "adapter"


def shell(*commands: str) -> list[str]:
    """One shell that runs commands in turn until one fails."""
    return ["sh", "-c", " && ".join(commands)]


def cat(*folders: Path) -> str:
    """A command that reads every file."""
    return f"cat {' '.join(f'{shlex.quote(str(folder))}/*' for folder in folders)} > /dev/null"


def cat_and_cp(folder: Path, copy: Path) -> dict[str, Contestant]:
    """Reads a folder, copies it; without and with a wait for the disk."""
    made = shlex.quote(str(copy))
    copying = f"cp -r --reflink=never {shlex.quote(str(folder))} {made}"
    return {
        "cat + cp": Contestant(shell(cat(folder), copying), copy),
        "cat + cp + sync": Contestant(shell(cat(folder), copying, f"sync {made}/*"), copy),
    }


def convert(inputs: Inputs) -> Task:
    """A conversion that keeps shards and bits."""
    output = inputs.out("converted")
    ours = [inputs.program, "convert", str(inputs.model), "--output", str(output)]
    contestants = cat_and_cp(inputs.model, inputs.out("copy")) | {"dimred convert": Contestant(ours, output)}
    return Task([inputs.model], contestants, 1.3)


def difference(inputs: Inputs, other: Path, code: int) -> Task:
    """A comparison that ends with `code`."""
    ours = [inputs.program, "diff", str(inputs.model), str(other)]
    contestants = {"cat": Contestant(shell(cat(inputs.model, other))), "dimred diff": Contestant(ours, codes=(code,))}
    return Task([inputs.model, other], contestants, 1.25)


def check(inputs: Inputs) -> Task:
    """A search for NaN, infinities and a wrong index."""
    ours = [inputs.program, "inspect", str(inputs.model), "--check"]
    contestants = {"cat": Contestant(shell(cat(inputs.model))), "dimred inspect --check": Contestant(ours)}
    return Task([inputs.model], contestants, 1.25)


def manifest(inputs: Inputs) -> Task:
    """SHA-256 of files and tensors; sha256sum makes that of files alone."""
    output = inputs.out("manifest")
    sums = f"sha256sum {shlex.quote(str(inputs.model))}/* > /dev/null"
    ours = [inputs.program, "inspect", str(inputs.model), "--write_manifest", str(output)]
    contestants = {
        "cat": Contestant(shell(cat(inputs.model))),
        "sha256sum": Contestant(shell(sums)),
        "dimred inspect --write_manifest": Contestant(ours, output),
    }
    return Task([inputs.model], contestants)


def distributed(inputs: Inputs) -> Task:
    """A distributed checkpoint as one file."""
    source, output = inputs.distributed, inputs.out("gathered")
    rules = inputs.folder / "renames.txt"
    rules.write_text(f"{RENAMES}\n")
    ours = [inputs.program, "convert", str(source), "--output", str(output), "--rename", str(rules)]
    torchs, accelerates = inputs.out("gathered.pt"), inputs.out("accelerate")
    contestants = cat_and_cp(source, inputs.out("copy")) | {
        "dimred convert": Contestant(ours, output),
        "torch": Contestant(inputs.by_peers("dcp_to_torch_save", source, torchs), torchs),
        "accelerate": Contestant(inputs.by_peers("merge_fsdp_weights", source, accelerates), accelerates),
    }

    def facts() -> dict[str, float]:
        places = json.loads((inputs.base / "model.safetensors.index.json").read_text())["weight_map"]
        size = sum(map(size_of, inputs.base.glob("*.safetensors")))
        return {
            f"tensors with other bits: {name}": sum(bytes_of(inputs.base, key) != bytes_of(made, key) for key in places)
            for name, made in {"dimred convert": output, "accelerate": accelerates}.items()
        } | {"bytes of torch's file by the tensors'": torchs.stat().st_size / size}

    return Task([source], contestants, facts=facts)


def adapter(inputs: Inputs) -> Task:
    """A LoRA adapter folded into the weights."""
    output, pefts = inputs.out("folded"), inputs.out("peft")
    ours = [inputs.program, "convert", str(inputs.base), "--adapter", str(inputs.adapter), "--output", str(output)]
    contestants = cat_and_cp(inputs.base, inputs.out("copy")) | {
        "dimred convert": Contestant(ours, output),
        "PEFT": Contestant(inputs.by_peers("merge_and_unload", inputs.base, inputs.adapter, pefts), pefts),
    }

    def facts() -> dict[str, float]:
        exact = folded(inputs.base, inputs.adapter, QUERIES)
        return {
            f"values not of one rounding: {name}": share_not_nearest(exact, bfloat16(made, f"{QUERIES}.weight"))
            for name, made in {"dimred convert": output, "PEFT": pefts}.items()
        }

    return Task([inputs.base, inputs.adapter], contestants, facts=facts)


TASKS: dict[str, Callable[[Inputs], Task]] = {
    "convert": convert,
    "diff": lambda inputs: difference(inputs, inputs.other, 1),
    "diff_same": lambda inputs: difference(inputs, inputs.same, 0),
    "check": check,
    "manifest": manifest,
    "distributed": distributed,
    "adapter": adapter,
}
OF_PEERS = {"distributed", "adapter"}


def bfloat16(folder: Path, tensor: str) -> np.ndarray:
    """The bits of a tensor of bfloat16."""
    return np.frombuffer(bytes_of(folder, tensor), np.uint16)


def folded(base: Path, adapter: Path, module: str) -> np.ndarray:
    """W + s B A in float64, in one row."""
    config = json.loads((adapter / "adapter_config.json").read_text())
    inside, rank = f"base_model.model.{module}", config["r"]
    down, up = (np.frombuffer(bytes_of(adapter, f"{inside}.lora_{side}.weight"), np.float32) for side in "AB")
    update = up.reshape(-1, rank).astype(np.float64) @ down.reshape(rank, -1).astype(np.float64)
    return floats_of(bfloat16(base, f"{module}.weight")) + config["lora_alpha"] / rank * update.ravel()


def size_of(file: Path) -> int:
    """Bytes."""
    return file.stat().st_size


def remove(made: Path | None) -> None:
    """Removes a file or folder, if it is there."""
    if made and made.is_dir():
        shutil.rmtree(made)
    elif made:
        made.unlink(missing_ok=True)


def read_through(files: list[Path]) -> None:
    """Brings files into the page cache, if it holds them all."""
    block = bytearray(1 << 24)
    for file in files:
        with open(file, "rb", buffering=0) as opened:
            while opened.readinto(block):
                pass


def run(task: Task, rounds: int) -> dict[str, list[Cost]]:
    """The cost of each contestant and round, by `NAME, warm` and `NAME, cold`."""
    files, names = task.files(), list(task.contestants)
    costs: dict[str, list[Cost]] = {f"{name}, {state}": [] for state in STATES for name in names}
    for state in STATES:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                contestant = task.contestants[name]
                remove(contestant.made)
                os.sync()  # so that no one writes during the turn of the next, and pages can be dropped
                if state == "warm":
                    read_through(files)
                forgotten = files if state == "cold" else None
                costs[f"{name}, {state}"].append(measured(contestant.command, cold=forgotten, codes=contestant.codes))
    return costs


def ratios_of(task: Task, costs: dict[str, list[Cost]]) -> dict[str, list[float]]:
    """Median, lowest and highest ratio of seconds within a round, to each yardstick and of each peer to dimred."""
    ours = task.ours()
    pairs = [(ours, name) for name in task.contestants if name.startswith(("cat", "sha"))]
    pairs += [(name, ours) for name in task.contestants if name not in {ours, *(yard for _, yard in pairs)}]
    found: dict[str, list[float]] = {}
    for above, below in pairs:
        for state in STATES:
            rounds = zip(costs[f"{above}, {state}"], costs[f"{below}, {state}"], strict=True)
            values = [one["seconds"] / other["seconds"] for one, other in rounds]
            found[f"{above} to {below}, {state}"] = [statistics.median(values), min(values), max(values)]
    return found


def goals_of(task: Task, ratios: dict[str, list[float]], peak: float) -> dict[str, Any]:
    """What a task must reach, what it has reached and whether that is enough."""
    if task.goal is None:
        return {}
    ratio = ratios[f"{task.ours()} to {next(iter(task.contestants))}, cold"][0]
    return {
        "seconds, cold": {"goal": task.goal, "ratio": ratio, "met": ratio <= task.goal},
        "memory": {"goal": GOAL_OF_MEMORY, "peak": peak, "met": peak <= GOAL_OF_MEMORY},
    }


def result_of(task: Task, rounds: int) -> dict[str, Any]:
    """Everything measured of a task, and of the machine meanwhile."""
    before = os.getloadavg()[0]
    costs = run(task, rounds)
    ratios = ratios_of(task, costs)
    peak = max(cost["peak"] for state in STATES for cost in costs[f"{task.ours()}, {state}"])
    return {
        "machine": processor(),
        "processors": os.cpu_count(),
        "load": [before, os.getloadavg()[0]],
        "bytes": sum(map(size_of, task.files())),
        "shards": sum(file.suffix == ".safetensors" for file in task.files()),
        "goals": goals_of(task, ratios, peak),
        "ratios": ratios,
        "facts": task.facts() if task.facts else {},
        "costs": costs,
    }


def report(name: str, result: dict[str, Any]) -> None:
    """A table for a person, in Markdown."""
    costs: dict[str, list[Cost]] = result["costs"]
    size = result["bytes"]
    print(f"\n{name}: {size / 1e9:.2f} GB in {result['shards']} shards, load {result['load'][0]:.1f}")
    print("| | seconds | range | processor, s | memory, MiB | from disk |\n|---|---|---|---|---|---|")
    for of_state, rounds in costs.items():
        contestant, _, state = of_state.rpartition(", ")
        seconds = [cost["seconds"] for cost in rounds]
        work = statistics.median(cost["processor"] for cost in rounds)
        peak = max(cost["peak"] for cost in rounds) / 2**20
        share = statistics.median(cost["from_disk"] for cost in rounds) / size
        print(
            f"| {contestant}, {STATES[state]} | {statistics.median(seconds):.2f} | {min(seconds):.2f} - "
            f"{max(seconds):.2f} | {work:.2f} | {peak:,.0f} | {share:.0%} |"
        )
    for pair, (median, low, high) in result["ratios"].items():
        print(f"- {pair}: {median:.2f} ({low:.2f} - {high:.2f})")
    for fact, value in result["facts"].items():
        print(f"- {fact}: {value:.4g}")
    for goal, found in result["goals"].items():
        received = found.get("ratio", found.get("peak"))
        print(f"- {goal}: {received:.4g}, goal {found['goal']:.4g}: {'met' if found['met'] else 'NOT met'}")


def parse() -> argparse.Namespace:
    """The command line."""
    build = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=build / "bin" / "dimred")
    parser.add_argument(
        "--peers", type=Path, default=Path(sys.executable), help="Python with torch, accelerate and PEFT"
    )
    parser.add_argument("--only", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument(
        "--size", type=float, default=8, help="size of the model in GB; peers read a model of at most 1 GB"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder for the files (default: a temporary one)")
    parser.add_argument(
        "--json", type=Path, help="JSON file for all runs; keeps earlier results of tasks that are not measured now"
    )
    return parser.parse_args()


def main() -> None:
    """Prints tables; writes every run to --json after each task."""
    options = parse()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        free = shutil.disk_usage(folder).free
        if free < 5e9 * options.size:
            raise SystemExit(
                f"{folder} needs {5 * options.size:g} GB, but only {free / 1e9:.1f} GB are free; choose another "
                "--folder"
            )
        inputs = Inputs(options, folder)
        (folder / "out").mkdir()
        for name in options.only:
            task = TASKS[name](inputs)
            result = result_of(task, options.repeat)
            if name in OF_PEERS:
                text = subprocess.run(inputs.by_peers("versions"), check=True, capture_output=True, text=True).stdout
                result["versions"] = json.loads(text)
            for contestant in task.contestants.values():
                remove(contestant.made)
            report(name, result)
            results[name] = result
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
