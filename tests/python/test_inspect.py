"""`dimred inspect` of checkpoints and dimred.inspect: counts against NumPy, manifests against coreutils' sha256sum."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
import torch.distributed.checkpoint
from cli import completed

import dimred as package

Said = Callable[..., tuple[int, str]]


@pytest.fixture()
def said(dimred: Path) -> Said:
    """Exit code and all output of `dimred inspect` with these arguments."""

    def call(*arguments: object, folder: Path | None = None) -> tuple[int, str]:
        words = [str(dimred), "inspect", *map(str, arguments)]
        done = completed(words, cwd=folder)
        return done.returncode, done.stdout + done.stderr

    return call


def tensors() -> dict[str, torch.Tensor]:
    """Has several types, an empty tensor and a scalar."""
    generator = torch.Generator().manual_seed(3)
    return {
        "layers.0.weight": torch.randn(4, 6, generator=generator),
        "layers.0.bias": torch.randn(4, generator=generator).bfloat16(),
        "norm.running_mean": torch.randn(5, generator=generator),
        "norm.num_batches_tracked": torch.tensor(7),
        "head.weight": torch.randn(3, 4, generator=generator).half(),
        "empty": torch.zeros(0, 2),
    }


def write_shards(folder: Path, parts: list[dict[str, torch.Tensor]], **metadata: object) -> Path:
    """A folder as transformers writes it; returns its index."""
    folder.mkdir(exist_ok=True)
    weight_map = {}
    for number, part in enumerate(parts, start=1):
        name = f"model-{number:05}-of-{len(parts):05}.safetensors"
        safetensors.torch.save_file(part, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    total = sum(tensor.nbytes for part in parts for tensor in part.values())
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": total, **metadata}, "weight_map": weight_map}))
    (folder / "config.json").write_text('{"model_type": "toy"}')
    (folder / "tokenizer.json").write_text("{}")
    return index


def halves() -> list[dict[str, torch.Tensor]]:
    items = list(tensors().items())
    return [dict(items[:3]), dict(items[3:])]


@pytest.fixture()
def shards(tmp_path: Path) -> Path:
    write_shards(tmp_path / "model", halves())
    return tmp_path / "model"


def sha256sum(folder: Path, manifest: Path) -> str:
    """What coreutils' sha256sum says of the manifest; fails where it does not hold."""
    words = ["sha256sum", "-c", "--strict", str(manifest)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


# What it holds.


def test_a_checkpoint_is_described_in_short(shards: Path, said: Said) -> None:
    code, text = said(shards)
    assert code == 0, text
    for row in (
        r"format +shards",
        r"tensors +6\n",
        r"parameters +40\n",  # 24 + 4 + 12; running means and counts are no parameters
        r"  BF16 +1 tensor, 4 elements, 8 B",
        r"  F32 +3 tensors, 29 elements",
        r"  statistic +2 tensors",
        r"side files +config.json, tokenizer.json",
    ):
        assert re.search(row, text), (row, text)
    assert len(text.splitlines()) < 16


def saved_in_every_format(folder: Path, values: dict[str, torch.Tensor]) -> dict[str, Path]:
    safetensors.torch.save_file(values, folder / "a.safetensors")
    torch.save(values, folder / "a.pt")
    torch.distributed.checkpoint.save(values, checkpoint_id=folder / "dcp", no_dist=True)
    write_shards(folder / "sharded", halves())
    return {
        "safetensors": folder / "a.safetensors",
        "PyTorch": folder / "a.pt",
        "torch.distributed.checkpoint": folder / "dcp",
        "shards": folder / "sharded",
    }


def test_every_format_has_the_same_tensors(tmp_path: Path, said: Said) -> None:
    values = tensors() | {"empty": torch.ones(2, 1)}
    values.pop("empty")
    formats = saved_in_every_format(tmp_path, values)
    shutil.rmtree(formats.pop("shards"))
    for kind, path in formats.items():
        found = package.inspect(path, check=True)
        assert found.format == kind and found.faults == []
        assert {tensor.name: tensor.shape for tensor in found.tensors} == {
            name: tuple(value.shape) for name, value in values.items()
        }
        assert {tensor.name: tensor.bytes for tensor in found.tensors} == {
            name: value.nbytes for name, value in values.items()
        }
        assert found.parameters == 40
        code, text = said(path, "--tensors")
        table = text[text.index("tensor  ") :].splitlines()
        assert code == 0 and len(table) == 1 + len(values)
        row = next(line for line in table if line.startswith("layers.0.weight"))
        assert re.search(r"F32 +4 x 6 +24 +96 +weight", row)


def test_tied_weights_count_once(tmp_path: Path) -> None:
    weight = torch.randn(3, 5)
    torch.save({"embed.weight": weight, "head.weight": weight}, tmp_path / "tied.pt")
    found = package.inspect(tmp_path / "tied.pt", check=True)
    assert found.parameters == 15 and len(found.tensors) == 2 and found.faults == []
    assert any("embed.weight, head.weight" in remark for remark in found.remarks)


def test_150000_tensors_are_listed_checked_and_recorded(tmp_path: Path, said: Said) -> None:
    """Has as many names as a mixture of experts, in little."""
    count = 150_000
    entries, data = {}, np.arange(count, dtype=np.float32).tobytes()
    for i in range(count):
        entries[f"e.{i}.w"] = {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
    header = json.dumps(entries).encode()
    file = tmp_path / "many.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + data)
    code, text = said(file, "--tensors", "--check", "--write_manifest", tmp_path / "m")
    assert code == 0, text[-300:]
    assert text.count("\ne.") == count
    assert sum(line.startswith("# tensor ") for line in (tmp_path / "m").read_text().splitlines()) == count
    code, text = said(file, "--manifest", tmp_path / "m")
    assert code == 0, text


def test_names_and_shapes_of_a_hostile_file_stay_on_their_line(tmp_path: Path, said: Said) -> None:
    safetensors.torch.save_file({"a\x1b[2J\nFAULT": torch.full((2,), torch.nan)}, tmp_path / "a.safetensors")
    code, text = said(tmp_path / "a.safetensors", "--tensors", "--check")
    assert code == 1 and "\x1b" not in text and "\na\\u001B[2J\\nFAULT  " in text


# Values.


def test_bad_values_are_counted_as_numpy_does(tmp_path: Path, said: Said) -> None:
    generator = np.random.default_rng(5)
    values = {}
    for name, dtype in {"half": np.float16, "single": np.float32, "double": np.float64}.items():
        array = generator.standard_normal((300, 7)).astype(dtype)
        array.flat[generator.choice(array.size, 9, replace=False)] = np.nan
        array.flat[generator.choice(array.size, 5, replace=False)] = np.inf
        array.flat[generator.choice(array.size, 3, replace=False)] = -np.inf
        values[name] = array
    values |= {"fine": np.arange(4, dtype=np.float32), "count": np.arange(4), "ones": np.ones(3, np.float32)}
    values |= {"zeros": np.zeros(3, np.float16), "mask": np.float32([[0, -np.inf], [0, 0]])}
    safetensors.numpy.save_file(values, tmp_path / "a.safetensors")
    code, text = said(tmp_path / "a.safetensors", "--check")
    assert code == 1 and "has 3 faults" in text
    for name in ("half", "single", "double"):
        array = values[name]
        nan, infinite = np.isnan(array).sum(), np.isinf(array).sum()
        first = np.flatnonzero(~np.isfinite(array))[0]
        line = f'"{name}": {nan} NaN, {infinite} infinite of 2,100 values'
        assert re.search(rf"FAULT +{line} .*; the first is element {first}\n", text), text
    for remark in (r".*\(mask\) holds only 0", r".*\(zeros\) holds only zeros", r".*\(ones\) holds the same value"):
        assert re.search(rf"note +{remark}", text) or re.search(remark, text), text
    assert text.count("FAULT") == 3
    found = package.inspect(tmp_path / "a.safetensors", check=True)
    assert len(found.faults) == 3 and "FAULT" in repr(found)
    assert package.inspect(tmp_path / "a.safetensors").faults == []


def test_a_row_of_a_distributed_checkpoint_is_checked(tmp_path: Path, said: Said) -> None:
    values = tensors()
    values.pop("empty")
    values["head.weight"][1, 2] = torch.inf
    torch.distributed.checkpoint.save(values, checkpoint_id=tmp_path / "dcp", no_dist=True)
    code, text = said(tmp_path / "dcp", "--check")
    assert code == 1 and '"head.weight": 1 infinite of 12 values (F16, 3 x 4); the first is element 6' in text


# An index against its shards.


def test_a_whole_index_has_no_faults(shards: Path, said: Said) -> None:
    for path in (shards, shards / "model.safetensors.index.json"):
        code, text = said(path, "--check")
        assert code == 0 and re.search(r"faults +none", text), text


def test_every_fault_of_an_index_is_a_line(shards: Path, said: Said) -> None:
    index = shards / "model.safetensors.index.json"
    said_by_index = json.loads(index.read_text())
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    said_by_index["weight_map"] |= {
        "ghost": first,
        "gone": "model-00009-of-00002.safetensors",
        "away": "../x.safetensors",
    }
    del said_by_index["weight_map"]["head.weight"]
    index.write_text(json.dumps(said_by_index))
    safetensors.torch.save_file(
        {"x": torch.ones(1), "layers.0.bias": torch.ones(1)}, shards / "model-00007-of-00002.safetensors"
    )
    code, text = said(shards, "--check")
    assert code == 1
    for fault in (
        f'lists "ghost" in {first}, but this shard lacks the tensor',
        f'does not list the tensor "head.weight" of the shard {second}',
        "the shard model-00009-of-00002.safetensors is missing",
        '"away" in "../x.safetensors", but this is not a file name in the same folder',
        'does not list the shard "model-00007-of-00002.safetensors"',
    ):
        assert fault in text or fault.replace('"', "") in text.replace('"', ""), (fault, text)
    assert text.count("FAULT") == 5 and "has 5 faults" in text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"weight_map": {}}', "lists no tensors"),
        ("{}", "lists no tensors"),
        ("[1]", "lists no tensors"),
        ('{"weight_map": {"a": 3}}', "but this is not a file name in the same folder"),
        ('{"weight_map": ', "not JSON"),
    ],
)
def test_an_index_that_says_nothing_is_a_fault(text: str, fault: str, shards: Path, said: Said) -> None:
    (shards / "model.safetensors.index.json").write_text(text)
    code, out = said(shards, "--check")
    assert code == 1 and fault in out, out
    assert out.count("FAULT") >= 3  # and two shards that nothing lists


def test_the_total_size_is_compared(tmp_path: Path, said: Said) -> None:
    write_shards(tmp_path / "model", halves(), total_size=999)
    code, text = said(tmp_path / "model", "--check")
    total = sum(tensor.nbytes for tensor in tensors().values())
    assert code == 1 and f"total_size 999, but the tensors have {total} bytes" in text


def test_a_tensor_of_two_shards_is_a_fault(tmp_path: Path, said: Said) -> None:
    one, two = halves()
    write_shards(tmp_path / "model", [one, two | {"layers.0.bias": one["layers.0.bias"]}])
    code, text = said(tmp_path / "model", "--check")
    assert code == 1 and 'several shards have "layers.0.bias"' in text
    assert 'does not list the tensor "layers.0.bias" of the shard model-00001-of-00002.safetensors' in text


def test_a_damaged_shard_is_a_fault_among_others(shards: Path, said: Said) -> None:
    with open(shards / "model-00001-of-00002.safetensors", "r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 1)
    spoilt = halves()[1]
    spoilt["head.weight"][0, 0] = torch.nan
    safetensors.torch.save_file(spoilt, shards / "model-00002-of-00002.safetensors")
    code, text = said(shards, "--check")
    assert code == 1 and "bytes of data after the header" in text and '"head.weight": 1 NaN' in text


def test_overlapping_places_are_a_fault(tmp_path: Path, said: Said) -> None:
    header = json.dumps(
        {
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        }
    ).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    code, text = said(tmp_path / "a.safetensors", "--check")
    assert code == 1 and re.search(r"FAULT .*no holes, no overlap", text)


def test_several_checkpoints_are_refused_with_the_newest(tmp_path: Path, said: Said) -> None:
    for step in (1, 2, 10):
        safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / f"step_{step}.safetensors")
    (tmp_path / "m").write_text("")
    for question in (["--check"], ["--tensors"], ["--manifest", tmp_path / "m"], ["--write_manifest", tmp_path / "n"]):
        code, text = said(tmp_path, *question)
        assert code == 2 and "step_10.safetensors" in text and "dimred merge" in text, question


# Manifests.


def test_sha256sum_reads_a_manifest(shards: Path, said: Said) -> None:
    (shards / "original").mkdir()
    (shards / "original" / "params.json").write_text("1")
    (shards / ".hidden").write_text("2")
    for name in ("back\\slash", "line\nend", "carriage\rreturn", " blank ", "-dash", "ümlaut"):
        (shards / name).write_text(name)
    code, text = said(shards, "--write_manifest", shards / "SHA256SUMS")
    assert code == 0, text
    out = sha256sum(shards, Path("SHA256SUMS"))
    assert out.count(": OK") == 12 and "original/params.json: OK" in out
    assert "SHA256SUMS" not in out and ".hidden" not in out
    lines = (shards / "SHA256SUMS").read_text().splitlines()
    digest = hashlib.sha256(tensors()["layers.0.weight"].numpy().tobytes()).hexdigest()
    assert f"# tensor {digest} F32 [4,6] layers.0.weight" in lines
    code, text = said(shards, "--manifest", shards / "SHA256SUMS")
    assert code == 0 and re.search(r"faults +none", text), text


def test_hidden_metadata_is_in_the_manifest_of_a_distributed_checkpoint(tmp_path: Path, said: Said) -> None:
    torch.distributed.checkpoint.save({"a": torch.arange(4.0)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert said("dcp", "--write_manifest", "m", folder=tmp_path)[0] == 0
    assert ".metadata: OK" in sha256sum(tmp_path / "dcp", tmp_path / "m")
    code, text = said(tmp_path / "dcp/.metadata", "--manifest", tmp_path / "m")
    assert code == 0, text


def test_a_lone_files_manifest_is_relative_to_its_folder(tmp_path: Path, said: Said) -> None:
    (tmp_path / "folder").mkdir()
    safetensors.torch.save_file(tensors(), tmp_path / "folder/a.safetensors")
    (tmp_path / "folder/other").write_text("of somebody else")
    assert said("folder/a.safetensors", "--write_manifest", "m", folder=tmp_path)[0] == 0
    assert sha256sum(tmp_path / "folder", tmp_path / "m") == "a.safetensors: OK\n"


def test_differences_from_a_manifest_are_lines_and_exit_1(shards: Path, tmp_path: Path, said: Said) -> None:
    package.inspect(shards, write_manifest=tmp_path / "m")
    assert package.inspect(shards, manifest=tmp_path / "m").faults == []
    (shards / "config.json").write_text("{}")
    (shards / "tokenizer.json").unlink()
    (shards / "added.txt").write_text("x")
    changed = halves()[0]
    changed["layers.0.bias"][1] += 1
    safetensors.torch.save_file(changed, shards / "model-00001-of-00002.safetensors", {"format": "pt"})
    expected = [
        "added.txt: not listed in the manifest",
        "config.json: changed",
        "model-00001-of-00002.safetensors: changed",
        "tokenizer.json: missing",
        "tensor layers.0.bias: other values",
    ]
    assert package.inspect(shards, manifest=tmp_path / "m").faults == expected
    code, text = said(shards, "--manifest", tmp_path / "m")
    assert code == 1 and [line for line in expected if line not in text] == []


def test_other_shards_of_the_same_values_are_said_to_be_that(shards: Path, tmp_path: Path, said: Said) -> None:
    assert said(shards, "--write_manifest", tmp_path / "m")[0] == 0
    safetensors.torch.save_file(tensors(), tmp_path / "model.safetensors")
    shutil.rmtree(shards)
    shards.mkdir()
    (tmp_path / "model.safetensors").rename(shards / "model.safetensors")
    code, text = said(shards, "--manifest", tmp_path / "m")
    assert code == 1 and "the values of all 6 tensors are the same" in text, text
    assert "model-00001-of-00002.safetensors: missing" in text
    assert "tensor " not in "".join(line for line in text.splitlines(True) if line.startswith("FAULT"))


def test_a_checkpoint_that_is_gone_is_differences(shards: Path, tmp_path: Path, said: Said) -> None:
    assert said(shards, "--write_manifest", tmp_path / "m")[0] == 0
    for file in shards.glob("model*"):
        file.unlink()
    code, text = said(shards, "--manifest", tmp_path / "m")
    assert code == 1 and "model.safetensors.index.json: missing" in text


def test_a_plain_sha256sum_is_a_manifest_without_tensors(shards: Path, tmp_path: Path, said: Said) -> None:
    names = sorted(file.name for file in shards.iterdir())
    text = subprocess.run(["sha256sum", *names], cwd=shards, capture_output=True, text=True, check=True).stdout
    (tmp_path / "sums").write_text(text)
    assert said(shards, "--manifest", tmp_path / "sums")[0] == 0


def test_hidden_files_that_a_manifest_lists_are_compared(shards: Path, tmp_path: Path, said: Said) -> None:
    (shards / ".cache").mkdir()
    names = [".gitattributes", ".cache/hashes", *sorted(file.name for file in shards.glob("[!.]*"))]
    for name in names[:2]:
        (shards / name).write_text(name)
    text = subprocess.run(["sha256sum", *names], cwd=shards, capture_output=True, text=True, check=True).stdout
    (tmp_path / "sums").write_text(text)
    code, text = said(shards, "--manifest", tmp_path / "sums")
    assert code == 0, text
    (shards / names[0]).write_text("changed")
    (shards / names[1]).unlink()
    assert package.inspect(shards, manifest=tmp_path / "sums").faults == [
        ".cache/hashes: missing",
        ".gitattributes: changed",
    ]
    for name in ("../sums", str(shards / "config.json")):
        (tmp_path / "m").write_text(64 * "a" + f"  {name}\n")
        code, text = said(shards, "--manifest", tmp_path / "m")
        assert code == 2 and "m:1: needs a name within the checkpoint's folder, received aaa" in text


def test_manifests_that_are_missing_or_malformed_are_refused(shards: Path, tmp_path: Path, said: Said) -> None:
    code, text = said(shards, "--manifest", tmp_path / "none")
    assert code == 2 and "none" in text
    (tmp_path / "m").write_text("# head\n" + 64 * "a" + "  x\nwrong\n")
    code, text = said(shards, "--manifest", tmp_path / "m")
    assert code == 2 and "m:3: needs" in text and "received wrong" in text
    with pytest.raises(ValueError, match="m:3: needs"):
        package.inspect(shards, manifest=tmp_path / "m")
    code, text = said(shards, "--manifest", tmp_path / "m", "--write_manifest", tmp_path / "n")
    assert code == 2 and "received both" in text


def test_only_an_earlier_manifest_is_replaced(shards: Path, tmp_path: Path, said: Said) -> None:
    (tmp_path / "notes").write_text("precious")
    for file in (tmp_path / "notes", shards / "model-00001-of-00002.safetensors"):
        before = file.read_bytes()
        assert said(shards, "--write_manifest", file)[0] == 2
        assert file.read_bytes() == before
    assert said(shards, "--write_manifest", tmp_path / "m")[0] == 0
    (shards / "config.json").write_text("{ }")
    assert said(shards, "--write_manifest", tmp_path / "m")[0] == 0
    assert "config.json: OK" in sha256sum(shards, tmp_path / "m")


def test_no_manifest_of_a_checkpoint_that_is_not_whole(shards: Path, tmp_path: Path, said: Said) -> None:
    (shards / "model-00001-of-00002.safetensors").unlink()
    assert said(shards, "--write_manifest", tmp_path / "m", "--check")[0] == 1
    assert not (tmp_path / "m").exists()


# Merges, exports, Python.


def test_damage_of_a_merge_is_found_by_its_digests(tmp_path: Path, said: Said, execute) -> None:
    (tmp_path / "run").mkdir()
    for number in (1, 2):
        safetensors.torch.save_file({"a": torch.randn(50)}, tmp_path / f"run/step_{number}.safetensors")
    execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "merged")
    assert package.inspect(tmp_path / "merged", check=True).faults == []
    assert said(tmp_path / "merged", "--check")[0] == 0
    data = bytearray((tmp_path / "merged/model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "merged/model.safetensors").write_bytes(data)
    code, text = said(tmp_path / "merged", "--check")
    assert code == 1 and '"a" is damaged or was changed' in text
    assert any('"a" is damaged' in fault for fault in package.inspect(tmp_path / "merged", check=True).faults)


def test_scale_names_the_last_revision_that_has_it(said: Said) -> None:
    code, text = said("--scale", "M=25.6e6", "k=32")
    assert code == 2 and "8b694755" in text and "docs/explanation/scaling.md" in text


def test_an_inspection_prints_as_a_table(shards: Path) -> None:
    found = package.inspect(shards)
    assert repr(found).startswith("checkpoint") and "parameters  40" in repr(found)
    page = found._repr_html_()
    assert "<td>layers.0.weight</td>" in page and page.count("<tr>") > 6
    assert found.bytes_by_dtype["BF16"] == 8
    assert found.side_files == ["config.json", "tokenizer.json"]
    with pytest.raises(ValueError, match="no such file"):
        package.inspect(shards / "nowhere")
    with pytest.raises(TypeError, match="check as True or False"):
        package.inspect(shards, check=1)
