"""Measures `dimred merge` against `cat` of the inputs, `cp` of the output, and other tools that are installed.

python experiments/benchmarks/merge.py build/bin/dimred --checkpoints 40 --parameters 1e8 --json merge.json

Needs 2 bytes x parameters x (checkpoints + 4) of disk below --folder, and removes them. --mergekit names mergekit-yaml
of an environment with torch, --olmo_core the script merge_hf_checkpoints.py of OLMo-core (src/scripts), which runs in
that environment's Python with ai2-olmo-core. All run in turn, so that a busy machine is busy for all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VOCABULARY = 4096
BYTES = 2  # of bfloat16
POOL = (np.random.default_rng(1).standard_normal(1 << 22, np.float32).view(np.uint32) >> 16).astype(np.uint16)
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Form:
    """What a Llama and its files have beside a number of parameters."""

    layers: int = 12
    width: int = 1024
    shards: int = 4

    def intermediate(self, parameters: int) -> int:
        """The width of the perceptrons that fills up to a number of parameters, 64 at least."""
        fixed = sum(math.prod(shape) for shape in shapes_of(self, 0).values())
        return max(64, (parameters - fixed) // (3 * self.layers * self.width))


SMALL = Form()


def header_of(shapes: Shapes) -> bytes:
    """The header of a safetensors file that holds these tensors without gaps."""
    header: dict[str, dict[str, object]] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + BYTES * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def shapes_of(form: Form, intermediate: int) -> Shapes:
    """The tensors of a Llama."""
    width = form.width
    shapes: Shapes = {"model.embed_tokens.weight": (VOCABULARY, width)}
    for layer in range(form.layers):
        inside = f"model.layers.{layer}"
        shapes |= {f"{inside}.self_attn.{part}_proj.weight": (width, width) for part in "qkvo"}
        shapes |= {f"{inside}.mlp.{part}_proj.weight": (intermediate, width) for part in ("gate", "up")}
        shapes[f"{inside}.mlp.down_proj.weight"] = (width, intermediate)
        shapes |= {f"{inside}.{part}_layernorm.weight": (width,) for part in ("input", "post_attention")}
    return shapes | {"model.norm.weight": (width,), "lm_head.weight": (VOCABULARY, width)}


def write_settings(folder: Path, form: Form, intermediate: int) -> None:
    """A configuration and a tokenizer that transformers takes."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": form.width,
        "intermediate_size": intermediate,
        "num_hidden_layers": form.layers,
        "num_attention_heads": form.width // 64,
        "num_key_value_heads": form.width // 64,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": False,
    }
    words = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": words}) + "\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')


def write_checkpoint(folder: Path, parameters: int, seed: int, form: Form = SMALL) -> None:
    """A Llama of random bfloat16 weights in shards with an index, as transformers writes one."""
    folder.mkdir(parents=True)
    intermediate = form.intermediate(parameters)
    shapes = shapes_of(form, intermediate)
    names, shards = list(shapes), form.shards
    places: dict[str, str] = {}
    for shard in range(shards):
        file_name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        of_shard = {
            name: shapes[name] for name in names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        }
        places |= dict.fromkeys(of_shard, file_name)
        with open(folder / file_name, "wb") as file:
            file.write(header_of(of_shard))
            for shape in of_shard.values():
                first = (seed * 7919 + file.tell() * 104729) % len(POOL)
                file.write(np.resize(np.roll(POOL, -first), math.prod(shape)).tobytes())
    total = BYTES * sum(math.prod(shape) for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    write_settings(folder, form, intermediate)


class Cost(dict[str, float]):
    """What a command took: seconds, processor seconds, peak resident bytes, bytes read, written, and read from disk."""


def measured(command: list[str], *, cold: list[Path] | None = None, codes: Collection[int] = (0,)) -> Cost:
    """The cost of one run that ends with one of `codes`; `cold`: files that the page cache forgets before it."""
    for file in cold or []:
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        # Its /proc stays until it is waited for, its memory's not; ru_maxrss would have this process's own at the fork.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
            peak = max([peak, *(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))])
            time.sleep(0.002)
        seconds = time.perf_counter() - began
        counts = dict(line.split(": ") for line in Path(f"/proc/{child.pid}/io").read_text().splitlines())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        raise SystemExit(f"{command[0]} ended with {child.returncode}")
    return Cost(
        seconds=seconds,
        processor=usage.ru_utime + usage.ru_stime,
        peak=peak,
        read=int(counts["rchar"]),
        written=int(counts["wchar"]),
        from_disk=int(counts["read_bytes"]),
    )


def bytes_of(folder: Path, tensor: str) -> bytes:
    """The bytes of a tensor in the safetensors files of a folder."""
    for file in folder.glob("*.safetensors"):
        with open(file, "rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            found = json.loads(opened.read(length)).get(tensor)
            if found is not None:
                begin, end = found["data_offsets"]
                opened.seek(8 + length + begin)
                return opened.read(end - begin)
    raise SystemExit(f"{folder} has no {tensor}")


def floats_of(bits: np.ndarray) -> np.ndarray:
    """The values of bfloat16 bits, in float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def share_not_nearest(exact: np.ndarray, received: np.ndarray) -> float:
    """The share of bfloat16 bits that are not exact values rounded once."""
    below = (exact.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    near = np.stack([floats_of(below - np.uint16(1)), floats_of(below), floats_of(below + np.uint16(1))])
    return float(np.mean(np.abs(floats_of(received) - exact) > np.abs(near - exact).min(0)))


def wrongly_rounded(folders: list[Path], merged: Path, values: int = 400_000) -> float:
    """The share of the first values of the first tensor that are not the float64 mean, rounded once to bfloat16."""

    def first_values(folder: Path) -> np.ndarray:
        return np.frombuffer(bytes_of(folder, "model.embed_tokens.weight"), np.uint16)[:values]

    mean = np.asarray(sum(floats_of(first_values(folder)) for folder in folders)) / len(folders)
    return share_not_nearest(mean, first_values(merged))


def by_mergekit(program: Path, folders: list[Path], folder: Path) -> tuple[list[str], Path]:
    """The command of its linear merge, as its users write it, and what it makes."""
    config, merged = folder / "mergekit.yaml", folder / "mergekit"
    models = "".join(f"- model: {path}\n  parameters:\n    weight: 1.0\n" for path in folders)
    config.write_text(f"merge_method: linear\ndtype: bfloat16\nmodels:\n{models}")
    return [str(program), str(config), str(merged)], merged


def by_olmo_core(script: Path, python: Path, folders: list[Path], folder: Path) -> tuple[list[str], Path]:
    """The command of its mean of folders, and what it makes."""
    merged = folder / "olmo_core"
    models = [word for path in folders for word in ("--model", str(path))]
    return [str(python), str(script), *models, "--output", str(merged)], merged


def report(name: str, costs: list[Cost]) -> None:
    """A line for a person."""
    seconds = statistics.median(cost["seconds"] for cost in costs)
    first = costs[0]
    print(
        f"{name:>16}: {seconds:7.2f} s, processor {first['processor']:7.2f} s, peak {first['peak'] / 2**20:8.1f} MiB, "
        f"read {first['read'] / 1e9:7.3f} GB, wrote {first['written'] / 1e9:6.3f} GB"
    )


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options of a benchmark over checkpoints that it writes itself."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("program", type=Path, help="build/bin/dimred")
    parser.add_argument("--checkpoints", type=int, default=40)
    parser.add_argument("--parameters", type=float, default=1e8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="folder for the files (default: a temporary one)")
    parser.add_argument("--json", type=Path)
    return parser


def main() -> None:
    """Prints a table; writes every run to --json."""
    parser = parser_of(__doc__.splitlines()[0])
    parser.add_argument("--mergekit", type=Path, help="path of mergekit-yaml in another environment")
    parser.add_argument(
        "--olmo_core", type=Path, help="path of merge_hf_checkpoints.py, which runs in --mergekit's environment"
    )
    options = parser.parse_args()
    if options.olmo_core and not options.mergekit:
        parser.error("--olmo_core needs --mergekit")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        folders = [folder / f"run/checkpoint-{step}" for step in range(1, options.checkpoints + 1)]
        for step, path in enumerate(folders):
            write_checkpoint(path, int(options.parameters), step)
        files = [file for path in folders for file in sorted(path.glob("*.safetensors"))]
        output = folder / "merged"
        ours = [str(options.program), "merge", str(folder / "run"), "--output", str(output)]
        ours += ["--threads", str(options.threads)]
        copy = ["sh", "-c", f"cat {folder}/run/*/*.safetensors > /dev/null && cp -r {folders[0]} {folder}/copy"]
        costs: dict[str, list[Cost]] = {}
        commands = {"cat + cp": (copy, folder / "copy"), "dimred merge": (ours, output)}
        if options.mergekit:
            commands["mergekit"] = by_mergekit(options.mergekit, folders, folder)
        if options.olmo_core:
            python = options.mergekit.with_name("python")
            commands["OLMo-core"] = by_olmo_core(options.olmo_core, python, folders, folder)
        for suffix, forgotten in (("warm", None), ("cold", files)):
            for _ in range(options.repeat):
                for name, (command, made) in commands.items():
                    shutil.rmtree(made, ignore_errors=True)
                    costs.setdefault(f"{name}, {suffix}", []).append(measured(command, cold=forgotten))
        tools = {name: made for name, (_, made) in commands.items() if name != "cat + cp"}
        results = {f"wrongly rounded by {name}": wrongly_rounded(folders, made) for name, made in tools.items()}
    for name, of_name in costs.items():
        report(name, of_name)
    for suffix in ("warm", "cold"):
        for name in tools:
            pairs = zip(costs[f"{name}, {suffix}"], costs[f"cat + cp, {suffix}"], strict=True)
            results[f"{name} to cat + cp, {suffix}"] = statistics.median(a["seconds"] / b["seconds"] for a, b in pairs)
    for name, value in results.items():
        print(f"{name}: {value:.4f}")
    if options.json:
        options.json.write_text(json.dumps({**results, "costs": costs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
