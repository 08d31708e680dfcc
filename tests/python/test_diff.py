"""Two checkpoints against each other: bits, distances, tolerances, names, formats, exit codes, the JSON document."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from cli import completed
from reference import mindspore_checkpoint
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

import dimred

Answer = tuple[int, str, str]
KEYS = ["name", "status", "dtype", "shape", "elements", "different", "max_abs", "max_rel", "max_ulp", "cosine"]


@pytest.fixture(scope="module")
def answer(binaries: Path) -> Callable[..., Answer]:
    """Runs `dimred diff`: exit code, standard output, standard error."""

    def call(*words: object) -> Answer:
        command = [str(binaries / "dimred"), "diff", *map(str, words)]
        done = completed(command)
        return done.returncode, done.stdout, done.stderr

    return call


def network(seed: int = 0) -> dict[str, torch.Tensor]:
    """A small network's tensors of several types."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "body.weight": torch.randn(40, 30, generator=generator),
        "body.bias": torch.randn(40, generator=generator),
        "head.weight": torch.randn(7, 40, generator=generator).to(torch.bfloat16),
        "norm.num_batches_tracked": torch.tensor(5),
        "mask": torch.tensor([True, False, True]),
    }


def changed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A copy in which one value of body.weight is another."""
    copy = {name: tensor.clone() for name, tensor in tensors.items()}
    copy["body.weight"][3, 4] += 0.5
    return copy


def save_shards(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    """A shard for each tensor, in the reverse order of names, and their index."""
    folder.mkdir()
    places = {}
    for i, name in enumerate(sorted(tensors, reverse=True), 1):
        places[name] = f"model-{i:05d}-of-{len(tensors):05d}.safetensors"
        save_file({name: tensors[name]}, folder / places[name])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def save_pytorch(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    folder.mkdir()
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "weights.bin")
    return folder / "weights.bin"


def save_distributed(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    dcp.save(tensors, checkpoint_id=folder, no_dist=True)
    return folder


def save_single(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    return folder


FORMS = {"file": save_single, "shards": save_shards, "PyTorch": save_pytorch, "distributed": save_distributed}


@pytest.mark.parametrize("form_a", FORMS)
@pytest.mark.parametrize("form_b", FORMS)
def test_formats_hold_the_same_tensors(form_a: str, form_b: str, tmp_path: Path, answer) -> None:
    tensors = network()
    a, b = FORMS[form_a](tensors, tmp_path / "a"), FORMS[form_b](tensors, tmp_path / "b")
    code, text, errors = answer(a, b)
    assert (code, errors) == (0, "")
    assert text.splitlines()[-1] == "same: 5 tensors, 5.5 kB"
    c = FORMS[form_b](changed(tensors), tmp_path / "c")
    code, text, _ = answer(a, c, "--json")
    found = json.loads(text)
    assert code == 1
    assert {row["name"]: row["different"] for row in found["tensors"] if row["status"] != "same"} == {"body.weight": 1}


def test_snapshots_and_mindspores_files_against_safetensors(tmp_path: Path, answer) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
    with dimred.SnapshotRecorder(model, tmp_path / "run", every_steps=1) as recorder:
        recorder.step()
    snapshot = next((tmp_path / "run").glob("*.h5"))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    assert answer(snapshot, tmp_path / "model.safetensors")[:2] == (
        0,
        f"A: {snapshot} (snapshot)\nB: {tmp_path / 'model.safetensors'} (safetensors)\nsame: 7 tensors, 232 B\n",
    )
    mindspore_checkpoint.write(tmp_path / "model.ckpt", mindspore_checkpoint.arrays_of(model))
    code, text, _ = answer(tmp_path / "model.ckpt", tmp_path / "model.safetensors")
    assert code == 1
    assert text.splitlines()[-1] == "0 of 6 tensors differ, 1 only in B"
    assert answer(tmp_path / "model.ckpt", snapshot, "--exclude", "num_batches")[0] == 0


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    """The largest number of steps from float to float, by places among all floats."""
    places = [np.where(bits < 0, -(bits & 0x7FFFFFFF), bits).astype(np.int64) for bits in (a.view("i4"), b.view("i4"))]
    return int(np.abs(places[0] - places[1]).max())


def test_the_document_says_what_numpy_computes(tmp_path: Path, answer) -> None:
    generator = np.random.default_rng(5)
    a: dict[str, np.ndarray] = {}
    a["x"] = generator.standard_normal((300, 1001), np.float32)
    a["i"] = generator.integers(-99, 99, 500)
    b = {name: value.copy() for name, value in a.items()}
    b["x"][::3] *= np.float32(1.001)
    b["i"][7] = 1000
    a["only.here"], b["only.there"] = np.zeros(2, np.float32), np.zeros(3, np.float32)
    a["same"] = b["same"] = generator.standard_normal(10)
    save_arrays(a, tmp_path / "a.safetensors")
    save_arrays(b, tmp_path / "b.safetensors")
    code, text, errors = answer(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json", "--threads", "2")
    assert (code, errors) == (1, "")
    found = json.loads(text)
    assert list(found) == ["same", "only_a", "only_b", "tensors"]
    assert (found["same"], found["only_a"], found["only_b"]) == (False, ["only.here"], ["only.there"])
    assert all(list(row) == KEYS for row in found["tensors"])
    rows = {row["name"]: row for row in found["tensors"]}
    for name, dtype in (("x", "F32"), ("i", "I64"), ("same", "F64")):
        one, other = a[name].astype(np.float64), b[name].astype(np.float64)
        apart = np.abs(one - other)
        row = rows[name]
        assert (row["dtype"], row["shape"], row["elements"]) == (dtype, list(one.shape), one.size)
        assert row["different"] == (a[name] != b[name]).sum()
        assert row["max_abs"] == apart.max()
        assert row["max_rel"] == (apart[apart > 0] / np.abs(other[apart > 0])).max(initial=0)
        cosine = (one * other).sum() / np.sqrt((one * one).sum() * (other * other).sum())
        assert row["cosine"] == pytest.approx(cosine, rel=0, abs=1e-13)
    assert rows["x"]["max_ulp"] == ulps(a["x"], b["x"])
    assert (rows["i"]["max_ulp"], rows["same"]["max_ulp"], rows["same"]["cosine"]) == (None, 0, 1)
    assert [rows[name]["status"] for name in ("x", "i", "same")] == ["different", "different", "same"]
    assert (
        json.loads(answer(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json", "--threads", "1")[1])
        == found
    )


def one_tensor(folder: Path, value: torch.Tensor | np.ndarray) -> Path:
    file = folder / f"{len(list(folder.iterdir()))}.safetensors"
    save_file({"x": torch.as_tensor(value)}, file)
    return file


def row_of(answer, a: Path, b: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the one tensor."""
    code, text, errors = answer(a, b, "--json", *words)
    assert errors == ""
    return code, json.loads(text)["tensors"][0]


def test_bits_decide(tmp_path: Path, answer) -> None:
    nan, other_nan = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    zero, negative_zero = np.zeros(1, np.float32), -np.zeros(1, np.float32)
    for a, b, expected in ((nan, nan, 0), (nan, other_nan, 1), (zero, negative_zero, 1), (zero, zero, 0)):
        code, row = row_of(answer, one_tensor(tmp_path, a), one_tensor(tmp_path, b))
        assert (code, row["different"], row["max_abs"], row["max_ulp"]) == (expected, expected, 0, 0)
    code, row = row_of(answer, one_tensor(tmp_path, nan), one_tensor(tmp_path, zero))
    assert (code, [row[key] for key in KEYS[5:]]) == (1, [1, None, None, None, None])


def test_another_type_is_a_difference_whose_values_are_compared(tmp_path: Path, answer) -> None:
    value = torch.tensor([1.0, 2.5, -3.0, 0.1])
    half = one_tensor(tmp_path, value.to(torch.bfloat16))
    code, row = row_of(answer, one_tensor(tmp_path, value), half)
    assert (code, row["status"], row["dtype"], row["different"]) == (1, "dtype", ["F32", "BF16"], 1)
    assert row["max_abs"] == abs(float(value[3]) - float(value.to(torch.bfloat16)[3]))
    assert row["max_ulp"] is None
    code, row = row_of(answer, one_tensor(tmp_path, value.to(torch.bfloat16).float()), half)
    assert (code, row["status"], row["different"], row["max_abs"]) == (1, "dtype", 0, 0)
    near = one_tensor(tmp_path, value)
    assert answer(near, half)[1].splitlines()[-1] == "1 of 1 tensor differs"
    assert answer(near, half, "--rtol", "0.01")[1].splitlines()[-1] == "1 of 1 tensor differs, 1 in type alone"
    assert repr(dimred.diff(near, half, rtol=0.01)).splitlines()[-1] == "1 of 1 tensor differs, 1 in type alone"
    code, row = row_of(answer, one_tensor(tmp_path, value.reshape(2, 2)), half)
    assert (code, row["status"], row["shape"]) == (1, "shape", [[2, 2], [4]])
    assert [row[key] for key in KEYS[4:]] == [None] * 6


def test_float8_is_compared_by_bits(tmp_path: Path, answer) -> None:
    a = torch.tensor([1.0, 2.0, 3.0]).to(torch.float8_e4m3fn)
    b = torch.tensor([1.0, 2.0, 4.0]).to(torch.float8_e4m3fn)
    code, row = row_of(answer, one_tensor(tmp_path, a), one_tensor(tmp_path, b))
    assert (code, [row[key] for key in KEYS[2:]]) == (1, ["F8_E4M3", [3], 3, 1, None, None, None, None])
    code, row = row_of(answer, one_tensor(tmp_path, a), one_tensor(tmp_path, b.float()))
    assert (code, row["status"], row["different"]) == (1, "dtype", None)


@pytest.mark.parametrize(("dtype", "name"), [(torch.complex64, "C64"), (torch.float8_e5m2, "F8_E5M2")])
def test_a_tolerance_without_effect_is_said(dtype: torch.dtype, name: str, tmp_path: Path, answer) -> None:
    a, b = (
        one_tensor(tmp_path, torch.tensor([1.0, 2.0]).to(dtype)),
        one_tensor(tmp_path, torch.tensor([1.0, 2.5]).to(dtype)),
    )
    note = f"the tolerances have no effect on tensors of type {name}: dimred compares their bits"
    code, text, _ = answer(a, b, "--rtol=1", "--atol=1")
    assert (code, note in text.splitlines()) == (1, True)
    assert note in dimred.diff(a, b, rtol=1).remarks
    assert "tolerances" not in answer(a, b)[1] + answer(a, a, "--rtol=1")[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int32])
def test_tolerances_are_those_of_numpy(dtype: torch.dtype, tmp_path: Path, answer) -> None:
    generator = torch.Generator().manual_seed(2)
    a = (100 * torch.randn(3000, generator=generator)).to(dtype)
    b = (a.double() + 2 * torch.randn(3000, generator=generator).double()).to(dtype)
    if dtype.is_floating_point:
        specials = torch.tensor([torch.inf, torch.inf, -torch.inf, torch.nan, 1.0, 0.0, torch.nan]).to(dtype)
        a, b = torch.cat([a, specials]), torch.cat([b, specials[[0, 2, 4, 3, 1, 5, 4]]])
    files = one_tensor(tmp_path, a), one_tensor(tmp_path, b)
    for rtol, atol in ((0.01, 0), (0, 1), (0.003, 0.3), (1e9, 1e9)):
        within = np.isclose(a.double().numpy(), b.double().numpy(), rtol=rtol, atol=atol, equal_nan=True)
        code, row = row_of(answer, *files, f"--rtol={rtol}", f"--atol={atol}")
        assert (code, row["different"]) == (int(not within.all()), (~within).sum())
    assert answer(files[0], files[0], "--rtol=0.1")[:2][0] == 0


def test_names_are_mapped_and_hinted(tmp_path: Path, answer) -> None:
    tensors = network()
    wrapped = {f"module.{name}": tensor for name, tensor in tensors.items()}
    save_file(tensors, tmp_path / "plain.safetensors")
    save_file(wrapped, tmp_path / "wrapped.safetensors")
    code, text, _ = answer(tmp_path / "wrapped.safetensors", tmp_path / "plain.safetensors")
    assert code == 1
    assert r"hint: --rename FILE with the line ^module\.(.*) -> \1 maps 5 names of A to B's" in text.splitlines()
    assert text.splitlines()[-1] == "0 of 0 tensors differ, 5 only in A, 5 only in B"
    (tmp_path / "names.txt").write_text("# as DDP has them\n^module\\.(.*) -> \\1\n")
    words = ("--rename", tmp_path / "names.txt")
    code, text, _ = answer(tmp_path / "wrapped.safetensors", tmp_path / "plain.safetensors", *words)
    assert (code, text.splitlines()[-1]) == (0, "same: 5 tensors, 5.5 kB")
    code, text, _ = answer(tmp_path / "plain.safetensors", tmp_path / "wrapped.safetensors")
    assert r"the line ^(.*)$ -> module.\1 maps 5 names" in text
    compiled = {name.replace("weight", "_orig_mod.weight"): tensor for name, tensor in tensors.items()}
    save_file(compiled, tmp_path / "compiled.safetensors")
    code, text, _ = answer(tmp_path / "compiled.safetensors", tmp_path / "plain.safetensors")
    assert (code, "the line _orig_mod\\.() -> \\1 maps 2 names of A" in text) == (1, True)
    (tmp_path / "names.txt").write_text("_orig_mod\\.() -> \\1\n")
    assert answer(tmp_path / "compiled.safetensors", tmp_path / "plain.safetensors", *words)[0] == 0


def test_a_hint_is_of_a_part_that_names_have(tmp_path: Path, answer) -> None:
    """The rule takes all names away from their partners; no name has _orig_mod."""
    save_file(network(), tmp_path / "a.safetensors")
    (tmp_path / "names.txt").write_text("^ -> x\n")
    code, text, _ = answer(tmp_path / "a.safetensors", tmp_path / "a.safetensors", "--rename", tmp_path / "names.txt")
    assert (code, "hint:" in text, "5 only in A, 5 only in B" in text) == (1, False, True)


def test_expressions_choose_by_the_names_of_each_side(tmp_path: Path, answer, fails) -> None:
    tensors = network()
    save_file({f"module.{name}": tensor for name, tensor in tensors.items()}, tmp_path / "a.safetensors")
    save_file(changed(tensors), tmp_path / "b.safetensors")
    (tmp_path / "names.txt").write_text("^module\\.(.*) -> \\1\n")
    sides = (tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--rename", tmp_path / "names.txt")
    assert answer(*sides)[0] == 1
    assert answer(*sides, "--exclude", r"body\.weight$")[0] == 0
    assert answer(*sides, "--include", "bias|mask")[1].splitlines()[-1] == "same: 2 tensors, 163 B"
    code, text, _ = answer(*sides, "--include", "^module|^mask")
    assert (code, text.splitlines()[-1]) == (1, "0 of 1 tensor differ, 4 only in A")
    assert "leave no tensor" in fails(2, "diff", *sides, "--include", "nothing")
    assert "names.txt:1" in answer(tmp_path / "b.safetensors", tmp_path / "b.safetensors", *sides[2:])[1]
    (tmp_path / "names.txt").write_text("weight|bias -> x\n")
    assert 'of A the same name, "module.body.x"' in fails(2, "diff", *sides)


def test_trouble_is_two_whoever_is_at_fault(tmp_path: Path, answer, fails) -> None:
    file = tmp_path / "a.safetensors"
    save_file(network(), file)
    damaged = tmp_path / "b.safetensors"
    damaged.write_bytes(file.read_bytes()[:-1])
    torn = save_pytorch(network(), tmp_path / "torn")
    data = bytearray(torn.read_bytes())
    data[len(data) // 2] ^= 1
    torn.write_bytes(data)
    assert "[safetensors]" in fails(2, "diff", file, damaged)
    assert str(torn) in fails(2, "diff", torn, file)
    assert "no such file" in fails(2, "diff", file, tmp_path / "absent")
    assert "needs two checkpoints to compare, A and B" in fails(2, "diff", file)
    assert "--rtol" in fails(2, "diff", file, file, "--rtol=-1")
    assert "--include" in fails(2, "diff", file, file, "--include", "(")
    (tmp_path / "run").mkdir()
    for step in (1, 2):
        save_single(network(step), tmp_path / f"run/checkpoint-{step}")
    refused = fails(2, "diff", tmp_path / "run", file)
    assert "checkpoint-2" in refused
    assert "dimred merge" in refused
    assert "--take" in fails(2, "diff", file, file, "--take", "averaged")


def test_training_state_alone_is_not_called_the_same(tmp_path: Path, fails) -> None:
    for value in (1.0, 2.0):
        save_file({"optimizer.state.0.exp_avg": torch.full((3,), value)}, tmp_path / f"{value:.0f}.safetensors")
    said = fails(2, "diff", tmp_path / "1.safetensors", tmp_path / "2.safetensors")
    assert "as training state: 1 tensor (optimizer.state.0.exp_avg)" in said


def test_raw_and_averaged_weights_of_the_sides_that_hold_both(tmp_path: Path, answer) -> None:
    raw, average = network(1), network(2)
    torch.save({"state_dict": average, "current_model_state": raw}, tmp_path / "both.ckpt")
    save_file(raw, tmp_path / "raw.safetensors")
    save_file(average, tmp_path / "average.safetensors")
    for take, file, other in (("raw", "raw", "average"), ("averaged", "average", "raw")):
        words = (tmp_path / "both.ckpt", "--take", take)
        assert answer(*words, tmp_path / f"{file}.safetensors")[0] == 0, take
        assert answer(*words, tmp_path / f"{other}.safetensors")[0] == 1, take
        assert answer(tmp_path / f"{file}.safetensors", *words)[0] == 0, take


def test_a_side_that_says_that_its_weights_are_of_the_other_kind_is_refused(tmp_path: Path, fails) -> None:
    """Another kind would be compared in the place of the one that was asked for."""
    files = {
        "both": {"model": network(1), "ema": network(2)},
        "average": {"ema": network(1)},
        "averages": {"model": network(2), "ema_0.9": network(3), "ema_0.99": network(4)},
    }
    for name, content in files.items():
        torch.save(content, tmp_path / f"{name}.pt")
    both, average, averages = (tmp_path / f"{name}.pt" for name in files)
    assert "holds no raw weights, only ema" in fails(2, "diff", both, average, "--take=raw")
    assert "holds several kinds of averaged weights" in fails(2, "diff", averages, both, "--take=averaged", "--quiet")


def test_one_file_under_two_names_is_the_same(tmp_path: Path, answer) -> None:
    save_file(network(), tmp_path / "a.safetensors")
    os.link(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    code, text, _ = answer(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json")
    linked = json.loads(text)
    shutil.copy(tmp_path / "a.safetensors", tmp_path / "c.safetensors")
    code_of_copy, text, _ = answer(tmp_path / "a.safetensors", tmp_path / "c.safetensors", "--json")
    assert (code, code_of_copy, linked) == (0, 0, json.loads(text))


def test_the_table_for_people(tmp_path: Path, answer) -> None:
    a = {"w": torch.tensor([1.0, 2.0, 4.0]), "n": torch.tensor([1, 2]), "old\x1b[2J": torch.zeros(2)}
    a |= {f"layer.{i}": torch.zeros(1) for i in range(30)}
    b = {"w": torch.tensor([1.0, 2.5, 4.0]), "n": torch.tensor([1, 2]), "new": torch.zeros(1)}
    save_file(a, tmp_path / "a.safetensors")
    save_file(b, tmp_path / "b.safetensors")
    code, text, errors = answer(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    lines = text.splitlines()
    assert (code, errors) == (1, "")
    assert lines[:4] == [
        f"A: {tmp_path}/a.safetensors (safetensors)",
        f"B: {tmp_path}/b.safetensors (safetensors)",
        "tensor  type  shape  different  max abs  max rel        ulp    cosine",
        "w       F32   3          1 / 3      0.5      0.2  2,097,152  0.995638",
    ]
    assert lines[4] == "only in A: 31 tensors"
    assert lines[25:] == [
        "  and 11 more; --json lists all",
        "only in B: 1 tensor",
        "  new  F32  1",
        "1 of 2 tensors differs, 31 only in A, 1 only in B",
    ]
    assert "\x1b" not in text
    assert answer(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--quiet") == (1, "", "")


def test_a_mean_is_what_a_merge_writes(tmp_path: Path, answer) -> None:
    for step in (1, 2):
        save_file({"w": torch.randn(50)}, tmp_path / f"step_{step}.safetensors")
    dimred.merge(str(tmp_path / "step_*"), tmp_path / "merged")
    mean = dimred.average([tmp_path / "step_1.safetensors", tmp_path / "step_2.safetensors"])
    save_arrays(mean.arrays(), tmp_path / "mean.safetensors")
    assert answer(tmp_path / "merged", tmp_path / "mean.safetensors")[0] == 0


def test_python_returns_the_document(tmp_path: Path) -> None:
    tensors = network()
    save_file({f"module.{name}": tensor for name, tensor in tensors.items()}, tmp_path / "a.safetensors")
    save_file(changed(tensors), tmp_path / "b.safetensors")
    sides = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    plain = dimred.diff(*sides)
    assert (plain.same, len(plain.only_a), len(plain.only_b), plain.tensors) == (False, 5, 5, [])
    assert any(remark.startswith("hint: --rename") for remark in plain.remarks)
    (tmp_path / "names.txt").write_text("^module\\.(.*) -> \\1\n")
    found = dimred.diff(*sides, rename=tmp_path / "names.txt")
    assert found == dimred.diff(*map(str, sides), rename={r"^module\.(.*)": r"\1"})
    assert [tensor.name for tensor in found.differing] == ["body.weight"]
    weight = found.differing[0]
    assert (weight.dtype, weight.shape, weight.elements, weight.different) == ("F32", (40, 30), 1200, 1)
    assert weight.max_abs == pytest.approx(0.5, rel=1e-6)
    assert repr(found).splitlines()[-1] == "1 of 5 tensors differs"
    assert "body.weight  F32   (40, 30)  1 / 1200" in repr(found)
    assert "<td>body.weight</td>" in found._repr_html_()
    assert dimred.diff(*sides, rename={r"^module\.(.*)": r"\1"}, atol=0.6).same
    assert dimred.diff(*sides, rename={r"^module\.(.*)": r"\1"}, exclude=r"body\.weight").same
    save_file({**tensors, "mask": torch.zeros(3)}, tmp_path / "c.safetensors")
    other = dimred.diff(sides[1], tmp_path / "c.safetensors", include="mask")
    assert (other.tensors[0].dtype, other.tensors[0].status) == (("BOOL", "F32"), "dtype")
    assert "BOOL / F32" in repr(other)
    for options, error, what in (
        ({"rtol": -1}, ValueError, "needs rtol >= 0"),
        ({"atol": "1"}, TypeError, "needs atol as a number"),
        ({"take": "mean"}, ValueError, "needs take as one of raw, averaged"),
        ({"include": 3}, TypeError, "needs include as a regular expression"),
        ({"rename": [("a",)]}, TypeError, "needs rename as pairs of two texts"),
    ):
        with pytest.raises(error, match=what):
            dimred.diff(*sides, **options)
    with pytest.raises(ValueError, match="no such file"):
        dimred.diff(tmp_path / "absent", sides[0])
    sides[0].write_bytes(b"x" * 100)
    with pytest.raises((OSError, ValueError), match=r"a\.safetensors"):
        dimred.diff(*sides)


def test_json_leaves_notes_to_standard_error(tmp_path: Path, binaries: Path) -> None:
    save_file({"l.weight": torch.ones(3)}, tmp_path / "a.safetensors")
    command = [binaries / "dimred", "diff", tmp_path / "a.safetensors", tmp_path / "a.safetensors", "--exclude=none"]
    done = completed([*command, "--json"])
    assert json.loads(done.stdout)["same"] and "none" in done.stderr, done.stderr
    assert completed([*command, "--json", "--quiet"]).stderr == ""
