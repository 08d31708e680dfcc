"""One checkpoint of any kind as safetensors: the bits that torch, NumPy and PEFT say."""

from __future__ import annotations

import enum
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from cli import completed
from conftest import REPOSITORY, marked_blocks
from reference import mindspore_checkpoint
from safetensors.torch import load_file, save_file

import dimred

PAGE = REPOSITORY / "docs/how-to/convert_checkpoints.md"
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else bits(tensor.reshape(1))


def same_bits(received: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert received.keys() == expected.keys()
    for name, value in expected.items():
        assert received[name].dtype == value.dtype and received[name].shape == value.shape, name
        assert bits(received[name]) == bits(value), name


def all_kinds() -> dict[str, torch.Tensor]:
    """Every float and integer type, a NaN with a payload, infinities, -0, a scalar, nothing, what lies transposed."""
    generator = torch.Generator().manual_seed(3)
    strange = torch.tensor([0x7FC12345, 0x7F800001, -0x80000000, 0x7F800000], dtype=torch.int32).view(torch.float32)
    return {
        "w": torch.randn(300, 70, generator=generator),
        "half": torch.randn(9, 5, generator=generator).half(),
        "brain": torch.randn(33, generator=generator).bfloat16(),
        "double": torch.randn(4, 3, 2, generator=generator).double(),
        "strange": strange,
        "counts": torch.arange(7),
        "mask": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "eight": torch.randn(5, generator=generator).to(torch.float8_e4m3fn),
    }


def folder_of(path: Path, tensors: dict[str, torch.Tensor], **config: object) -> Path:
    path.mkdir(parents=True)
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"model_type": "gpt2", "torch_dtype": "float32", **config}))
    (path / "tokenizer.json").write_text("{}")
    return path


def metadata_of(file: Path) -> dict[str, str]:
    with safetensors.safe_open(file, "pt") as opened:
        return opened.metadata()


def test_metadata_of_one_file_stays(tmp_path: Path, execute) -> None:
    own = {"format": "tf", "ss_network_alpha": "16", "sshs_model_hash": "1f", "title": 'a "b"'}
    save_file({"w": torch.ones(3), "v": torch.ones(2)}, tmp_path / "a.safetensors", metadata=own)
    kept = {**own, "format": "pt"}
    dimred.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert metadata_of(tmp_path / "b.safetensors") == kept
    said = execute("dimred", "convert", tmp_path / "a.safetensors", "--dtype=bfloat16", "--output", tmp_path / "c")
    assert "left out of the metadata in the header: sshs_model_hash\n" in said
    del kept["sshs_model_hash"]
    assert metadata_of(tmp_path / "c/model.safetensors") == kept


def test_metadata_of_several_files_is_left_out(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source", {"w": torch.ones(300), "v": torch.ones(300)})
    dimred.convert(source, tmp_path / "shards", shard_size="1KB")
    for file in (tmp_path / "shards").glob("*.safetensors"):
        copies = {name: value.clone() for name, value in load_file(file).items()}
        save_file(copies, file, metadata={"format": "pt", "title": file.name})
    done = dimred.convert(tmp_path / "shards", tmp_path / "out")
    assert done.remarks == ["left out of the metadata in the header: title"]
    assert metadata_of(next((tmp_path / "out").glob("*.safetensors"))) == {"format": "pt"}


def test_a_file_without_tensors_is_called_one(tmp_path: Path, fails) -> None:
    save_file({}, tmp_path / "a.safetensors")
    line = fails(2, "convert", tmp_path / "a.safetensors", "--output", tmp_path / "out")
    assert "a.safetensors' has no tensor" in line and "--include" not in line


def test_an_adapter_beside_weights_is_said_by_each_verb(tmp_path: Path, execute) -> None:
    for name in ("a", "b"):
        folder = folder_of(tmp_path / name, {"a.weight": torch.ones(3, 5)})
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 4, "lora_alpha": 6}')
        save_file(low_rank("a", 3, 5), folder / "adapter_model.safetensors")
    out = tmp_path / "out"
    for words in (
        ("convert", tmp_path / "a", "--output", out),
        ("diff", tmp_path / "a", tmp_path / "b"),
        ("inspect", tmp_path / "a"),
    ):
        assert "an adapter lies beside the weights and is not read" in execute("dimred", *words), words
    assert not (out / "adapter_config.json").exists() and (out / "tokenizer.json").exists()
    dimred.convert(tmp_path / "b", tmp_path / "plain.safetensors")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (tmp_path / "b" / name).unlink()
    dimred.convert(tmp_path / "b", tmp_path / "adapter")
    assert (tmp_path / "adapter/adapter_config.json").exists()


# Each tensor keeps its bits.


def test_a_plain_conversion_keeps_every_bit(tmp_path: Path) -> None:
    tensors = all_kinds()
    source = folder_of(tmp_path / "source", tensors)
    done = dimred.convert(source, tmp_path / "out")
    same_bits(load_file(tmp_path / "out/model.safetensors"), tensors)
    assert sorted(done.tensors) == sorted(tensors) and done.shards == 1
    names = ["config.json", "convert.json", "model.safetensors", "tokenizer.json"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names
    assert (tmp_path / "out/config.json").read_bytes() == (source / "config.json").read_bytes()
    with safetensors.safe_open(tmp_path / "out/model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    # Once more, what was written: no record is taken for a side file.
    dimred.convert(tmp_path / "out", tmp_path / "again")
    assert sorted(file.name for file in (tmp_path / "again").iterdir()) == names


@pytest.mark.parametrize("block", [1, 7, 65_536])
def test_blocks_and_threads_change_nothing(block: int, tmp_path: Path, execute) -> None:
    tensors = all_kinds()
    save_file(tensors, tmp_path / "w.safetensors")
    words = ["--output", tmp_path / "one.safetensors", "--threads", 3]
    execute("dimred", "convert", tmp_path / "w.safetensors", *words, "--block", block if block > 1 else 5)
    same_bits(load_file(tmp_path / "one.safetensors"), tensors)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.safetensors", "w.safetensors"]


def test_a_file_of_torch_with_tied_and_transposed_tensors(tmp_path: Path, execute) -> None:
    tensors = {name: value for name, value in all_kinds().items() if name != "eight"}
    tensors |= {"turned": torch.arange(12.0).reshape(3, 4).T, "head": tensors["w"]}
    torch.save(tensors, tmp_path / "w.pt")
    said = execute("dimred", "convert", tmp_path / "w.pt", "--output", tmp_path / "out")
    assert "tied, written under each name: w, head\n" in said
    same_bits(load_file(tmp_path / "out/model.safetensors"), tensors)
    done = dimred.convert(tmp_path / "w.pt", tmp_path / "again", exclude="^head$")
    assert done.tied == [] and done.excluded == ["head"]


def test_shards_of_a_size(tmp_path: Path, fails) -> None:
    tensors = {f"t{i}": torch.full((1000,), float(i)) for i in range(5)} | {"large": torch.ones(9000)}
    source = folder_of(tmp_path / "source", tensors)
    done = dimred.convert(source, tmp_path / "out", shard_size="8KB")
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    files = {file.name: load_file(file) for file in (tmp_path / "out").glob("*.safetensors")}
    assert done.shards == len(files) == len(set(index["weight_map"].values()))
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in tensors.values())
    for name, values in files.items():
        assert len(values) == 1 or sum(value.nbytes for value in values.values()) <= 8000
        assert all(index["weight_map"][tensor] == name for tensor in values)
    same_bits({name: value for values in files.values() for name, value in values.items()}, tensors)
    dimred.convert(tmp_path / "out", tmp_path / "one.safetensors")
    same_bits(load_file(tmp_path / "one.safetensors"), tensors)
    assert dimred.convert(tmp_path / "out", tmp_path / "kept").shards == done.shards
    for number, size in enumerate((8e-6, np.float64(8e-6), np.float32(8e-6))):
        assert dimred.convert(source, tmp_path / f"of_number_{number}", shard_size=size).shards == done.shards
    assert dimred.convert(source, tmp_path / "of_integer", shard_size=np.int64(1)).shards == 1
    assert dimred.convert(tmp_path / "out", tmp_path / "of_zero", shard_size=0).shards == done.shards
    for size, kind, text in (
        (True, TypeError, "needs shard_size as a text such as '5GB' or a number of GB, received True"),
        ("5QB", ValueError, "shard_size needs a size of .* received '5QB'"),
    ):
        with pytest.raises(kind, match=rf"\[dimred.convert\] {text}"):
            dimred.convert(source, tmp_path / "x", shard_size=size)
    rule = "--shard_size needs a folder as --output"
    assert rule in fails(2, "convert", source, "--output", tmp_path / "x.safetensors", "--shard_size", "1GB")
    assert "needs a size" in fails(2, "convert", source, "--output", tmp_path / "x", "--shard_size", "5QB")


# Types.


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_is_torchs(dtype: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    pattern = torch.randint(-(2**31), 2**31 - 1, (20_000,), generator=generator, dtype=torch.int64).int()
    single = pattern.view(torch.float32)
    single = single[single.isfinite() & (single.abs() < 6e4)]  # bfloat16 and float16 have all of these
    ties = torch.tensor(
        [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 2.0**-25, 1.5 * 2.0**-24, -0.0, torch.inf, torch.nan]
    )
    double = torch.randn(5000, generator=generator).double() + 2.0**-40
    tensors = {
        "single": torch.cat([single, ties]),
        "double": double,
        "half": torch.randn(99).half(),
        "n": torch.arange(3),
    }
    source = folder_of(tmp_path / "source", tensors, text_config={"dtype": "float32"})
    done = dimred.convert(source, tmp_path / "out", dtype=dtype)
    out = load_file(tmp_path / "out/model.safetensors")
    expected = {name: value.to(TYPES[dtype]) for name, value in tensors.items() if value.is_floating_point()}
    # NumPy rounds float64 once; torch goes by float32 on the way to 16 bits.
    if dtype == "float16":
        expected["double"] = torch.from_numpy(double.numpy().astype(np.float16))
    if dtype == "bfloat16":
        expected["double"] = nearest_bfloat16(double)
    expected["n"] = tensors["n"]
    nan = expected["single"].isnan()
    assert torch.equal(out["single"].isnan(), nan)
    for values in (out, expected):
        values["single"] = values["single"][~nan]
    same_bits(out, expected)
    assert set(done.cast) == {n for n in ("single", "double", "half") if tensors[n].dtype != TYPES[dtype]}
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["torch_dtype"] == dtype and config["text_config"]["dtype"] == dtype


def nearest_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Rounds to the nearest neighbour, and to the even one of two."""
    rough = values.float().bfloat16()
    neighbours = torch.stack([(rough.view(torch.int16) + step).view(torch.bfloat16) for step in (-1, 0, 1)])
    distance = (neighbours.double() - values).abs()
    odd = neighbours.view(torch.int16).long() & 1
    order = distance * 4 + odd * distance.min(0).values.clamp(min=1e-300) * 1e-9
    return neighbours.gather(0, order.argmin(0, keepdim=True))[0]


def test_what_a_type_does_not_reach_is_refused_by_name(tmp_path: Path, fails) -> None:
    values = torch.zeros(70_000)
    values[66_001] = 1e5
    save_file({"a": torch.ones(3), "layer.w": values, "inf": torch.tensor([torch.inf])}, tmp_path / "w.safetensors")
    said = fails(2, "convert", tmp_path / "w.safetensors", "--output", tmp_path / "out", "--dtype", "float16")
    assert '"layer.w" has 1e+05 at element 66001, beyond the range of F16' in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["w.safetensors"]
    out = dimred.convert(tmp_path / "w.safetensors", tmp_path / "out.safetensors", dtype="float16", exclude="^layer")
    assert out.excluded == ["layer.w"]
    assert load_file(tmp_path / "out.safetensors")["inf"].isinf().all()


def test_values_too_small_for_a_type_are_said(tmp_path: Path, execute) -> None:
    small, file = torch.full((70_000,), 1e-9), tmp_path / "w.safetensors"
    save_file({"gone": -small, "zero": torch.zeros(3), "some": torch.cat([small, torch.ones(1)])}, file)
    said = "all values are too small for the type that is written, and became 0: 1 tensor (gone)"
    assert said in execute("dimred", "convert", file, "--output", tmp_path / "out", "--dtype", "float16").splitlines()
    assert dimred.convert(file, tmp_path / "half", dtype="float16").remarks == [said]
    assert dimred.convert(file, tmp_path / "brain", dtype="bfloat16").remarks == []
    save_file({"gone": small, "zero": torch.zeros(3), "some": torch.ones(70_001)}, tmp_path / "w2.safetensors")
    both, shares = [file, tmp_path / "w2.safetensors"], [0.75, 0.25]
    merged = dimred.merge(both, tmp_path / "mean", coefficients=shares, dtype="float16")
    assert said in merged.remarks


# Names.

NAMES = [
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.11.mlp.up.weight",
    "transformer.h.3.ln_1.bias",
    "module.module.a.gamma",
    "head.weight",
]
RULES = [
    (r"^model\.layers\.(\d+)\.self_attn\.(\w)_proj", r"blk.\1.attn_\2"),
    (r"^(?:module\.)+", ""),
    (r"a", r"\g<0>\\"),
    (r"\.", "/"),
]


@pytest.mark.parametrize("given", ["pairs", "dict", "file"])
def test_renaming_is_re_sub(given: str, tmp_path: Path) -> None:
    save_file({name: torch.full((2,), float(i)) for i, name in enumerate(NAMES)}, tmp_path / "w.safetensors")
    rules: object = {"pairs": RULES, "dict": dict(RULES)}.get(given)
    if given == "file":
        rules = tmp_path / "names.txt"
        rules.write_text("# rules\n\n" + "".join(f"{pattern} -> {text}\n" for pattern, text in RULES))
    done = dimred.convert(tmp_path / "w.safetensors", tmp_path / "out.safetensors", rename=rules)
    expected = {}
    for name in NAMES:
        matching = [rule for rule in RULES if re.search(rule[0], name)]
        expected[name] = re.sub(*matching[0], name) if matching else name
    out = load_file(tmp_path / "out.safetensors")
    assert {new: int(out[new][0]) for new in out} == {expected[name]: i for i, name in enumerate(NAMES)}
    assert done.renamed == {name: new for name, new in expected.items() if name != new}


def test_a_comment_behind_a_rule_is_no_part_of_the_name(tmp_path: Path) -> None:
    save_file({name: torch.ones(2) for name in ("a.w", "b #1", "c#2", "drop.d")}, tmp_path / "w.safetensors")
    lines = ("^a -> z  # first layer", "b #1 -> y#1", "c# -> x#  # -> no", "drop\\. ->  # nothing is left")
    (tmp_path / "names.txt").write_text("".join(f"{line}\n" for line in lines))
    dimred.convert(tmp_path / "w.safetensors", tmp_path / "out.safetensors", rename=tmp_path / "names.txt")
    assert load_file(tmp_path / "out.safetensors").keys() == {"z.w", "y#1", "x#2", "d"}


def test_the_number_of_parameters_of_an_index_is_of_all_tensors(tmp_path: Path) -> None:
    """transformers writes total_parameters beside total_size; a part of the tensors has other ones."""
    source = folder_of(tmp_path / "source", {"a": torch.ones(3), "b": torch.ones(2)})
    metadata = {"total_parameters": 5, "total_size": 20, "made_by": "somebody"}
    (source / "model.safetensors").rename(source / "model-00001-of-00001.safetensors")
    places = dict.fromkeys(("a", "b"), "model-00001-of-00001.safetensors")
    (source / "model.safetensors.index.json").write_text(json.dumps({"metadata": metadata, "weight_map": places}))
    for exclude, expected in ((None, metadata), ("b", {"total_size": 12, "made_by": "somebody"})):
        output = tmp_path / f"out {exclude}"
        dimred.convert(source, output, exclude=exclude)
        assert json.loads((output / "model.safetensors.index.json").read_text())["metadata"] == expected


def test_an_empty_name_is_refused_without_a_word_of_rename_as_its_cause(tmp_path: Path, fails) -> None:
    torch.save({"": torch.ones(2), "w": torch.ones(2)}, tmp_path / "w.pt")
    words = ("convert", tmp_path / "w.pt", "--output", tmp_path / "out")
    assert "a tensor has an empty name" in (error := fails(2, *words)) and "--rename gives" not in error
    (tmp_path / "names.txt").write_text("^$ -> name\n")
    dimred.convert(tmp_path / "w.pt", tmp_path / "out", rename=tmp_path / "names.txt")
    assert load_file(tmp_path / "out/model.safetensors").keys() == {"name", "w"}


def test_shards_without_their_metadata_are_named(tmp_path: Path, fails) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/__0_0.distcp").touch()
    for words in (("convert", tmp_path / "in"), ("merge", tmp_path / "in"), ("pca", tmp_path / "in")):
        error = fails(2, *words, "--output", tmp_path / ("p.npy" if words[0] == "pca" else "out"))
        assert "__0_0.distcp needs a .metadata file in the same folder" in error


def test_raw_and_averaged_weights_of_one_standing_name_the_choice(tmp_path: Path, fails) -> None:
    """BasicSR's file, whose keys say no usual choice, and NeMo's; two networks have none to name."""
    raw, averaged = {"w": torch.ones(2)}, {"w": torch.zeros(2)}
    torch.save({"params": raw, "params_ema": averaged}, tmp_path / "w.pt")
    error = fails(1, "convert", tmp_path / "w.pt", "--output", tmp_path / "out")
    both = "raw weights, params, and averaged weights, params_ema; with --take raw or averaged, merge, convert and diff"
    assert f"{both} read one of them" in error
    torch.save({"state_dict": averaged, "current_model_state": raw}, tmp_path / "both.ckpt")
    for name in ("w.pt", "both.ckpt"):
        for take, expected in (("raw", raw), ("averaged", averaged)):
            dimred.convert(tmp_path / name, tmp_path / f"{take}_{name[0]}", take=take)
            same_bits(load_file(tmp_path / f"{take}_{name[0]}/model.safetensors"), expected)
    for two in ({"params": raw, "params_d": averaged}, {"g_ema": averaged, "d": {"w": torch.ones(3)}}):
        torch.save(two, tmp_path / "two.pt")
        assert "save only one network" in fails(1, "convert", tmp_path / "two.pt", "--output", tmp_path / "out")


def test_bad_rules_are_refused(tmp_path: Path, fails) -> None:
    save_file({"a.w": torch.ones(2), "b.w": torch.ones(2)}, tmp_path / "w.safetensors")
    rules = tmp_path / "names.txt"

    def said(text: str) -> str:
        rules.write_text(text)
        return fails(2, "convert", tmp_path / "w.safetensors", "--output", tmp_path / "out", "--rename", rules)

    assert '--rename gives "a.w" and "b.w" the same name, "w"' in said(r"^[ab]\. -> ")
    assert "names.txt:2" in said("a -> b\n(?<=a)b -> c")
    assert "names.txt:1" in said("no arrow")
    assert "names.txt:1" in said(r"a -> \2")
    assert "needs at least one line REGEX -> TEXT" in said("# nothing\n")
    assert not (tmp_path / "out").exists()
    rules.write_text("zzz -> y")
    assert "renames no tensor" in " ".join(
        dimred.convert(tmp_path / "w.safetensors", tmp_path / "out", rename=rules).remarks
    )


def test_the_name_that_safetensors_keeps_is_refused(tmp_path: Path, fails) -> None:
    """A file with the key __metadata__ twice is one that nobody reads."""
    for i in range(2):
        torch.save({"__metadata__": torch.ones(3) * i, "w": torch.ones(2)}, tmp_path / f"step_{i}.pt")
    save_file({"w": torch.ones(2)}, tmp_path / "plain.safetensors")
    (tmp_path / "names.txt").write_text("^w$ -> __metadata__\n")
    out, named = tmp_path / "out", tmp_path / "step_0.pt"
    for words in (
        ("convert", named),
        ("convert", tmp_path / "plain.safetensors", "--rename", tmp_path / "names.txt"),
        ("merge", named, tmp_path / "step_1.pt"),
    ):
        error = fails(2, *words, output=out)
        assert 'names other than "__metadata__"' in error and "convert --rename" in error and not out.exists()
    (tmp_path / "names.txt").write_text("__metadata__ -> m\n")
    dimred.convert(named, out, rename=tmp_path / "names.txt")
    assert load_file(out / "model.safetensors").keys() == {"m", "w"}


def test_include_and_exclude_act_on_the_sources_names(tmp_path: Path, fails) -> None:
    source = folder_of(tmp_path / "source", {name: torch.ones(2) for name in NAMES})
    done = dimred.convert(
        source, tmp_path / "out", include="layers|head", exclude="mlp", rename=[("^model", "mlp"), ("head", "x")]
    )
    assert sorted(done.tensors) == ["mlp.layers.0.self_attn.q_proj.weight", "x.weight"]
    record = json.loads((tmp_path / "out/convert.json").read_text())
    assert record["include"] == "layers|head" and sorted(record["tensors"]) == sorted(done.tensors)
    said = fails(2, "convert", source, "--output", tmp_path / "none", "--include", "zzz")
    assert "leave none of the 5 tensors" in said
    assert "--include" in fails(2, "convert", source, "--output", tmp_path / "none", "--include", "(")


# Adapters.


def adapter_at(path: Path, tensors: dict[str, torch.Tensor], **config: object) -> Path:
    path.mkdir()
    save_file(tensors, path / "adapter_model.safetensors")
    (path / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 6, "fan_in_fan_out": False, **config})
    )
    return path


def low_rank(module: str, rows: int, columns: int, rank: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(len(module))
    return {
        f"base_model.model.{module}.lora_A.weight": torch.randn(rank, columns, generator=generator),
        f"base_model.model.{module}.lora_B.weight": torch.randn(rows, rank, generator=generator),
    }


def product(tensors: dict[str, torch.Tensor], module: str, scale: float) -> np.ndarray:
    """s B A in float64, summed in the order of the rank."""
    a = tensors[f"base_model.model.{module}.lora_A.weight"].double().numpy()
    b = tensors[f"base_model.model.{module}.lora_B.weight"].double().numpy()
    total = np.zeros((b.shape[0], a.shape[1]))
    for k in range(a.shape[0]):
        total += b[:, k, None] * a[None, k]
    return scale * total


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rslora", "turned"), [(False, False), (True, False), (False, True)])
def test_an_adapter_is_folded_in_float64(
    dtype: torch.dtype, rslora: bool, turned: bool, tmp_path: Path, execute
) -> None:
    generator = torch.Generator().manual_seed(5)
    weights = {
        name: torch.randn(30, 50, generator=generator).to(dtype) for name in ("model.a.weight", "model.b.weight")
    }
    weights["model.a.bias"] = torch.randn(30, generator=generator).to(dtype)
    shape = (50, 30) if turned else (30, 50)
    tensors = low_rank("model.a", *shape) | low_rank("model.b", *shape, rank=9)
    adapter = adapter_at(
        tmp_path / "adapter",
        tensors,
        use_rslora=rslora,
        fan_in_fan_out=turned,
        rank_pattern={"b": 9},
        alpha_pattern={r"model\.[bc]": 5},
    )
    source = folder_of(tmp_path / "source", weights)
    execute("dimred", "convert", source, "--adapter", adapter, "--output", tmp_path / "out", "--block", 13)
    expected = dict(weights)
    for name, alpha, rank in (("model.a", 6, 4), ("model.b", 5, 9)):
        update = product(tensors, name, alpha / np.sqrt(rank) if rslora else alpha / rank)
        total = weights[f"{name}.weight"].double().numpy() + (update.T if turned else update)
        exact = torch.from_numpy(total)
        expected[f"{name}.weight"] = exact.float() if dtype == torch.float32 else nearest_bfloat16(exact)
    same_bits(load_file(tmp_path / "out/model.safetensors"), expected)


def test_embeddings_saved_modules_and_prefixes(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(6)
    weights = {
        "embed.weight": torch.randn(11, 6, generator=generator),
        "conv.weight": torch.randn(5, 3, 2, 2, generator=generator),
        "score.weight": torch.randn(2, 6, generator=generator).half(),
        "a.bias": torch.zeros(3),
    }
    a, b = torch.randn(4, 11, generator=generator), torch.randn(6, 4, generator=generator)
    c, d = torch.randn(4, 3, 2, 2, generator=generator), torch.randn(5, 4, 1, 1, generator=generator)
    saved = torch.randn(2, 6, generator=generator)
    prefix = "base_model.model.wrapped."
    adapter = adapter_at(
        tmp_path / "adapter",
        {
            f"{prefix}embed.lora_embedding_A": a,
            f"{prefix}embed.lora_embedding_B": b,
            f"{prefix}conv.lora_A.weight": c,
            f"{prefix}conv.lora_B.weight": d,
            f"{prefix}score.modules_to_save.weight": saved,
            f"{prefix}a.base_layer.bias": torch.ones(3),
        },
    )
    save_file(weights, tmp_path / "w.safetensors")
    done = dimred.convert(tmp_path / "w.safetensors", tmp_path / "out.safetensors", adapter=adapter)
    assert sorted(done.folded) == sorted(weights)
    assert any("wrapped." in remark for remark in done.remarks)
    out = load_file(tmp_path / "out.safetensors")
    embedding = weights["embed.weight"].double() + 1.5 * (b.double() @ a.double()).T
    assert torch.allclose(out["embed.weight"].double(), embedding, rtol=1e-6, atol=1e-6)
    kernel = torch.nn.functional.conv2d(c.double().transpose(0, 1), d.double()).transpose(0, 1)
    assert torch.allclose(out["conv.weight"].double(), weights["conv.weight"] + 1.5 * kernel, rtol=1e-6, atol=1e-6)
    assert torch.equal(out["score.weight"], saved.half()) and torch.equal(out["a.bias"], torch.ones(3))


def test_tied_weights_change_together(tmp_path: Path) -> None:
    embedding = torch.randn(8, 6, generator=torch.Generator().manual_seed(7))
    torch.save({"embed.weight": embedding, "head.weight": embedding}, tmp_path / "w.pt")
    adapter = adapter_at(tmp_path / "adapter", low_rank("head", 8, 6))
    dimred.convert(tmp_path / "w.pt", tmp_path / "out.safetensors", adapter=adapter)
    out = load_file(tmp_path / "out.safetensors")
    assert torch.equal(out["embed.weight"], out["head.weight"]) and not torch.equal(out["head.weight"], embedding)


REFUSED = {
    "no weight": ({}, {}, "other", r'has no tensor "other.weight"'),
    "another kind": ({"peft_type": "IA3"}, {}, "a", r'peft_type = "IA3"'),
    "dora": ({"use_dora": True}, {}, "a", "use_dora = true"),
    "a magnitude": ({}, {"base_model.model.a.lora_magnitude_vector": torch.ones(3)}, "a", "lora_magnitude_vector"),
    "a changed base": ({"init_lora_weights": "pissa_niter_4"}, {}, "a", "init_lora_weights"),
    "a bias of B": ({}, {"base_model.model.a.lora_B.bias": torch.ones(3)}, "a", 'has no tensor "a.bias"'),
    "another rank": ({"r": 8}, {}, "a", 'says rank 8 for "a", but lora_A and lora_B have rank 4'),
    "half of it": (
        {},
        {"base_model.model.c.lora_A.weight": torch.ones(4, 2)},
        "a",
        "only one of the factors lora_A and lora_B",
    ),
    "another shape": ({}, {}, "b", "the adapter's factors have the shapes"),
    "another program": ({"peft_type": None}, {}, "a", "peft_type = null"),
    "a larger vocabulary": (
        {},
        {"base_model.model.b.weight": torch.ones(9, 2)},
        "a",
        'but the tensor to replace, "b.weight"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_adapters_that_are_refused(case: str, tmp_path: Path, fails) -> None:
    config, more, module, rule = REFUSED[case]
    source = folder_of(tmp_path / "source", {"a.weight": torch.ones(3, 5), "b.weight": torch.ones(8, 2)})
    adapter = adapter_at(tmp_path / "adapter", low_rank(module, 3, 5) | more, **config)
    assert rule in fails(2, "convert", source, "--adapter", adapter, "--output", tmp_path / "out")
    assert "adapter_config.json" in fails(2, "convert", source, "--adapter", source, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.tmp").exists()


def test_the_fold_is_pefts(tmp_path: Path) -> None:
    """In float64, where PEFT's own merge is exact to the last bits."""
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(8)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, n_positions=16, vocab_size=20)
    model = transformers.GPT2LMHeadModel(config).double()
    model.save_pretrained(tmp_path / "base")
    targets = ["c_attn", "c_proj", "wte"]
    lora = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, fan_in_fan_out=True, rank_pattern={"c_proj": 2})
    adapted = peft.get_peft_model(model, lora)
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if "lora_" in name:
                value.normal_()
    adapted.double().save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    dimred.convert(tmp_path / "base", tmp_path / "out", adapter=tmp_path / "adapter")
    merged = adapted.merge_and_unload().state_dict()
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "out", dtype=torch.float64).state_dict()
    assert loaded.keys() == merged.keys()
    for name, value in merged.items():
        assert torch.allclose(loaded[name], value, rtol=1e-12, atol=1e-12), name


class Layers(torch.nn.Module):
    """Linear layers and GPT-2's Conv1D, which is stored [in, out]."""

    def __init__(self, **shapes: tuple[int, int]) -> None:
        super().__init__()
        conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D
        for name, (columns, rows) in shapes.items():
            layer = torch.nn.Linear(columns, rows) if name.startswith("linear") else conv1d(rows, columns)
            self.add_module(name, layer)
        self.double()


def adapted_by_peft(model: torch.nn.Module, folder: Path, **options: Any) -> Any:
    """A model of PEFT with noise in its trained parameters, saved as `folder`."""
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=3, **options))
    with torch.no_grad():
        for value in adapted.parameters():
            if value.requires_grad:
                value.normal_()
    adapted.double().save_pretrained(folder)
    return adapted


@pytest.mark.parametrize("shapes", [{"conv1d": (5, 3), "linear": (5, 3)}, {"linear": (5, 3), "conv1d": (4, 4)}])
def test_layers_are_folded_as_their_class_stores_them(shapes: dict[str, tuple[int, int]], tmp_path: Path) -> None:
    """PEFT writes one fan_in_fan_out for all layers, the last one's."""
    torch.manual_seed(9)
    model = Layers(**shapes)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    adapted = adapted_by_peft(model, tmp_path / "adapter", target_modules=list(shapes), lora_bias=True)
    outputs = [tmp_path / "a.safetensors", tmp_path / "b"]

    def fold() -> None:
        dimred.convert(tmp_path / "w.safetensors", outputs[0], adapter=tmp_path / "adapter")
        dimred.merge([tmp_path / "adapter"], outputs[1], base=tmp_path / "w.safetensors")

    if (4, 4) in shapes.values():  # of the square one nothing but that flag speaks, which the other one contradicts
        with pytest.raises(ValueError, match=r'whether the square matrix "conv1d\.weight" is stored transposed'):
            fold()
        return
    fold()
    merged = adapted.merge_and_unload().state_dict()
    for output in (outputs[0], outputs[1] / "model.safetensors"):
        found = load_file(output)
        assert found.keys() == merged.keys()
        for name, value in merged.items():
            assert torch.allclose(found[name], value, rtol=1e-12, atol=1e-12), name


TIED: dict[str, dict[str, list[str]]] = {
    "head": {"target_modules": ["q_proj", "lm_head"]},
    "embedding": {"target_modules": ["q_proj", "embed_tokens"]},
    "both": {"target_modules": ["q_proj", "embed_tokens", "lm_head"]},
    "a copy of the head": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "copies of both": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    "a copy of the embedding": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "a new head": {"target_modules": ["q_proj"], "modules_to_save": ["score"]},
}


@pytest.mark.parametrize("case", TIED)
def test_a_tied_head_that_is_not_saved_is_folded_as_by_peft(case: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(10)
    small = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**small, vocab_size=20, tie_word_embeddings=True, num_labels=3)
    model = transformers.LlamaForCausalLM(config).double()
    model.save_pretrained(tmp_path / "base")
    assert "lm_head.weight" not in load_file(tmp_path / "base/model.safetensors")
    kind = transformers.LlamaForCausalLM
    if case == "a new head":
        kind = transformers.LlamaForSequenceClassification
        model = kind.from_pretrained(tmp_path / "base", dtype=torch.float64)
    adapted = adapted_by_peft(model, tmp_path / "adapter", **TIED[case])
    if case == "a copy of the embedding":  # PEFT's head stays the old embedding, under a name that only the model knows
        with pytest.raises(ValueError, match="fold the adapter with PEFT, which keeps the old embedding as the head"):
            dimred.convert(tmp_path / "base", tmp_path / "out", adapter=tmp_path / "adapter")
        return
    dimred.convert(tmp_path / "base", tmp_path / "out", adapter=tmp_path / "adapter")
    dimred.merge([tmp_path / "adapter"], tmp_path / "merged", base=tmp_path / "base")
    wanted = adapted.merge_and_unload().state_dict()
    for output in (tmp_path / "out", tmp_path / "merged"):
        found = kind.from_pretrained(output, dtype=torch.float64).state_dict()
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert torch.allclose(found[name], value, rtol=1e-12, atol=1e-12), (output, name)
    base = json.loads((tmp_path / "merged/merge.json").read_text())["base"]
    assert base["tensors"].keys() == load_file(tmp_path / "base/model.safetensors").keys()


def test_what_a_head_is_tied_to_must_be_known(tmp_path: Path, fails) -> None:
    weights = {"a.weight": torch.ones(3, 5), "embed_tokens.weight": torch.ones(9, 5)}
    adapter = adapter_at(tmp_path / "adapter", low_rank("a", 3, 5) | low_rank("lm_head", 9, 5))
    source = folder_of(tmp_path / "source", weights)
    for text, why in {
        '{"tie_word_embeddings": false}': "config.json has tie_word_embeddings = false",
        "": "no config.json says to which tensor the head is tied",
    }.items():
        (source / "config.json").write_text(text) if text else (source / "config.json").unlink()
        said = fails(2, "convert", source, "--adapter", adapter, "--output", tmp_path / "out")
        assert f"has no tensor \"lm_head.weight\", but the adapter '{adapter}' changes this tensor; {why}" in said


# Kinds of sources.


def test_distributed_checkpoints_and_mindspores(tmp_path: Path) -> None:
    tensors = {"model.w": torch.randn(7, 4).bfloat16(), "model.b": torch.randn(5)}
    dcp.save(dict(tensors), checkpoint_id=tmp_path / "dcp", no_dist=True)
    dimred.convert(tmp_path / "dcp", tmp_path / "a")
    same_bits(load_file(tmp_path / "a/model.safetensors"), tensors)
    arrays = {"conv.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bn.gamma": np.ones(3, np.float32)}
    extra = {"moments.conv.weight": np.zeros((2, 3), np.float32), "global_step": np.array([7], np.int32)}
    mindspore_checkpoint.write(tmp_path / "net.ckpt", arrays | extra)
    done = dimred.convert(tmp_path / "net.ckpt", tmp_path / "b")
    expected = {"conv.weight": torch.from_numpy(arrays["conv.weight"]), "bn.weight": torch.ones(3)}
    same_bits(load_file(tmp_path / "b/model.safetensors"), expected)
    assert sorted(done.left_out) == ["global_step", "moments.conv.weight"]


def test_raw_and_averaged_weights_of_a_distributed_checkpoint(tmp_path: Path, execute, fails) -> None:
    raw, mean = ({"w": torch.randn(7, 4), "l.b": torch.randn(5)} for _ in range(2))
    for name, prefix in (("bare", ""), ("model", "model.")):
        own = {prefix + key: value for key, value in raw.items()}
        averages = {f"ema.{key}": value for key, value in mean.items()}
        dcp.save(own | averages, checkpoint_id=tmp_path / name, no_dist=True)
        done = dimred.convert(tmp_path / name, tmp_path / f"{name}_both")
        assert len(done.tensors) == 4
        # A command without --take says so, too.
        for said in (done.remarks[0], execute("dimred", "inspect", tmp_path / name)):
            assert "with --take raw or averaged, merge, convert and diff read one of them" in said
        dimred.convert(tmp_path / name, tmp_path / f"{name}_raw", take="raw")
        dimred.convert(tmp_path / name, tmp_path / f"{name}_mean", take="averaged")
        same_bits(load_file(tmp_path / f"{name}_raw/model.safetensors"), own)
        expected = {prefix + key: value for key, value in mean.items()}
        same_bits(load_file(tmp_path / f"{name}_mean/model.safetensors"), expected)
    dcp.save(dict(raw), checkpoint_id=tmp_path / "one", no_dist=True)
    assert "needs raw and averaged weights" in fails(
        2, "convert", tmp_path / "one", "--take", "averaged", "--output", tmp_path / "none"
    )
    step = tmp_path / "step2"
    shutil.copytree(tmp_path / "bare", step)
    for words in (["--take", "averaged"], []):
        execute("dimred", "merge", tmp_path / "bare", step, "--output", tmp_path / f"merged{len(words)}", *words)
    same_bits(load_file(tmp_path / "merged2/model.safetensors"), mean)


@pytest.mark.parametrize("module", ["pathlib", "pathlib._local"])
def test_paths_in_a_distributed_checkpoint_are_of_any_python(module: str, tmp_path: Path, monkeypatch) -> None:
    """Python 3.13 names the module of its paths pathlib._local."""
    monkeypatch.setitem(sys.modules, module, pathlib)
    monkeypatch.setattr(pathlib.PosixPath, "__module__", module)
    tensors = {"w": torch.randn(3)}
    dcp.save(dict(tensors), checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert module.encode() + b"\x94" in (tmp_path / "dcp/.metadata").read_bytes()  # as protocol 4 ends a name
    dimred.convert(tmp_path / "dcp", tmp_path / "a")
    same_bits(load_file(tmp_path / "a/model.safetensors"), tensors)


def test_members_of_enumerations_as_python_3_11_wrote_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 3.11.3, Debian 12's among them, as getattr of the class and the name."""
    monkeypatch.setattr(enum.Enum, "__reduce_ex__", lambda self, _: (getattr, (self.__class__, self._name_)))
    tensors = {"w": torch.randn(3)}
    dcp.save(dict(tensors), checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert b"getattr" in (tmp_path / "dcp/.metadata").read_bytes()
    dimred.convert(tmp_path / "dcp", tmp_path / "a")
    same_bits(load_file(tmp_path / "a/model.safetensors"), tensors)


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    """What revision 8b694755 made."""
    folder = tmp_path_factory.mktemp("earlier")
    subprocess.run(
        [sys.executable, "-m", "tarfile", "-e", REPOSITORY / "tests/earlier/revision_8b694755.tar.gz", folder],
        check=True,
    )
    return folder


def floats_of(file: Path) -> np.ndarray:
    """The floats in the order of their places."""
    head = file.read_bytes()
    header = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])
    header.pop("__metadata__")
    tensors = load_file(file)
    names = sorted(header, key=lambda name: header[name]["data_offsets"])
    return np.concatenate([tensors[name].numpy().ravel() for name in names if tensors[name].is_floating_point()])


def test_snapshots_runs_and_states_of_ours(ours: Path, tmp_path: Path) -> None:
    """Reads the newest state of a run, without the momentum."""
    state = ours / "run/checkpoints/state_00000008"
    snapshot = ours / "run/snapshots/snapshot_00000008.h5"
    held = np.concatenate([np.fromfile(state / name, np.float32) for name in ("weights.f32", "buffers.f32")])
    with h5py.File(snapshot) as file:
        stored = np.concatenate([file[name][:].ravel() for name in ("weights", "buffers") if name in file])
    for name, source, expected in (("snapshot", snapshot, stored), ("state", state, held), ("run", ours / "run", held)):
        dimred.convert(source, tmp_path / f"{name}.safetensors")
        assert floats_of(tmp_path / f"{name}.safetensors").tobytes() == expected.tobytes(), name


def test_a_series_is_refused_with_its_newest(tmp_path: Path, fails) -> None:
    for step in (9, 10):
        folder_of(tmp_path / f"run/step{step}", {"w": torch.ones(2)})
    said = fails(2, "convert", tmp_path / "run", "--output", tmp_path / "out")
    assert "step10" in said and "dimred merge" in said
    assert "would be inside" in fails(2, "convert", tmp_path / "run/step9", "--output", tmp_path / "run/step9/out")
    for source in ("run/step9/model.safetensors", "run/step9"):  # readers find a folder of weights in it
        for output in ("run/step9/out", "run/step9/adapter_model.safetensors"):
            assert "would be inside" in fails(2, "convert", tmp_path / source, "--output", tmp_path / output)
    file = tmp_path / "run/step9/model.safetensors"
    dimred.convert(file, tmp_path / "run/step9/half.safetensors", dtype="float16")  # readers pass it over
    dimred.convert(tmp_path / "run/step9", tmp_path / "again.safetensors")
    same_bits(load_file(tmp_path / "again.safetensors"), {"w": torch.ones(2)})
    folder_of(tmp_path / "out", {"w": torch.ones(2)})
    assert "exists already" in fails(2, "convert", tmp_path / "run/step9", "--output", tmp_path / "out")
    assert "needs SOURCE, the checkpoint" in fails(2, "convert", "--output", tmp_path / "x")
    assert "as --output" in fails(2, "convert", tmp_path / "run/step9")


# Stops, and what changes meanwhile.


def sparse_shards(folder: Path, count: int, size: int) -> None:
    """Shards of zeros that take no room."""
    folder.mkdir()
    places = {}
    for i in range(count):
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        header = json.dumps({f"t{i}": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
        with (folder / name).open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)
        places[f"t{i}"] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def when_there(file: Path, count: int, action) -> threading.Thread:
    """Calls `action` once as many records of shards are there."""

    def wait() -> None:
        for _ in range(2000):
            if len(list(file.glob(".*.safetensors.json"))) >= count:
                break
            time.sleep(0.005)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def killed_conversion(dimred: Path, folder: Path) -> list[object]:
    """Kills a conversion when three shards are finished; its words."""
    sparse_shards(folder / "source", 12, 8 << 20)
    words = ["convert", folder / "source", "--output", folder / "out", "--threads", "1"]
    process = subprocess.Popen([dimred, *words], stdout=subprocess.DEVNULL)
    when_there(folder / "out.tmp", 3, process.kill).join()
    assert process.wait() == -signal.SIGKILL
    return words


def test_a_killed_conversion_goes_on_by_shard(tmp_path: Path, dimred: Path, execute) -> None:
    """Finished shards that were damaged meanwhile are written again."""
    words = killed_conversion(dimred, tmp_path)
    first, second, *whole = sorted(file.name[1:-5] for file in (tmp_path / "out.tmp").glob(".*.safetensors.json"))
    assert whole
    written = {name: (tmp_path / "out.tmp" / name).stat().st_mtime_ns for name in whole}
    for name, offset in ((first, -5), (second, 12)):  # in the values, and in the header
        content = bytearray((tmp_path / "out.tmp" / name).read_bytes())
        content[offset] ^= 1
        (tmp_path / "out.tmp" / name).write_bytes(content)
    execute("dimred", *words)
    for name, time_of_it in written.items():
        assert (tmp_path / "out" / name).stat().st_mtime_ns == time_of_it, name
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 12
    assert not (tmp_path / "out.tmp").exists()
    for file in (tmp_path / "out").glob("*.safetensors"):
        assert all(not value.any() for value in load_file(file).values())
    assert not faults_of(tmp_path / "out")


def faults_of(folder: Path) -> list[str]:
    return dimred.inspect(folder, check=True).faults


def converted(source: Path, output: Path) -> Path:
    dimred.convert(source, output)
    return output


def test_a_check_compares_the_digests_of_a_conversion(tmp_path: Path, dimred: Path) -> None:
    source = folder_of(tmp_path / "source", {name: torch.ones(2) for name in NAMES})
    assert not faults_of(converted(source, tmp_path / "out"))
    save_file({name: torch.full((2,), 2.0) for name in NAMES}, tmp_path / "out/model.safetensors")
    assert "convert.json has another digest" in faults_of(tmp_path / "out")[0]
    done = completed([dimred, "inspect", tmp_path / "out", "--check"])
    assert done.returncode == 1
    assert "convert.json has another digest" in done.stdout + done.stderr
    save_file({"of_another_program": torch.ones(2)}, tmp_path / "out/adapter_model.safetensors")
    assert "convert.json has another digest" in faults_of(tmp_path / "out")[0]  # not of the file beside it


def test_another_plan_begins_anew(tmp_path: Path, execute, dimred: Path) -> None:
    execute("dimred", *killed_conversion(dimred, tmp_path), "--dtype", "bfloat16")
    types = {value.dtype for file in (tmp_path / "out").glob("*.safetensors") for value in load_file(file).values()}
    assert types == {torch.bfloat16}


def test_ctrl_c_ends_a_conversion(tmp_path: Path) -> None:
    sparse_shards(tmp_path / "source", 40, 16 << 20)
    interrupt = when_there(tmp_path / "out.tmp", 1, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        dimred.convert(tmp_path / "source", tmp_path / "out", threads=1)
    interrupt.join()
    assert not (tmp_path / "out").exists() and (tmp_path / "out.tmp").exists()


def test_a_source_that_changes_is_refused(tmp_path: Path, dimred: Path) -> None:
    sparse_shards(tmp_path / "source", 30, 16 << 20)
    last = sorted((tmp_path / "source").glob("*.safetensors"))[-1]
    words = ["convert", tmp_path / "source", "--output", tmp_path / "out", "--threads", "1"]
    process = subprocess.Popen([dimred, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    when_there(tmp_path / "out.tmp", 1, lambda: os.utime(last, (1, 1))).join()
    assert process.wait() == 1
    assert process.stderr is not None and "has changed" in process.stderr.read()
    assert not (tmp_path / "out").exists()


# Python, and the page.


def test_how_a_result_reads(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source", {"a": torch.ones(3), "b.w": torch.ones(2)})
    done = dimred.convert(source, tmp_path / "out", dtype="bfloat16", rename={r"^b\.": ""}, exclude="zzz")
    text = repr(done)
    assert text.splitlines() == [
        f"Converted {str(tmp_path / 'out')!r}: 2 tensors in 1 file, {done.bytes:,} bytes",
        "  1 renamed",
        "  2 cast to another type",
        '  --exclude: "zzz" excludes no tensor',
    ]
    for name, value in {"dtype": "int8", "take": "best", "include": "", "shard_size": "x", "threads": -1}.items():
        with pytest.raises(ValueError, match=name if name != "shard_size" else "size"):
            dimred.convert(source, tmp_path / "no", **{name: value})
    with pytest.raises(TypeError, match="rename"):
        dimred.convert(source, tmp_path / "no", rename=[("a", 1)])
    assert not (tmp_path / "no").exists()


def test_the_page_runs(tmp_path: Path, binaries: Path) -> None:
    """Its blocks, where there is what they name."""
    weights = {f"model.layers.{i}.q_proj.weight": torch.ones(4, 4) for i in range(2)}
    dcp.save(dict(weights), checkpoint_id=tmp_path / "run/step_1000", no_dist=True)
    folder_of(tmp_path / "base", weights)
    adapter_at(tmp_path / "adapter", low_rank("model.layers.1.q_proj", 4, 4))
    path = f"{binaries}:{os.environ['PATH']}"
    found = marked_blocks(PAGE)
    assert len(found) >= 4
    for language, text in found:
        assert language == "sh"
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=tmp_path, check=True, env={**os.environ, "PATH": path}
        )
    assert (tmp_path / "for_transformers/config.json").exists()
    shutil.rmtree(tmp_path / "for_transformers")


# What a hostile review found.


def test_numbers_of_python_in_a_configuration_stay(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source", {"w": torch.ones(2)}, limit=[0.0, float("inf"), float("-inf")], text="NaN")
    dimred.convert(source, tmp_path / "out", dtype="bfloat16")
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["torch_dtype"] == "bfloat16" and config["text"] == "NaN"
    assert config["limit"] == [0.0, float("inf"), float("-inf")]


def test_numbers_in_a_configuration_keep_their_digits(tmp_path: Path) -> None:
    """Also those that 64 bits do not hold, and not those within texts."""
    numbers = ["123456789012345678901234567890", "-98765432109876543210", "0.12345678901234567891", "1e-05", "1E+999"]
    config = '{"dtype": "float32", "name": "9e9 \\u0000 NaN", "one": 0, "all": [%s], "text_config": {"n": 2.50}}'
    source = folder_of(tmp_path / "source", {"w": torch.ones(2)})
    (source / "config.json").write_text(config % ", ".join(numbers))
    dimred.convert(source, tmp_path / "out", dtype="bfloat16")
    text = (tmp_path / "out/config.json").read_text()
    found = json.loads(text, parse_int=str, parse_float=str)
    assert found == {**json.loads(config % "", parse_int=str, parse_float=str), "dtype": "bfloat16", "all": numbers}
    (source / "config.json").write_text('{"dtype": "float32", "n": [01]}')
    with pytest.raises(OSError, match="the text is not JSON, line 1, column 29"):
        dimred.convert(source, tmp_path / "no", dtype="bfloat16")


def test_a_name_that_is_too_long_to_search_is_refused(tmp_path: Path, fails) -> None:
    save_file({"a" * 300_000: torch.ones(2)}, tmp_path / "w.safetensors")
    words = ("convert", tmp_path / "w.safetensors", "--output", tmp_path / "out.safetensors", "--include", "(a|b)*c")
    assert "at most 4096 bytes" in fails(2, *words)
    assert "at most 4096 bytes" in fails(2, "diff", *2 * [tmp_path / "w.safetensors"], "--exclude", ".*c")


def test_a_line_end_in_a_name_forges_no_line(tmp_path: Path, execute) -> None:
    save_file({"a\nsame": torch.ones(2)}, tmp_path / "w.safetensors")
    words = ["--output", tmp_path / "out.safetensors", "--dtype", "float16"]
    assert "same" not in execute("dimred", "convert", tmp_path / "w.safetensors", *words).splitlines()


def test_scales_of_quantised_weights_are_not_rounded(tmp_path: Path, fails, execute) -> None:
    """Codes mean nothing without them; as they are, both are copied."""
    codes = {"l.weight": torch.ones(8, dtype=torch.uint8), "l.weight.absmax": torch.tensor([0.1])}
    codes |= {"l.weight.quant_map": torch.linspace(-1, 1, 16), "norm.weight": torch.ones(4)}
    (tmp_path / "in").mkdir()
    save_file(codes, tmp_path / "in/model.safetensors")
    line = fails(2, "convert", tmp_path / "in", "--dtype=bfloat16", "--output", tmp_path / "half")
    assert 'needs unquantised weights for --dtype BF16, received the codes "l.weight"' in line
    assert "scales would be rounded; leave out --dtype" in line
    execute("dimred", "convert", tmp_path / "in", "--output", tmp_path / "same")
    same_bits(load_file(tmp_path / "same/model.safetensors"), codes)
