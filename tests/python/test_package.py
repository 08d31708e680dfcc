"""The Python package, against the extension in the build folder: what pip installs, but for its place."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import json
import os
import pickle
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
import tomllib
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from cli import completed
from conftest import PACKAGE, REPOSITORY
from dimred_twins import build
from fashion import few
from numpy.testing import assert_allclose, assert_array_equal
from reference import mindspore_checkpoint
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_iris
from sklearn.decomposition.tests import test_pca as pca_cases

import dimred
from dimred._fit import _available_memory

N, K = 9, 4
SHAPES = {"conv.weight": (8, 3, 3, 3), "conv.bias": (8,), "fc.weight": (10, 32)}
M = sum(int(np.prod(shape)) for shape in SHAPES.values())


@pytest.fixture(scope="module")
def snapshots() -> np.ndarray:
    """A random walk."""
    return np.cumsum(np.random.default_rng(0).normal(size=(N, M)), axis=0).astype(np.float32)


def state_of(row: np.ndarray) -> dict[str, np.ndarray]:
    """Its parameters by name."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES.values()])[:-1]
    return {name: part.reshape(shape) for (name, shape), part in zip(SHAPES.items(), np.split(row, ends), strict=True)}


def torch_state(row: np.ndarray) -> dict[str, torch.Tensor]:
    """A state_dict of the row, with what one holds beside parameters."""
    state = {name: torch.from_numpy(part.copy()) for name, part in state_of(row).items()}
    return state | {"bn.running_mean": torch.randn(8), "bn.num_batches_tracked": torch.tensor(7)}


def rows_of(basis: dimred.Basis, of: np.ndarray) -> None:
    """The basis is the exact one of these rows, by NumPy's SVD in float64."""
    centred = of.astype(np.float64) - of.astype(np.float64).mean(axis=0)
    _, values, rows = np.linalg.svd(centred, full_matrices=False)
    rows = rows[:K] * np.sign(rows[np.arange(K), np.abs(rows[:K]).argmax(axis=1)])[:, None]
    assert_allclose(basis.components, rows, atol=1e-6)
    assert_allclose(basis.singular_values, values[:K], rtol=1e-9)
    assert_allclose(basis.explained_variance_ratio, values[:K] ** 2 / (values**2).sum(), rtol=1e-9)
    assert_allclose(basis.mean, of.astype(np.float64).mean(axis=0), rtol=1e-6, atol=1e-6)


def test_centre_base_gives_the_components_from_the_first_snapshot(snapshots: np.ndarray, tmp_path: Path) -> None:
    wide = snapshots.astype(np.float64)
    _, values, rows = np.linalg.svd(wide[1:] - wide[0], full_matrices=False)
    rows = rows[:K] * np.sign(rows[np.arange(K), np.abs(rows[:K]).argmax(axis=1)])[:, None]
    angles = np.pi * (2 * np.arange(1, K + 1) - 1) / (4 * (N - 1) + 2)
    walk = 1 / (4 * np.sin(angles) ** 2) / (N * (N - 1) / 2)
    for source in (snapshots, wide):
        for output in (None, tmp_path / "base.npy"):
            basis = dimred.fit(source, K, centre="base", output=output)
            assert_allclose(basis.components, rows, atol=1e-6)
            assert_allclose(basis.singular_values, values[:K], rtol=1e-9)
            assert_allclose(basis.explained_variance_ratio, values[:K] ** 2 / (values**2).sum(), rtol=1e-9)
            assert_allclose(basis.random_walk_ratio, walk, rtol=1e-9)
            assert_array_equal(basis.mean, wide[0])
            assert_allclose(basis.transform(wide[0]), np.zeros(K), atol=1e-12)
        rows_of(dimred.fit(source, K, centre="mean"), snapshots)
    assert len(dimred.fit(snapshots, None, centre="base")) == N - 1
    for refused in ({"kind": "span"}, {"components": 0.5}, {"centre": "first"}):
        with pytest.raises(ValueError, match="centre"):
            dimred.fit(snapshots, **{"components": K, "centre": "base"} | refused)


def test_a_large_constant_has_no_part_in_a_component(snapshots: np.ndarray) -> None:
    """A mask of finfo.min is the same in all snapshots."""
    for value in (-1e9, 1e13, np.finfo(np.float32).min):
        masked = snapshots.astype(np.float32)
        masked[:, 3:6] = value
        without = dimred.fit(np.delete(masked, np.s_[3:6], axis=1), K).components
        found = dimred.fit(masked, K).components
        assert_array_equal(found[:, 3:6], np.zeros((K, 3)))
        assert_allclose(np.delete(found, np.s_[3:6], axis=1), without, atol=1e-6)


# Sources in memory.


def test_arrays_of_any_order_type_and_framework_give_the_exact_components(snapshots: np.ndarray) -> None:
    read_only = snapshots.copy()
    read_only.flags.writeable = False
    wide = snapshots.astype(np.float64)
    for source in (
        snapshots,
        read_only,
        np.asfortranarray(snapshots),
        wide,
        wide[:, ::1],
        np.repeat(snapshots, 2, axis=1)[:, ::2],
        torch.from_numpy(snapshots),
        torch.from_numpy(wide).requires_grad_(),
        list(snapshots),
    ):
        rows_of(dimred.fit(source, K), snapshots)
    for source, rounded in (
        (snapshots.astype(np.float16),) * 2,
        (bf16 := torch.from_numpy(snapshots).bfloat16(), bf16.float().numpy()),
    ):
        rows_of(dimred.fit(source, K), np.asarray(rounded, np.float32))


def test_an_array_is_not_copied(snapshots: np.ndarray, tmp_path: Path) -> None:
    """The rows that the core is given are the array's own memory."""
    from dimred._arrays import matrix_rows

    for array in (snapshots, np.asfortranarray(snapshots)):
        for name, tensors in matrix_rows(array):
            assert np.shares_memory(tensors[0][3], array), name


def test_state_dicts_name_their_parameters(snapshots: np.ndarray) -> None:
    for make in (state_of, torch_state):
        basis = dimred.fit([make(row) for row in snapshots], K)
        rows_of(basis, snapshots)
        assert (basis.names, basis.shapes) == (list(SHAPES), list(SHAPES.values()))
    assert_allclose(basis.project(state_of(snapshots[3])), basis.project(snapshots[3]))


def exact(of: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and rows by NumPy, in the type of the array."""
    _, values, rows = np.linalg.svd(of - of.mean(axis=0), full_matrices=False)
    return values[:k], rows[:k] * np.sign(rows[np.arange(k), np.abs(rows[:k]).argmax(axis=1)])[:, None]


def test_float64_is_centred_before_it_is_rounded(tmp_path: Path, execute) -> None:
    """W = 1e5 + 1e-3 x signal, of which float32 keeps nothing: its spacing there is 0.008."""
    from sklearn.decomposition import PCA

    random = np.random.default_rng(0)
    of = 1e5 + 1e-3 * (random.standard_normal((20, 8)).cumsum(axis=0) @ random.standard_normal((8, 700)))
    values, rows = exact(of, K)
    for name, array in (("c", of), ("fortran", np.asfortranarray(of))):
        np.save(tmp_path / f"{name}.npy", array)
    for folder in ("torch", "safe"):
        (tmp_path / folder).mkdir()
    for i, row in enumerate(of):
        state = {
            "half": torch.zeros(2, dtype=torch.float16),
            "a": torch.from_numpy(row[:300].reshape(20, 15)).T,
            "b": torch.from_numpy(row[300:]),
        }
        torch.save(state, tmp_path / "torch" / f"{i}.pt")
        save_file({"a": row[:300], "b": row[300:]}, tmp_path / "safe" / f"{i}.safetensors")
    transposed = of.copy()
    transposed[:, :300] = of[:, :300].reshape(20, 20, 15).transpose(0, 2, 1).reshape(20, 300)
    _, rows_of_torch = exact(np.concatenate([np.zeros((20, 2)), transposed], axis=1), K)
    for source in (
        of,
        np.asfortranarray(of),
        torch.from_numpy(of),
        list(of),
        [{"w": row} for row in of],
        tmp_path / "c.npy",
        tmp_path / "fortran.npy",
        tmp_path / "safe",
        tmp_path / "torch",
    ):
        basis = dimred.fit(source, K)
        assert_allclose(basis.singular_values, values, rtol=1e-7)
        assert_allclose(
            basis.components, rows_of_torch if isinstance(source, Path) and source.name == "torch" else rows, atol=1e-6
        )
    assert_allclose(dimred.fit(of, K).mean, of.mean(axis=0), rtol=1e-15)
    execute("dimred", "pca", tmp_path / "c.npy", f"--components={K}", "--output", tmp_path / "command.npy")
    assert_array_equal(np.load(tmp_path / "command.npy"), dimred.fit(of, K).components)
    span = np.linalg.svd(of, full_matrices=False)[2][:1]
    assert_allclose(np.abs(dimred.fit(of, 1, "span").components), np.abs(span), atol=1e-7)
    ours, theirs = dimred.SnapshotPCA(K).fit(of), PCA(K, svd_solver="full").fit(of)
    assert_allclose(ours.transform(of), theirs.transform(of), atol=1e-6 * np.abs(theirs.transform(of)).max())
    assert_allclose(dimred.average(of, last=20).w, of.mean(axis=0), rtol=1e-15)
    with pytest.raises(ValueError, match=r"finite snapshots, received 1e\+39 in row 3.*the largest float32 is 3.4e38"):
        dimred.fit(np.where(np.arange(20)[:, None] == 3, 1e39, of), K)


def test_float64_of_float32_values_and_float32_agree(snapshots: np.ndarray) -> None:
    narrow, wide = dimred.fit(snapshots, K), dimred.fit(snapshots.astype(np.float64), K)
    assert_allclose(wide.components, narrow.components, atol=1e-7)
    assert_array_equal(wide.singular_values, narrow.singular_values)
    assert_array_equal(wide.mean, narrow.mean)


def test_parameters_are_left_out_by_pattern(snapshots: np.ndarray, tmp_path: Path) -> None:
    states = [state_of(row) for row in snapshots]
    expected = np.concatenate([snapshots[:, slice(*bounds(name))] for name in ("conv.weight", "fc.weight")], axis=1)
    for source in (states, write_snapshots(tmp_path, snapshots)):
        basis = dimred.fit(source, K, exclude=["*.bias"])
        rows_of(basis, expected)
        assert basis.names == ["conv.weight", "fc.weight"]
    assert_array_equal(
        dimred.fit(
            [state | {"fc.weight": state["fc.weight"].astype(np.float64)} for state in states], K, exclude="conv.*"
        ).components,
        dimred.fit([{"fc.weight": state["fc.weight"].astype(np.float64)} for state in states], K).components,
    )
    for source, exclude, text in (
        (
            states,
            "head.*",
            r"needs exclude patterns that match a parameter's name, received 'head\.\*' for 3 names such as conv",
        ),
        (
            states,
            ("conv.*", "fc.*"),
            r"needs a parameter that exclude does not match, received conv\.\*, fc\.\*, which matches all 3 names",
        ),
        (snapshots, "fc.*", "exclude needs snapshots with names of parameters"),
    ):
        with pytest.raises(ValueError, match=text):
            dimred.fit(source, K, exclude=exclude)


def test_fewer_snapshots_than_33_give_fewer_components(snapshots: np.ndarray) -> None:
    with pytest.warns(
        UserWarning, match=f"takes 8 components instead of 32, because 9 snapshots of {M} values have no more"
    ):
        assert len(dimred.fit(snapshots)) == 8
    with pytest.warns(
        UserWarning, match="takes 5 components instead of 32, because 9 snapshots of 5 values have no more"
    ):
        assert len(dimred.fit(snapshots[:, :5])) == 5
    with pytest.warns(UserWarning, match="takes 9 components instead of 32"):
        assert len(dimred.fit(snapshots, kind="span")) == 9
    with pytest.raises(ValueError, match="needs more snapshots than components, received 9 snapshots and k = 32"):
        dimred.fit(snapshots, 32)
    with pytest.raises(ValueError, match="received 1 snapshots and k = 32"):
        dimred.fit(snapshots[:1])


def test_tied_weights_are_one_parameter(tmp_path: Path) -> None:
    """They are known by their storage, in memory and in PyTorch's files."""
    torch.manual_seed(0)
    states = []
    for i in range(N):
        weight, bias = torch.randn(5, 3), torch.randn(3)
        states.append(
            {
                "embedding.weight": weight,
                "head.weight": weight,
                "head.bias": bias,
                "none": torch.zeros(0),
                "none2": torch.zeros(0),
            }
        )
        torch.save(states[-1], tmp_path / f"{i}.pt")
    expected = np.stack(
        [torch.cat([state["embedding.weight"].flatten(), state["head.bias"]]).numpy() for state in states]
    )
    arrays = [{name: value.numpy() for name, value in state.items()} for state in states]
    for source in (states, tmp_path, arrays):
        basis = dimred.fit(source, K)
        rows_of(basis, expected)
        assert basis.names == ["embedding.weight", "head.bias", "none", "none2"]
        assert_allclose(basis.project(states[0]), basis.project(expected[0]))
    with dimred.SnapshotRecorder(states[0], tmp_path / "recorded", every_steps=1) as recorder:
        recorder.step()
    assert dimred.average(tmp_path / "recorded").names == basis.names
    for i, state in enumerate(arrays):  # copies, as safetensors wants them: which are tied, only a model says
        (tmp_path / "copies").mkdir(exist_ok=True)
        save_file({name: value.copy() for name, value in state.items()}, tmp_path / "copies" / f"{i}.safetensors")
    rows_of(basis := dimred.fit(tmp_path / "copies", K, exclude="head.weight"), expected)
    model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(5, 3), "head": torch.nn.Linear(3, 5)})
    model["head"].weight = model["embedding"].weight
    average = dimred.average([{"head.weight": state["head.weight"]} for state in states])  # as safetensors may keep it
    average.load_into(model)
    assert model["head"].weight is model["embedding"].weight
    assert_array_equal(model["embedding"].weight.detach(), average.arrays()["head.weight"])
    copied = dimred.average(
        [
            {"embedding.weight": state["embedding.weight"], "head.weight": state["embedding.weight"].clone()}
            for state in states
        ],
        last=3,
    )
    copied.load_into(model)
    kept = model["embedding"].weight.detach().clone()
    copied.arrays()["head.weight"][0] += 1
    with pytest.raises(
        ValueError, match=r"the model ties embedding\.weight and head\.weight, but their snapshots differ"
    ):
        copied.load_into(model)
    assert_array_equal(model["embedding"].weight.detach(), kept)


def test_values_that_are_made_when_they_are_asked_for_are_all_taken(tmp_path: Path) -> None:
    """A group of HDF5 makes a data set for each look, whose identity the next one may have."""
    names = [f"layer{i}" for i in range(9)]
    rows = np.random.default_rng(3).normal(size=(5, 9, 4)).astype(np.float32)
    files = []
    for i, row in enumerate(rows):
        files.append(h5py.File(tmp_path / f"{i}.h5", "w"))
        for name, values in zip(names, row, strict=True):
            files[-1][name] = values
    basis = dimred.fit(files, 3)
    assert basis.names == names
    assert_array_equal(basis.components, dimred.fit(rows.reshape(5, -1), 3).components)
    with pytest.raises(ValueError, match='received a Group of arrays under "inner"'):
        files[0]["inner/w"] = rows[0]
        dimred.fit(files, 3)


# Sources in files.


def test_npy_of_other_types_are_read_as_the_arrays_are(snapshots: np.ndarray, tmp_path: Path) -> None:
    for dtype in ("<f2", ">f2", ">f4", ">f8"):
        np.save(tmp_path / "w.npy", snapshots.astype(dtype))
        basis, expected = dimred.fit(tmp_path / "w.npy", K), dimred.fit(snapshots.astype(dtype), K)
        assert_array_equal(basis.components, expected.components)
        assert basis.snapshots[3] == f"{tmp_path / 'w.npy'}[3]"
    np.save(tmp_path / "w.npy", snapshots.astype(np.complex64))
    with pytest.raises(OSError, match=r"w\.npy"):
        dimred.fit(tmp_path / "w.npy", K)


def test_folders_need_not_be_utf_8(snapshots: np.ndarray, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    write_snapshots(folder, snapshots)
    basis = dimred.fit(folder, K, output=folder / "p.npy")
    rows_of(basis, snapshots)
    basis.save(folder / "saved.npy")
    assert dimred.Basis.load(folder / "saved.npy") == basis
    assert dimred.average(folder, last=1).snapshots == [str(folder / f"snapshot_{N:08d}.h5")]
    with pytest.raises(OSError, match=r"damaged|snapshot"):
        (folder / "snapshot_00000003.h5").write_bytes(b"dimred-snapshot 1\n")
        dimred.fit(folder, K)


def write_snapshots(folder: Path, rows: np.ndarray) -> Path:
    """Writes the rows as snapshots by the recorder."""
    model = state_of(rows[0].copy())
    with dimred.SnapshotRecorder(model, folder, every_steps=1) as recorder:
        for row in rows:
            model.update(state_of(row))
            recorder.step()
    return folder


def test_a_folder_a_pattern_and_a_list_of_snapshots_are_what_the_command_reads(
    snapshots: np.ndarray, tmp_path: Path, execute
) -> None:
    folder = write_snapshots(tmp_path / "run" / "snapshots", snapshots)
    execute("dimred", "pca", tmp_path / "run", f"--components={K}", "--output", tmp_path / "command.npy")
    written = np.load(tmp_path / "command.npy")
    for source in (folder, str(tmp_path / "run"), str(folder / "*.h5"), sorted(folder.iterdir())):
        basis = dimred.fit(source, K)
        assert_array_equal(basis.components, written)
        assert basis.names == list(SHAPES)
    np.save(tmp_path / "matrix.npy", snapshots)
    assert_array_equal(dimred.fit(tmp_path / "matrix.npy", K).components, written)


@pytest.mark.parametrize("kind", ["span", "random", "shuffled", "layers"])
def test_other_kinds_are_the_command_s(kind: str, snapshots: np.ndarray, tmp_path: Path, execute) -> None:
    folder = write_snapshots(tmp_path / "s", snapshots)
    seed = {"seed": 3} if kind in ("random", "shuffled") else {}
    words = (
        ["--blocks=layers"] if kind == "layers" else [f"--kind={kind}", *(f"--seed={value}" for value in seed.values())]
    )
    execute("dimred", "pca", folder, f"--components={K}", *words, "--output", tmp_path / "command.npy")
    basis = dimred.fit(folder, K, blocks="layers") if kind == "layers" else dimred.fit(folder, K, kind, **seed)
    assert_array_equal(basis.components, np.load(tmp_path / "command.npy"))
    if kind == "random":
        assert basis.mean is None
    else:
        assert_allclose(basis.mean, snapshots.astype(np.float64).mean(axis=0), rtol=1e-6, atol=1e-6)


def test_a_matrix_that_a_fit_has_written_keeps_its_mean(snapshots: np.ndarray, tmp_path: Path) -> None:
    written = dimred.fit(snapshots, K, output=tmp_path / "p.npy")
    again = dimred.Basis.load(tmp_path / "p.npy")
    assert again == written
    assert_array_equal(again.transform(snapshots), written.transform(snapshots))


@pytest.mark.parametrize("n", [3, 7, 12])
def test_a_float64_layer_that_never_moves_has_no_rows(n: int) -> None:
    random = np.random.default_rng(n)
    still = random.normal(size=50)
    states = [{"moves": random.normal(size=(4, 5)), "still": still} for _ in range(n)]
    basis = dimred.fit(states, 2, blocks="layers")
    assert not basis.components[:, 20:].any() and basis.components[:, :20].any(axis=1).all()
    assert_array_equal(basis.mean[20:], still)


def test_a_layer_alone_may_have_fewer_rows_than_components(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(8, 3)).astype(np.float32)
    rows[:, 2] = -rows[:, 0] - rows[:, 1]  # two directions
    made = dimred.fit([{"fc.bias": row} for row in rows], 3, blocks="layers", output=tmp_path / "p.npy")
    assert made.components.any(axis=1).tolist() == [True, True, False]
    assert dimred.Basis.load(tmp_path / "p.npy") == made


def test_a_basis_larger_than_half_the_free_memory_is_mapped(
    snapshots: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = dimred.fit(snapshots, K)
    monkeypatch.setattr("dimred._fit._available_memory", lambda: 2.0 * near.components.nbytes)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mapped = dimred.fit(snapshots, K)
    assert isinstance(mapped.components, np.memmap)
    assert not isinstance(near.components, np.memmap)
    assert_array_equal(mapped.components, near.components)
    assert mapped.checksum() == near.checksum()
    assert not near.components.flags.writeable
    assert list(tmp_path.iterdir()) == []


def test_safetensors_whole_and_sharded(snapshots: np.ndarray, tmp_path: Path) -> None:
    for i, row in enumerate(snapshots):
        state = {name: np.ascontiguousarray(part) for name, part in state_of(row).items()}
        (tmp_path / "whole").mkdir(exist_ok=True)
        save_file(state, tmp_path / "whole" / f"step_{i}.safetensors")
        folder = tmp_path / "sharded" / f"checkpoint-{i + 5}"
        folder.mkdir(parents=True)
        state["norm.num_batches_tracked"] = np.array(i)  # no weight, and listed all the same
        shards = {
            "model-1.safetensors": ["fc.weight"],
            "model-2.safetensors": ["conv.bias", "conv.weight", "norm.num_batches_tracked"],
        }
        for file, names in shards.items():
            save_file({name: state[name] for name in names}, folder / file)
        index = {"weight_map": {name: file for file, names in shards.items() for name in names}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for source in (tmp_path / "whole", tmp_path / "sharded", str(tmp_path / "sharded" / "checkpoint-*")):
        basis = dimred.fit(source, K)
        order = np.concatenate([np.arange(M).reshape(-1)[slice(*bounds(name))] for name in basis.names])
        rows_of(basis, snapshots[:, order])
        if source != tmp_path / "whole":
            assert [Path(name).parent.name for name in basis.snapshots] == [
                f"checkpoint-{i + 5}" for i in range(N)
            ]  # by number
    (tmp_path / "sharded" / "checkpoint-6" / "model-2.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"checkpoint-6/model.safetensors.index.json' names the shard 'model-2.safetensors'"
    ):
        dimred.fit(tmp_path / "sharded", K)
    for text, said in (
        ("{", "line 1, column"),
        ('{"weight_map": 3}', "is damaged: the index needs a weight_map"),
        ('{"weight_map": {"fc.weight": "../whole/step_0.safetensors"}}', "the folder of the index has no such file"),
        (
            '{"weight_map": {"fc.weight": "model-1.safetensors", "fc.bias": "model-1.safetensors"}}',
            'lists the tensor "fc.bias" in the shard model-1.safetensors, but the shard lacks this tensor',
        ),
    ):
        (tmp_path / "sharded" / "checkpoint-6" / "model.safetensors.index.json").write_text(text)
        with pytest.raises((OSError, ValueError), match=said):
            dimred.fit(tmp_path / "sharded", K)


def bounds(name: str) -> tuple[int, int]:
    """Where a parameter lies in the flat vector."""
    names = list(SHAPES)
    sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
    begin = sum(sizes[: names.index(name)])
    return begin, begin + sizes[names.index(name)]


def test_torch_files_are_read_without_running_anything(snapshots: np.ndarray, tmp_path: Path) -> None:
    for i, row in enumerate(snapshots):
        state = torch_state(row)
        if i % 3 == 2:  # as torch stores channels_last and transposed weights
            state["conv.weight"] = state["conv.weight"].to(memory_format=torch.channels_last)
            state["fc.weight"] = state["fc.weight"].T.contiguous().T
        if i == 4:  # as DistributedDataParallel's state dict has them
            state = {f"module.{name}": value for name, value in state.items()}
        torch.save(state if i % 2 else {"state_dict": state, "epoch": i}, tmp_path / f"epoch{i}.pt")
    basis = dimred.fit(tmp_path, K)
    rows_of(basis, snapshots)
    assert basis.names == list(SHAPES)
    (tmp_path / "list.txt").write_text("".join(f"epoch{i}.pt\n" for i in range(N)))
    rows_of(dimred.fit(tmp_path / "list.txt", K), snapshots)
    torch.save({"a": Path("/")}, tmp_path / "epoch9.pt")
    with pytest.raises(OSError, match=r"'.*epoch9.pt': .*data.pkl: asks for pathlib.*nothing of it was run"):
        dimred.fit(tmp_path, K)
    torch.save({"epoch": 3}, tmp_path / "epoch9.pt")
    with pytest.raises(OSError, match=r"epoch9.pt': .*needs tensors by name, .*; received epoch"):
        dimred.fit(tmp_path, K)
    torch.save(torch_state(snapshots[0]), tmp_path / "epoch9.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"epoch9.pt': dimred cannot read the format of PyTorch before 1.6"):
        dimred.fit(tmp_path, K)


def test_mindspore_checkpoints_are_read_in_the_order_of_their_steps(
    snapshots: np.ndarray, tmp_path: Path, execute
) -> None:
    (tmp_path / "resnet-graph.meta").write_bytes(b"no weights")
    for i, row in enumerate(snapshots):
        parts = state_of(row)
        arrays = {
            "conv.weight": parts["conv.weight"],
            "bn.moving_mean": np.ones(8, np.float32),
            "conv.bias": parts["conv.bias"],
            "fc.weight": parts["fc.weight"],
            "moments.fc.weight": parts["fc.weight"] * 2,
            "global_step": np.int32(i),
        }
        arrays["learning_rate"] = np.float32(0.1)
        mindspore_checkpoint.write(tmp_path / f"resnet-{i + 5}_625.ckpt", arrays, 1 + i % 2, i % 2 == 0)
    basis = dimred.fit(tmp_path, K)
    rows_of(basis, snapshots)
    assert basis.names == list(SHAPES)
    assert [Path(name).stem for name in basis.snapshots] == [f"resnet-{i + 5}_625" for i in range(N)]
    execute("dimred", "pca", tmp_path, f"--components={K}", "--output", tmp_path / "command.npy")
    assert_array_equal(basis.components, np.load(tmp_path / "command.npy"))
    (tmp_path / "heads").mkdir()
    for i, row in enumerate(snapshots[:3]):
        arrays = {
            "fc.weight": row[:4],
            "head.fc.weight": row[4:9],
            "moment1.fc.weight": row[:4],
            "linear.weight": row[9:12],
        }
        mindspore_checkpoint.write(tmp_path / "heads" / f"{i}.ckpt", arrays)
    assert dimred.fit(tmp_path / "heads", 2).names == [
        "fc.weight",
        "head.fc.weight",
        "linear.weight",
    ]  # a weight's name may end in another's
    damaged = tmp_path / "resnet-7_625.ckpt"
    damaged.write_bytes(damaged.read_bytes().replace(b"conv.bias", b"conv.bium"))
    with pytest.raises(OSError, match=r"resnet-7_625.ckpt' is damaged: the checksum"):
        dimred.fit(tmp_path, K)


# Bad input.


def test_a_url_is_no_folder_of_that_name(
    snapshots: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url, network = "s3://bucket/run", torch.nn.Linear(2, 2)
    for call in (
        lambda: dimred.fit(url, K),
        lambda: dimred.fit([url], K),
        lambda: dimred.fit(snapshots, K, output=f"{url}/pca_mat.npy"),
        lambda: dimred.fit(snapshots, K).save(f"{url}/pca_mat.npy"),
        lambda: dimred.Basis.load(f"{url}/pca_mat.npy"),
        lambda: dimred.average(url),
        lambda: dimred.trajectory(url),
        lambda: dimred.merge(url, "merged"),
        lambda: dimred.merge(".", url),
        lambda: dimred.SnapshotRecorder(network, url, every_steps=1),
    ):
        with pytest.raises(ValueError, match=r"on this machine, received 's3://bucket/run.*dimred store"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.full(2, 1 + 2j, np.complex64), "C64"),
        (np.full(2, 1 + 2j), "C128"),
        (torch.full((2,), 1 + 2j), "C64"),
        (torch.full((2,), 1 + 2j).conj(), "C64"),
        (torch.full((2,), 1 + 2j, dtype=torch.complex128), "C128"),
    ],
)
@pytest.mark.parametrize("call", [dimred.fit, dimred.average, dimred.trajectory])
def test_complex_weights_of_state_dicts_are_refused_by_name_as_those_of_files(
    value: Any, dtype: str, call: Any, tmp_path: Path
) -> None:
    """They were left out without a word. Complex training state is left out, as of files."""
    states = [{"w": np.array([i, i * i, 1 + i**3], np.float32), "phases": value} for i in range(5)]
    with pytest.raises(
        ValueError,
        match=rf"'list\[0\]': \"phases\" holds complex weights \({dtype}\); save the real and the imaginary part",
    ):
        call(states)
    with pytest.raises(ValueError, match=rf"'list\[0\]' holds complex values \({dtype}\); give the real"):
        call([value, value])
    if dtype == "C64":
        for i, state in enumerate(states):
            stored = {name: torch.as_tensor(held).resolve_conj() for name, held in state.items()}
            torch.save(stored, tmp_path / f"step{i}.pt")
        with pytest.raises(ValueError, match=r"\"phases\" holds complex weights \(C64\)"):
            call(tmp_path)
    moments = [{"w": state["w"], "w.exp_avg": value, "bn.running_mean": value} for state in states]
    mean = dimred.average(moments)
    assert mean.names == ["w"]
    assert_array_equal(mean.w, np.array([2, 6, 21], np.float32))


def test_marks_of_negative_and_conjugate_values_are_resolved() -> None:
    """NumPy cannot have such a tensor: torch's numpy() refuses."""
    z = torch.tensor([1 + 2j, 3 - 1j])
    negative, plain = z.conj().imag, z.imag  # one place in memory, other values
    assert negative.is_neg() and negative.data_ptr() == plain.data_ptr()
    assert_array_equal(dimred.average([negative, 3 * plain]).w, [2, -1])
    assert_array_equal(dimred.average([negative.double(), negative.double()]).w, [-2, 1])
    for order in (("a", "b"), ("b", "a")):
        values = {"a": negative, "b": plain}
        found = dimred.average([{name: values[name] for name in order}] * 2).arrays()
        assert_array_equal(found["a"], [-2, 1])
        assert_array_equal(found["b"], [2, -1])
    rows = torch.complex(torch.zeros(4, 3), torch.arange(12.0).reshape(4, 3) ** 2).conj().imag
    assert rows.is_neg()
    basis = dimred.fit(rows, 2)
    assert basis == dimred.fit(rows.resolve_neg().numpy(), 2)
    assert_array_equal(basis.mean, -np.square(np.arange(12.0).reshape(4, 3)).mean(axis=0))
    assert_array_equal(basis.project(rows), basis.project(rows.resolve_neg().numpy()))
    real = torch.view_as_real(z.conj().resolve_conj()).reshape(-1)
    assert_array_equal(dimred.average([real, real]).w, [1, -2, 3, 1])
    for method in (basis.project, basis.transform, basis.back_project, basis.inverse_transform):
        with pytest.raises(ValueError, match="needs real values, received complex64"):
            method(np.ones(2 if "back" in method.__name__ or "inverse" in method.__name__ else 3, np.complex64))
    whole = torch.ones(2)
    assert dimred.average([{"codes": whole.view(torch.int32), "w": whole}] * 2).names == ["w"]


def test_refusals_are_one_clear_sentence(snapshots: np.ndarray, tmp_path: Path) -> None:
    states = [state_of(row.copy()) for row in snapshots]
    other = [*states[:5], states[5] | {"fc.weight": np.zeros((10, 31), np.float32)}, *states[6:]]
    broken = [state_of(row.copy()) for row in snapshots]
    broken[5]["conv.bias"][2] = np.nan
    (tmp_path / "empty").mkdir()
    cases = {
        r"'list\[5\]' has another layout than 'list\[0\]': parameter 2: "
        r"expected fc.weight \[10,32\], received fc.weight \[10,31\]": other,
        r"received nan in row 5 \(list\[5\]\), column 218 \(of parameter conv.bias\)": broken,
        r"needs more snapshots than components, received 4 snapshots and k = 4": snapshots[:4],
        r"span k = 4 directions, received 9 snapshots that span only 0": np.ones((N, M), np.float32),
        r"needs an array of 2 dimensions": snapshots[0],
        r"received int64": np.ones((N, M), np.int64),
        r"empty list": [],
        r"needs arrays without masked values": np.ma.masked_greater(snapshots, 0),
        r"needs dense tensors of .*, received float32 \(meta\)": [{"w": torch.zeros(2, device="meta")}],
        r"received float32 \(sparse_coo\)": [{"w": torch.eye(2).to_sparse()}],
        r"\"fc.weight\" \(int8\) holds quantised weights": [{"fc.weight": torch.ones(2, dtype=torch.int8)}],
        r"'list\[0\]': \"w\" \(qint8\) holds quantised weights; take the state dicts from before": [
            {"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}
        ],
        r"'list\[0\]' \(quint8\) holds quantised weights": [
            torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
        ],
        r"'array' \(qint8\) holds quantised weights": torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8),
        r"received float8_e4m3fn \(strided\)": [{"w": torch.ones(2).to(torch.float8_e4m3fn)}],
        r"needs snapshots .* has none": tmp_path / "empty",
        r"'list\[0\]' needs an array under each name, received a dict of arrays under \"state_dict\"; give that": [
            {"state_dict": state, "epoch": 3, "loss": np.float32(i)} for i, state in enumerate(states)
        ],
        r"received a list of arrays under \"layers\"": [{"w": snapshots[0], "layers": [snapshots[1]]}],
        r"'list\[0\]' .* received a list of arrays under \"mixed\"": [{"w": snapshots[0], "mixed": [1, snapshots[1]]}],
        r"received a tuple of arrays under \"deep\"": [{"w": snapshots[0], "deep": ("a", {"b": [2, snapshots[1]]})}],
        r"received complex64$": snapshots.astype(np.complex64),
        r"received complex32 as 'array'": torch.zeros(2, 2, dtype=torch.complex32),
        r"received float128 as 'list\[0\]': \"w\"": [{"w": np.ones(2, np.longdouble)}],
    }
    for text, source in cases.items():
        with pytest.raises(ValueError, match=text) as error:
            dimred.fit(source, K)
        assert "\n" not in str(error.value)
    for k, text in {
        0: "needs at least one component, received k = 0",
        -3: "received k = -3",
        10**18: "received 9 snapshots and k = 1000000000000000000; these snapshots have at most 8",
    }.items():
        with pytest.raises(ValueError, match=text):
            dimred.fit(snapshots, k)
    for source in (tmp_path / "absent", str(tmp_path / "*.h5"), [tmp_path / "absent.h5"]):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            dimred.fit(source, K)
    for arguments, text in (
        (([1, 2], K), r"needs a list of paths, of state dicts or of vectors, received a int \(list\[0\]\)"),
        (([states[0], snapshots[1]], K), r"received a state dict \(list\[0\]\) and a vector \(list\[1\]\)"),
        (([states[0], "file.h5"], K), r"received a state dict \(list\[0\]\) and a path \(list\[1\]\)"),
        ((None, K), "needs a path, an array or a list, received NoneType"),
        (
            ([{("dense", "kernel"): row} for row in snapshots], K),
            r"'list\[0\]' needs names as text, received the key \('dense', 'kernel'\); join the parts of a path",
        ),
    ):
        with pytest.raises(TypeError, match=text):
            dimred.fit(*arguments)
    for options, text in (
        ({"kind": "ica"}, "needs kind as one of pca, span, random, shuffled, received 'ica'"),
        ({"kind": 3}, "needs kind as one of .* received 3"),
        ({"blocks": "layer"}, "needs blocks as one of whole, layers, received 'layer'"),
        ({"seed": -1}, "needs seed as a whole number >= 0, received -1"),
        ({"seed": 3}, r"\[dimred\.fit\] seed has no effect: it needs kind 'random' or 'shuffled', received 'pca'"),
        ({"seed": 3, "kind": "span"}, "seed has no effect: .* received 'span'"),
        ({"threads": 1.5}, r"needs threads as a whole number >= 0, received 1\.5"),
        ({"components": True}, "needs components as a whole number, .* received True"),
        ({"components": "3"}, "needs components as a whole number, .* received '3'"),
    ):
        with pytest.raises(ValueError, match=text):
            dimred.fit(states, **({"components": K} | options))
    for options, text in (
        ({"exclude": 3}, "needs exclude as a pattern or a list of patterns, received 3"),
        ({"exclude": ["*.bias", 3]}, "needs exclude as a pattern or a list of patterns"),
        ({"progress": 3}, "needs progress as True, False or a function, received 3"),
    ):
        with pytest.raises(TypeError, match=text):
            dimred.fit(states, K, **options)
    basis, model = dimred.fit(states, K), torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match="needs a vector, rows or a state dict, received a Linear; give its state_dict"):
        basis.project(model)
    with pytest.raises(TypeError, match=r"\[Basis.project\] needs names as text, received the key 0"):
        basis.project({0: snapshots[0]})
    extra = [state | {"fc._extra_state": {"scale": np.ones(2)}, "metadata": {"epoch": 3}} for state in states]
    assert dimred.fit(extra, K).names == basis.names  # what a module keeps beside, and what holds no arrays


def test_a_damaged_file_is_an_os_error(snapshots: np.ndarray, tmp_path: Path) -> None:
    folder = write_snapshots(tmp_path, snapshots)
    file = folder / "snapshot_00000004.h5"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(OSError, match=r"snapshot_00000004\.h5"):
        dimred.fit(folder, K)


FULL_DISK = """
import resource, signal, sys, numpy, dimred
place, call = sys.argv[1:]
rows = numpy.random.default_rng(0).normal(size=(9, 500))
basis = dimred.fit(rows, 4)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
eval(call)
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("dimred.fit(rows, 4, output=place)", "OSError: .*"),
        ("basis.save(place)", r"OSError: \[Errno 27\] \[Basis.save\] cannot write the file, File too large: '{}'"),
    ],
)
def test_a_full_disk_is_an_os_error_and_leaves_nothing_behind(call: str, said: str, tmp_path: Path) -> None:
    done = run_python(FULL_DISK, str(tmp_path / "p.npy"), call)
    assert re.fullmatch(said.format(tmp_path / "p.npy"), done.stderr.splitlines()[-1]), done.stderr
    assert list(tmp_path.iterdir()) == []


# The fit itself.


def run_python(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs lines of Python that know the package."""
    return completed([sys.executable, "-c", text, *arguments], env=os.environ | {"PYTHONPATH": str(PACKAGE)})


def test_the_package_needs_neither_torch_nor_scikit_learn_to_be_imported() -> None:
    done = run_python(
        "import sys, numpy; before = set(sys.modules); import dimred; print({'torch', 'sklearn'} & set(sys.modules))"
    )
    assert done.stdout == "set()\n", done.stderr


def test_help_shows_what_the_installed_libraries_allow() -> None:
    done = run_python(
        "import sys; sys.modules.update(dict.fromkeys(['sklearn', 'torch', 'pandas']));"
        "import pydoc, dimred; print(dir(dimred)); print(pydoc.render_doc(dimred))"
    )
    assert done.returncode == 0, done.stderr
    assert "'trajectory'" in done.stdout and "'SnapshotPCA'" not in done.stdout.splitlines()[0]


def test_nothing_of_torch_is_linked() -> None:
    for library in (dimred._core.__file__, *(PACKAGE.parent / "lib").glob("libdimred_pca.so")):
        needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
        assert "libdimred_pca" in needed or "_pca" in str(library)
        assert not re.search(r"torch|libc10|openblas", re.sub(r"0x[0-9a-f]+", "", needed))


def test_only_the_module_s_entry_is_exported() -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", dimred._core.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[2] for line in symbols.splitlines()] == ["PyInit__core"]


@pytest.fixture(scope="module")
def large() -> np.ndarray:
    """A fit of it by one thread takes a second."""
    return np.random.default_rng(1).normal(size=(500, 40000)).astype(np.float32)


def test_ctrl_c_stops_a_fit_and_leaves_nothing_behind(large: np.ndarray, tmp_path: Path) -> None:
    interrupt = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        dimred.fit(large, 400, threads=1, output=tmp_path / "p.npy")
    assert list(tmp_path.iterdir()) == []


def test_other_threads_run_during_a_fit(large: np.ndarray) -> None:
    done, ticks = threading.Event(), []
    counter = threading.Thread(target=lambda: [ticks.append(time.sleep(0.001)) for _ in iter(done.is_set, True)])
    counter.start()
    fractions: list[float] = []
    dimred.fit(large, 100, threads=1, progress=fractions.append)
    done.set()
    counter.join()
    assert len(ticks) > 10
    assert fractions
    assert fractions == sorted(fractions)
    assert all(0 <= fraction <= 1 for fraction in fractions)


def test_an_error_in_the_progress_function_ends_the_fit(large: np.ndarray) -> None:
    def fail(fraction: float) -> None:
        raise RuntimeError(f"at {fraction}")

    with pytest.raises(RuntimeError, match="at 0"):
        dimred.fit(large, 100, threads=1, progress=fail)


# The basis.


def test_projections_are_those_of_the_rows(snapshots: np.ndarray) -> None:
    basis = dimred.fit(snapshots, K)
    assert_allclose(
        basis.project(snapshots), snapshots.astype(np.float64) @ basis.components.astype(np.float64).T, rtol=1e-12
    )
    assert_allclose(basis.project(basis.back_project([1.0, -2, 3, 4])), [1, -2, 3, 4], atol=1e-6)
    assert basis.back_project(np.zeros((2, K))).shape == (2, M)
    with pytest.raises(ValueError, match=f"needs {M} values in each row"):
        basis.project(np.zeros(M - 1))
    assert not basis.components.flags.writeable
    walk = 1 / (1 - np.cos(np.pi * np.arange(1, N) / N))
    assert_allclose(basis.random_walk_ratio, (walk / walk.sum())[:K])


def test_a_saved_basis_is_loaded_as_it_was(snapshots: np.ndarray, tmp_path: Path, execute) -> None:
    basis = dimred.fit([state_of(row) for row in snapshots], K)
    gc.collect()
    basis.save(tmp_path / "pca_mat.npy")
    assert f"{K} x {M}" in execute("dimred", "inspect", tmp_path / "pca_mat.npy")
    again = dimred.Basis.load(tmp_path / "pca_mat.npy")
    assert_array_equal(again.components, basis.components)
    assert_array_equal(again.mean, basis.mean)
    assert (again.names, again.kind) == (list(SHAPES), "pca")
    again.save(tmp_path / "pca_mat.npy")  # over the file that it is mapped from
    dimred.fit(snapshots, K, "span", output=tmp_path / "pca_mat.npy")
    other = dimred.Basis.load(tmp_path / "pca_mat.npy")
    assert other.kind == "span"
    np.save(tmp_path / "rows.npy", snapshots)
    execute("dimred", "pca", tmp_path / "rows.npy", "--output", tmp_path / "pca_mat.npy", "--overwrite")
    assert dimred.Basis.load(tmp_path / "pca_mat.npy").mean is None  # the old mean is another fit's
    assert_array_equal(again.components, basis.components)
    data = bytearray((tmp_path / "pca_mat.npy").read_bytes())
    data[-7] ^= 64
    (tmp_path / "pca_mat.npy").write_bytes(data)
    with pytest.raises(OSError, match="pca_mat"):
        dimred.Basis.load(tmp_path / "pca_mat.npy")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json exists already and is not an earlier sidecar of a matrix"):
        basis.save(tmp_path / "other.npy")
    assert not (tmp_path / "other.npy").exists()


def test_a_saved_basis_leaves_files_with_the_names_of_temporary_ones(snapshots: np.ndarray, tmp_path: Path) -> None:
    basis = dimred.fit(snapshots, K)
    mine = [tmp_path / f"p{name}.tmp" for name in (".npy.old", ".npy.old2", ".json.old", ".mean.npz.old")]
    for file in mine:
        file.write_text("mine")
    for _ in range(2):
        (tmp_path / "p.npy.dimred_old.tmp").write_text("left by a killed save")
        basis.save(tmp_path / "p.npy")
    assert all(file.read_text() == "mine" for file in mine)
    assert len(list(tmp_path.iterdir())) == len(mine) + 3
    before = (tmp_path / "p.npy").read_bytes()
    for name in ("p.npy.tmp", "p.json.tmp", "p.mean.npz.tmp"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(ValueError, match=rf"{name}'?, but another file has this temporary name"):
            dimred.fit(snapshots, 1).save(tmp_path / "p.npy")
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    assert (tmp_path / "p.npy").read_bytes() == before


@pytest.mark.parametrize("failing", range(3))
def test_a_save_that_fails_puts_the_earlier_files_back(
    snapshots: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    path = tmp_path / "p.npy"
    dimred.fit(snapshots, K).save(path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) == 3
    commit, calls = dimred._basis._Written.commit, iter(range(3))

    def fail(part: object) -> None:
        if next(calls) == failing:
            raise OSError("the disk is gone")
        commit(part)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="the disk is gone"):
        patch.setattr(dimred._basis._Written, "commit", fail)
        dimred.fit(snapshots, 1).save(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "p.mean.npz").rename(tmp_path / "mine")
    (tmp_path / "p.mean.npz").symlink_to("mine")
    with pytest.raises(ValueError, match=r"p\.mean\.npz' is a link"):
        dimred.Basis(dimred.fit(snapshots, 1).components, None, None).save(path)
    assert (tmp_path / "p.mean.npz").is_symlink() and path.read_bytes() == before["p.npy"]
    (tmp_path / "p.mean.npz").unlink()
    for name in ("p.npy", "p.json"):  # a kill between two renames
        (tmp_path / f"{name}.dimred_old.tmp").write_bytes(before[name])
    (tmp_path / "p.json").unlink()
    with pytest.raises(ValueError, match=r"earlier files as \S+p\.npy\.dimred_old\.tmp', \S+p\.json\.dimred_old\.tmp'"):
        dimred.fit(snapshots, 1).save(path)
    with pytest.raises(OSError, match="File name too long"):
        dimred.fit(snapshots, 1).save(tmp_path / ("p" * 240 + ".npy"))


def test_a_basis_behaves_as_a_value(snapshots: np.ndarray, tmp_path: Path) -> None:
    states = [state_of(row) for row in snapshots]
    basis = dimred.fit(states, K)
    assert len(basis) == K
    centred = snapshots.astype(np.float64) - snapshots.astype(np.float64).mean(axis=0)
    assert_allclose(basis.transform(snapshots), centred @ basis.components.astype(np.float64).T, rtol=1e-9, atol=1e-9)
    assert_allclose(basis.transform(states[2]), basis.transform(snapshots[2]), rtol=1e-12)
    assert_allclose(basis.transform(basis.inverse_transform([1.0, -2, 3, 4])), [1, -2, 3, 4], atol=1e-6)
    assert_allclose(
        basis.project(torch.from_numpy(snapshots).bfloat16()), basis.project(snapshots), rtol=0.05, atol=0.5
    )
    basis.save(tmp_path / "p.npy")
    for same in (
        pickle.loads(pickle.dumps(basis)),
        copy.deepcopy(basis),
        dimred.Basis.load(tmp_path / "p.npy"),
        dimred.fit(states, K),
    ):
        assert same == basis and hash(same) == hash(basis)
        assert not same.components.flags.writeable
    for other in (dimred.fit(states, K - 1), dimred.fit(snapshots, K), dimred.fit(states, K, "span"), None):
        assert other != basis
    without = dimred.Basis(basis.components, None, None)
    for call, size in ((without.transform, M), (without.inverse_transform, K)):
        with pytest.raises(ValueError, match="needs the mean of the snapshots"):
            call(np.zeros(size))


def test_matrices_of_other_programs_are_loaded_and_checked(tmp_path: Path) -> None:
    rows = np.linalg.qr(np.random.default_rng(3).normal(size=(50, 3)))[0].T
    np.save(tmp_path / "theirs.npy", np.asfortranarray(rows))  # scikit-learn's components_: float64, Fortran order
    loaded = dimred.Basis.load(tmp_path / "theirs.npy")
    assert_allclose(loaded.components, rows, atol=1e-7)
    assert not loaded.components.flags.writeable
    np.save(tmp_path / "skewed.npy", rows + rows[0])
    with pytest.raises(ValueError, match="orthonormal"):
        dimred.Basis.load(tmp_path / "skewed.npy")
    with pytest.raises(FileNotFoundError):
        dimred.Basis.load(tmp_path / "absent.npy")


FAULTS = """
import resource, numpy as np, dimred
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.full(5_000_000, 1.0)  # 40 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
returned = faults()
assert dimred.keep_freed_memory()
faults()
print(returned, faults())
"""


def test_freed_memory_is_kept() -> None:
    done = run_python(FAULTS)
    assert done.returncode == 0, done.stderr
    returned, kept = map(int, done.stdout.split())
    assert kept < 0.1 * returned


SHARES = """
import ctypes, os, sys, dimred
if sys.argv[1] == "late":
    ctypes.CDLL("libgomp.so.1")
print(dimred.share_cores(), os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("given", "when", "says"),
    [
        ({}, "early", "True 10000"),
        ({}, "late", "False None"),  # libgomp has read its environment
        ({"GOMP_SPINCOUNT": "7"}, "early", "False 7"),
        ({"OMP_WAIT_POLICY": "active"}, "early", "False None"),
    ],
)
def test_threads_share_cores_unless_the_user_has_chosen(given: dict[str, str], when: str, says: str) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", SHARES, when]
    environment = plain | given | {"PYTHONPATH": str(PACKAGE)}
    assert subprocess.check_output(command, env=environment, text=True).strip() == says


# scikit-learn.

# Checks that do not fit, and why; empty is the goal.
NOT_OURS: dict[str, str] = {}


def test_scikit_learn_s_estimator_checks() -> None:
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(dimred.SnapshotPCA(), on_fail=None, on_skip=None, expected_failed_checks=NOT_OURS)
    assert {
        str(result["check_name"]): str(result["exception"]) for result in results if result["status"] == "failed"
    } == {}
    assert len([result for result in results if result["status"] == "passed"]) >= 40


@pytest.mark.parametrize("kind", ["pca", "shuffled"])
def test_a_part_of_the_variance_takes_the_fewest_components_above_it(kind: str, snapshots: np.ndarray) -> None:
    states = [state_of(row) for row in snapshots]
    reached = dimred.fit(states, None).explained_variance_ratio.cumsum()
    for part in (1e-9, 0.5, float(reached[2]), np.nextafter(reached[2], 0), np.float32(0.9), 1 - 1e-16):
        k = min(int(np.searchsorted(reached, part, side="right")) + 1, N - 1)
        basis = dimred.fit(states, part, kind)
        exact = dimred.fit(states, k, kind)
        assert_array_equal(basis.components, exact.components)
        assert_array_equal(basis.explained_variance_ratio, exact.explained_variance_ratio)
        assert_array_equal(basis.mean, exact.mean)
    for wrong in (0.0, 1.0, 3.7, -0.5, np.nan, "mle"):
        with pytest.raises(ValueError, match="needs components as a whole number, as a part of the variance"):
            dimred.fit(snapshots, wrong)
    for options in ({"kind": "span"}, {"blocks": "layers"}):
        with pytest.raises(
            ValueError,
            match="components < 1 \\(share of the variance\\) needs kind = pca or shuffled, and blocks = whole",
        ):
            dimred.fit(states, 0.5, **options)
    with pytest.raises(ValueError, match="span k = 1 directions, received 9 snapshots that span only 0"):
        dimred.fit(np.ones((N, M), np.float32), 0.5)


def test_the_estimator_agrees_with_scikit_learn_s(snapshots: np.ndarray) -> None:
    from sklearn.decomposition import PCA

    ours, theirs = dimred.SnapshotPCA(K).fit(snapshots), PCA(K, svd_solver="full").fit(snapshots.astype(np.float64))
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-9)
    assert_allclose(np.abs(np.sum(ours.components_ * theirs.components_, axis=1)), 1, atol=1e-6)
    assert_allclose(np.abs(ours.transform(snapshots)), np.abs(theirs.transform(snapshots)), atol=1e-3)
    assert_allclose(
        ours.inverse_transform(ours.transform(snapshots)),
        theirs.inverse_transform(theirs.transform(snapshots)),
        atol=1e-4,
    )


def test_the_noise_model_is_scikit_learn_s(snapshots: np.ndarray) -> None:
    from sklearn.decomposition import PCA

    few = snapshots[:, :40].astype(np.float64)
    ours, theirs = dimred.SnapshotPCA(3).fit(few), PCA(3, svd_solver="full").fit(few)
    assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-9)
    assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-6)
    assert_allclose(ours.get_covariance() @ ours.get_precision(), np.eye(40), atol=1e-9)
    assert_allclose(ours.score_samples(few), theirs.score_samples(few), rtol=1e-6)
    assert_allclose(ours.score(few), theirs.score(few), rtol=1e-6)
    all_of_few = load_iris().data  # every direction is a component: no noise is left, nor needed
    whole, theirs = dimred.SnapshotPCA().fit(all_of_few), PCA(svd_solver="full").fit(all_of_few)
    assert whole.noise_variance_ == 0
    assert_allclose(whole.score_samples(all_of_few), theirs.score_samples(all_of_few), rtol=1e-5)
    exact_rank = dimred.SnapshotPCA(N - 1).fit(few)
    for call in (lambda: exact_rank.score(few), lambda: dimred.SnapshotPCA(N - 1).fit(few).score_samples(few)):
        with pytest.raises(
            ValueError, match="needs variance outside the components, received n_components_=8 with noise_variance_=0"
        ):
            call()


def test_partial_fits_are_the_fit_of_all_rows(snapshots: np.ndarray) -> None:
    whole = dimred.SnapshotPCA(K).fit(snapshots)
    parts = dimred.SnapshotPCA(K)
    assert len(parts.partial_fit(snapshots[:3]).components_) == 2
    assert parts.partial_fit(snapshots[3:4]).partial_fit(snapshots[4:]).n_samples_ == N
    assert_array_equal(parts.components_, whole.components_)
    assert_array_equal(parts.mean_, whole.mean_)
    parts.fit(snapshots[:5])
    assert parts.partial_fit(snapshots[5:]).n_samples_ == N - 5  # fit() begins another one
    with pytest.raises(ValueError, match="features"):
        parts.partial_fit(snapshots[:, :5])


def parametrized(name: str) -> list[Any]:
    """The values of the case's own pytest.mark.parametrize, but for those of solvers."""
    [mark] = [mark for mark in getattr(pca_cases, name).pytestmark if "solver" not in mark.args[0]]
    return list(mark.args[1])


# The tests of scikit-learn's own for its PCA that apply; a case with several solvers runs once, as there is one here.
PCA_CASES: dict[str, dict[Any, list[Any]]] = {
    "test_pca": {"n_components": [1, 2, 3]},
    "test_pca_explained_variance_empirical": {
        "X": [np.random.RandomState(0).randn(100, 80), np.random.RandomState(1).randn(60, 90)]
    },
    "test_pca_singular_values_consistency": {},
    "test_pca_singular_values": {},
    "test_pca_check_projection": {},
    "test_pca_check_projection_list": {},
    "test_pca_deterministic_output": {},
    "test_variance_correctness": {"copy": [True]},
    "test_pca_inverse": {"whiten": [False]},
    "test_pca_n_components_mostly_explained_variance_ratio": {},
    "test_infer_dim_by_explained_variance": {
        ("X", "n_components", "n_components_validated"): parametrized("test_infer_dim_by_explained_variance")
    },
    "test_n_components_none": {"data": [load_iris().data], "n_components_": [4]},
}
K_OF_THEIRS = "needs k = 0, or k = n_samples"
NO_MLE = "no n_components='mle'"
OTHERS = {
    "test_pca_score": "no whitening",
    "test_pca_score3": K_OF_THEIRS,
    "test_pca_zero_noise_variance_edge_cases": K_OF_THEIRS,
    "test_pca_score_consistency_solvers": "one solver",
    "test_pca_sanity_noise_variance": "1,797 rows for what a test of ours compares",
    "test_n_components_mle": NO_MLE,
    "test_n_components_mle_error": NO_MLE,
    "test_pca_dim": NO_MLE,
    "test_mle_redundant_data": NO_MLE,
    "test_mle_simple_case": NO_MLE,
    "test_fit_mle_too_few_samples": NO_MLE,
    "test_pca_mle_array_api_compliance": NO_MLE,
    "test_pca_validation": "compares the words of its messages",
    "test_feature_names_out": "compares the class's name",
    "test_whitening": "no whitening",
    "test_pca_dtype_preservation": "components are float32",
    "test_no_empty_slice_warning": "k <= n - 1, as one direction goes with the mean",
    **dict.fromkeys(
        [
            "test_pca_sparse",
            "test_pca_sparse_fit_transform",
            "test_sparse_pca_solver_error",
            "test_sparse_pca_auto_arpack_singular_values_consistency",
        ],
        "weights are dense",
    ),
    **dict.fromkeys(
        ["test_pca_solver_equivalence", "test_pca_svd_solver_auto", "test_pca_randomized_svd_n_oversamples"],
        "one solver",
    ),
    **dict.fromkeys(
        ["test_pca_array_api_compliance", "test_array_api_error_and_warnings_on_unsupported_params"],
        "arrays of other kinds: dimred.fit",
    ),
    **dict.fromkeys(
        """
            test_infer_dim_1 test_infer_dim_2 test_infer_dim_3 test_assess_dimension_bad_rank
            test_assess_dimension_rank_one test_small_eigenvalues_mle
        """.split(),
        "of a private function of theirs",
    ),
}


@pytest.mark.parametrize("name", PCA_CASES)
def test_cases_of_scikit_learn_s_pca(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca_cases, "PCA", lambda n_components=None, **_: dimred.SnapshotPCA(n_components))
    case = getattr(pca_cases, name)
    solver = {key: ["full"] for key in ("svd_solver", "solver") if key in inspect.signature(case).parameters}
    options = PCA_CASES[name] | solver
    for values in itertools.product(*options.values()):
        given: dict[str, Any] = {}
        for names, value in zip(options, values, strict=True):
            given |= dict(zip(names, value, strict=True)) if isinstance(names, tuple) else {names: value}
        case(**given)


def test_every_case_of_theirs_runs_or_has_a_reason() -> None:
    theirs = {name for name in vars(pca_cases) if name.startswith("test_")}
    assert theirs == {*PCA_CASES, *OTHERS} and len(theirs) == len(PCA_CASES) + len(OTHERS)


# The recorder.


def network() -> torch.nn.Module:
    """A network with buffers of both kinds."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2)
    )


def test_a_snapshot_is_the_weights_at_the_call(tmp_path: Path) -> None:
    model = network()
    expected = {}
    with dimred.SnapshotRecorder(model, tmp_path, every_steps=2) as recorder:
        for step in range(1, 7):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(step)
                model[1].running_mean += step
                model[1].num_batches_tracked += 1
            recorder.step()
            expected[step] = torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()
            with torch.no_grad():  # the next step begins at once
                model[3].weight.zero_().add_(step)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"snapshot_{step:08d}.h5" for step in (2, 4, 6)]
    for step in (2, 4, 6):
        with h5py.File(tmp_path / f"snapshot_{step:08d}.h5") as file:
            assert_array_equal(file["weights"], expected[step])
            assert_array_equal(file["buffers"][:4], np.full(4, sum(range(1, step + 1)), np.float32))
            assert_array_equal(file["counters"], [step])
            assert file.attrs["step"] == step
    basis = dimred.fit(tmp_path, 2)
    assert basis.names == [name for name, _ in model.named_parameters()]


def test_snapshots_of_an_epoch_are_even_and_end_with_it(tmp_path: Path) -> None:
    with dimred.SnapshotRecorder(network(), tmp_path, epochs_of=5, per_epoch=2, from_epoch=2) as recorder:
        for _ in range(15):
            recorder.step()
    steps = {}
    for path in sorted(tmp_path.iterdir()):
        with h5py.File(path) as file:
            steps[int(file.attrs["step"])] = int(file.attrs["epoch"])
    assert steps == {8: 2, 10: 2, 13: 3, 15: 3}


def test_a_recording_goes_on_and_is_not_mixed_with_another(tmp_path: Path) -> None:
    model = network()
    with dimred.SnapshotRecorder(model, tmp_path, every_steps=1) as recorder:
        recorder.step()
    with pytest.raises(ValueError, match="already holds snapshots up to step 1"):
        dimred.SnapshotRecorder(model, tmp_path, every_steps=1)
    with dimred.SnapshotRecorder(model, tmp_path, every_steps=1, first_step=1) as recorder:
        recorder.step()
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.warns(UserWarning, match="holds snapshots after step 1, up to step 2, from an earlier"):
        dimred.SnapshotRecorder(model, tmp_path, every_steps=1, first_step=1).close()


def test_snapshots_of_another_network_are_another_run(tmp_path: Path) -> None:
    def record(seed: int, folder: Path, first_step: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        model = torch.nn.Linear(40, 30)
        with dimred.SnapshotRecorder(model, folder, every_steps=1, first_step=first_step) as recorder:
            for _ in range(3):
                model.weight.data.add_(0.01 * torch.randn(30, 40))
                recorder.step()
        return model

    model = record(0, tmp_path / "s", 0)
    with dimred.SnapshotRecorder(model, tmp_path / "s", every_steps=1, first_step=3) as recorder:
        model.weight.data.add_(0.01)
        recorder.step()  # goes on: no warning, one run
    with dimred.SnapshotRecorder(model, tmp_path / "s", every_steps=1, first_step=7) as recorder:
        recorder.step()  # from a state between two snapshots
    assert dimred.fit(tmp_path / "s", 2).components.shape == (2, 1230)
    for seed, first_step in ((1, 8), (2, 20)):
        with pytest.warns(UserWarning, match="weights do not continue from '.*', so the recorder starts another run"):
            record(seed, tmp_path / "s", first_step)
    with pytest.raises(ValueError, match=r"needs the snapshots of one run, received 5 of run A such as .* 3 of run B"):
        dimred.fit(tmp_path / "s", 2)
    merged = dimred.merge(tmp_path / "s", tmp_path / "m")
    assert "the checkpoints are of 3 runs: 5 of run A, 3 of run B, 3 of run C" in merged.remarks


def test_two_fine_tunings_of_one_base_are_two_runs(tmp_path: Path) -> None:
    """They end nearer to each other than a rounding to bfloat16 lies to its weights."""

    def tune(seed: int, first_step: int) -> torch.nn.Module:
        model = network()
        torch.manual_seed(seed)
        with dimred.SnapshotRecorder(model, tmp_path, every_steps=1, first_step=first_step) as recorder:
            for _ in range(3):
                for parameter in model.parameters():
                    parameter.data.add_(1e-6 * torch.randn_like(parameter))
                recorder.step()
        return model

    model = tune(1, 0)
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        rounded = {name: value.detach().to(kind).float() for name, value in model.named_parameters()}
        dimred.SnapshotRecorder(rounded, tmp_path, every_steps=1, first_step=3).close()  # goes on: no warning
    brief = {name: value.detach().bfloat16().float() for name, value in model.named_parameters()}
    with dimred.SnapshotRecorder(brief, tmp_path / "brief", every_steps=1) as recorder:
        recorder.step()
    dimred.SnapshotRecorder(model, tmp_path / "brief", every_steps=1, first_step=1).close()  # the float32 masters
    with pytest.warns(UserWarning, match="weights do not continue from '.*', so the recorder starts another run"):
        tune(2, 3)
    with pytest.raises(ValueError, match="needs the snapshots of one run"):
        dimred.fit(tmp_path, 2)


def test_a_recorder_writes_into_no_run(tmp_path: Path) -> None:
    run, model = tmp_path / "run", network()
    (run / "snapshots").mkdir(parents=True)
    for name in ("config.toml", "manifest.json"):
        (run / name).touch()
    before = sorted(run.rglob("*"))
    for place in ("snapshots", "snapshots/new", "checkpoints", "checkpoints/deep/new", "best"):
        for first_step in (0, 2):
            with pytest.raises(ValueError, match=r"is a part of the run '?\S*/run'?; choose another folder"):
                dimred.SnapshotRecorder(model, run / place, every_steps=1, first_step=first_step)
    assert sorted(run.rglob("*")) == before
    for first_step in (0, 1):  # beside the run's own parts, and on with it
        with dimred.SnapshotRecorder(model, run / "recorded" / "w", every_steps=1, first_step=first_step) as recorder:
            recorder.step()
    assert len(list((run / "recorded" / "w").iterdir())) == 2


def test_a_recorder_keeps_its_folder_wherever_the_program_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with dimred.SnapshotRecorder(network(), "s", every_steps=1) as recorder:
        recorder.step()
        monkeypatch.chdir("elsewhere")
        recorder.step()
    assert [file.name for file in sorted((tmp_path / "s").iterdir())] == [
        "snapshot_00000001.h5",
        "snapshot_00000002.h5",
    ]


def test_rank_0_alone_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with dimred.SnapshotRecorder(network(), tmp_path / "s", every_steps=1) as recorder:
        recorder.step()
    assert not (tmp_path / "s").exists()


def test_what_a_write_raises_reaches_the_loop(tmp_path: Path) -> None:
    model = network()
    recorder = dimred.SnapshotRecorder(model, tmp_path, every_steps=1)
    with torch.no_grad():
        model[3].weight[1, 2] = float("nan")
    recorder.step()
    with pytest.raises(ValueError, match="finite"):
        recorder.step()
    recorder.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="every_steps or epochs_of"):
        dimred.SnapshotRecorder(model, tmp_path)


class Interrupted(Future):
    """A write during which the user presses Ctrl-C once."""

    def __init__(self) -> None:
        super().__init__()
        self.presses = 1

    def result(self, timeout: float | None = None) -> None:
        if self.presses:
            self.presses -= 1
            raise KeyboardInterrupt
        super().result(timeout)


@pytest.mark.parametrize("done", [False, True])
def test_ctrl_c_loses_neither_the_error_of_a_write_nor_the_folder(done: bool, tmp_path: Path) -> None:
    """done: the write ends before the wait does."""
    recorder = dimred.SnapshotRecorder({"w": np.zeros(3, np.float32)}, tmp_path, every_steps=1)
    for end in (recorder.step, recorder.close):
        recorder._pending = writing = Interrupted()
        if done:
            writing.set_exception(OSError("the disk is full"))
        with pytest.raises(KeyboardInterrupt):
            end()
        if not done:
            writing.set_exception(OSError("the disk is full"))
        with pytest.raises(OSError, match="the disk is full"):
            end()
    with pytest.raises(ValueError, match="is closed"):
        recorder.step()
    with dimred.SnapshotRecorder({"w": np.zeros(3, np.float32)}, tmp_path, every_steps=1) as other:
        other.step()
    assert [file.name for file in tmp_path.glob("*.h5")] == ["snapshot_00000001.h5"]


def test_what_trains_is_recorded(tmp_path: Path) -> None:
    model = network()
    model[0].requires_grad_(False)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    with (
        pytest.warns(
            UserWarning,
            match=r"records the 4 trainable parameters \(18 values\) and leaves out the 2 frozen parameters \(40 val",
        ),
        dimred.SnapshotRecorder(model, tmp_path / "s", every_steps=1) as recorder,
    ):
        for _ in range(3):
            with torch.no_grad():
                model[3].weight += torch.randn(2, 4)
            recorder.step()
        model[3].requires_grad_(False)  # frozen later: it is recorded, as it was from the start
        recorder.step()
        model.append(torch.nn.Linear(2, 2))
        with pytest.raises(ValueError, match=r"in which \S+ \[2, 2\] was added, removed or reshaped"):
            recorder.step()
        del model[-1]
        model[0].bias.requires_grad_(True)
        with pytest.raises(
            ValueError, match=r"received 0\.bias, which was frozen then; trainable_only=False records all"
        ):
            recorder.step()
    basis = dimred.fit(tmp_path / "s", 2)
    assert basis.names == names
    with h5py.File(tmp_path / "s" / "snapshot_00000004.h5") as file:
        layout = json.loads(bytes(np.array(file["layout"])) if file["layout"].shape else file["layout"][()])
    assert layout["lacks"] == ["0.weight", "0.bias"] and len(layout["frozen"]) == 32
    assert [row["name"] for row in layout["buffers"]] == ["1.running_mean", "1.running_var"]
    with dimred.SnapshotRecorder(model, tmp_path / "all", every_steps=1, trainable_only=False) as recorder:
        recorder.step()
    assert dimred.average(tmp_path / "all").names == [name for name, _ in model.named_parameters()]
    with pytest.raises(
        ValueError, match="needs a trainable parameter, received a model whose parameters are all frozen; trainable"
    ):
        dimred.SnapshotRecorder(model.requires_grad_(False), tmp_path / "none", every_steps=1)


def test_a_part_of_a_network_is_used_with_the_rest_alone(tmp_path: Path, execute, fails) -> None:
    """evaluate, export and a transfer name what a snapshot lacks; the frozen values beside it make it whole."""
    torch.manual_seed(0)
    model = build("convnet", 1, 28, 28, 10)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("fc"))
    for folder, all_of_it in (("part", True), ("whole", False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with dimred.SnapshotRecorder(model, tmp_path / folder, every_steps=1, trainable_only=all_of_it) as recorder:
                recorder.step()
    data = ["--model=convnet", f"--data={few()}", "--train_samples=128", "--test_samples=100", "--threads=1"]
    part, whole = (tmp_path / folder / "snapshot_00000001.h5" for folder in ("part", "whole"))
    said = (
        f"{part} has no values of 6 tensors (conv1.weight, conv1.bias, conv2.weight, ...), because the run "
        "recorded only trainable parameters; record with trainable_only=False, or put the absent values into "
        "frozen.safetensors beside the snapshots"
    )
    assert said in fails(2, "evaluate", tmp_path / "part", *data)
    assert said in fails(2, "export", part, *data, "--output", tmp_path / "export")
    assert said in fails(2, "stage1", *data, f"--initialize_from={part}", "--output", tmp_path / "run")
    merged = fails(2, "merge", part, "--output", tmp_path / "export")
    assert f"'{part}' has no values of 6 tensors (conv1.weight, " in merged
    assert not (tmp_path / "export").exists()
    assert "without             6 tensors (conv1.weight" in execute("dimred", "inspect", part)
    frozen = {name: value for name, value in model.state_dict().items() if not name.startswith("fc")}
    exclude = "--trainable_exclude_patterns=^conv"
    assert "freeze 6 tensors (conv1.weight, " in fails(2, "evaluate", part, *data, exclude)
    safetensors.torch.save_file(frozen, part.with_name("frozen.safetensors"))
    scores = [
        execute("dimred", "evaluate", path, *data, *more).splitlines()[-1]
        for path, more in ((part, [exclude]), (whole, []))
    ]
    assert scores[0] == scores[1] and "accuracy" in scores[0]
    frozen["conv1.bias"] += 1
    safetensors.torch.save_file(frozen, part.with_name("frozen.safetensors"))
    assert "was trained with other frozen parameters" in fails(2, "evaluate", part, *data, exclude)


def test_a_state_dict_is_recorded_by_kinds(tmp_path: Path) -> None:
    """The recorder takes what a fit of state dicts takes: statistics and integers are no parameters."""
    model = network()
    with dimred.SnapshotRecorder(model.state_dict(), tmp_path, every_steps=1) as recorder:
        recorder.step()
    average = dimred.average(tmp_path)
    assert average.names == [name for name, _ in model.named_parameters()]
    assert_array_equal(average.w, torch.nn.utils.parameters_to_vector(model.parameters()).detach())


def test_a_folder_has_one_recorder(tmp_path: Path) -> None:
    first = dimred.SnapshotRecorder(network(), tmp_path, every_steps=1)
    said = f"needs a folder without another recorder, received '{tmp_path}' in use by process {os.getpid()}"
    with pytest.raises(ValueError, match=said):
        dimred.SnapshotRecorder(network(), tmp_path, every_steps=1)
    done = run_python(
        """
import sys, numpy, dimred
dimred.SnapshotRecorder({"w": numpy.ones(3, numpy.float32)}, sys.argv[1], every_steps=1, first_step=1)
""",
        str(tmp_path),
    )
    assert said in done.stderr.splitlines()[-1]
    first.step()
    with dimred.SnapshotRecorder(
        network(), tmp_path, every_steps=1, first_step=1
    ) as second:  # takes it over in this process
        with pytest.raises(ValueError, match="is closed; to continue, make another recorder with first_step=1"):
            first.step()
        second.step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshot_00000001.h5", "snapshot_00000002.h5"]


def test_a_recorder_stays_in_its_process(tmp_path: Path) -> None:
    """A fork's child is refused at once, whatever the writer does; its end leaves the parent's folder alone."""
    recorder = dimred.SnapshotRecorder({"w": np.zeros(100_000, np.float32)}, tmp_path, every_steps=1)
    for _ in range(3):
        recorder.step()
        child = os.fork()
        if child == 0:
            refused = 1
            try:
                recorder.step()
            except RuntimeError as error:
                refused = 0 if f"was made in process {os.getppid()}, received a call in" in str(error) else 2
            with dimred.SnapshotRecorder(
                {"w": np.zeros(3, np.float32)}, tmp_path / "child", every_steps=1, first_step=1
            ) as own:
                own.step()  # HDF5 is whole in the child
            recorder.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / ".lock").exists()
    recorder.close()
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == [f"snapshot_{step:08d}.h5" for step in (1, 2, 3)]
    for made in (lambda: copy.deepcopy(recorder), lambda: pickle.dumps(recorder)):
        with pytest.raises(TypeError, match="cannot be copied or pickled, because a folder has one recorder"):
            made()


def with_phases(persistent: bool) -> torch.nn.Module:
    """A network with a complex buffer, as the tables of rotary embeddings are."""
    model = torch.nn.Linear(2, 2)
    model.register_buffer("phases", torch.ones(3, dtype=torch.complex64), persistent=persistent)
    return model


def test_arguments_of_a_recorder_are_checked_before_its_folder_is_made(tmp_path: Path) -> None:
    whole = network()
    for model, options, text in (
        (whole, {"every_steps": 2.5}, "needs every_steps as a whole number >= 1, received 2.5"),
        (whole, {"every_steps": True}, "received True"),
        (whole, {"every_steps": 0}, "received 0"),
        (whole, {"epochs_of": 4, "per_epoch": 1.0}, r"needs per_epoch as a whole number >= 1, received 1\.0"),
        (whole, {"epochs_of": 4, "from_epoch": 0}, "needs from_epoch as a whole number >= 1, received 0"),
        (whole, {"every_steps": 1, "first_step": -1}, "needs first_step as a whole number >= 0, received -1"),
        (whole, {"every_steps": 1, "from_epoch": 2}, "needs epochs_of if from_epoch is given, received from_epoch=2"),
        (
            {"w": torch.zeros(3, dtype=torch.complex64)},
            {"every_steps": 1},
            r"needs real parameters and buffers, received complex64 \(w\)",
        ),
        ({"w": np.zeros(3, np.complex128)}, {"every_steps": 1}, r"received complex128 \(w\)"),
        (with_phases(persistent=True), {"every_steps": 1}, r"needs real .* received complex64 \(phases\)"),
    ):
        with pytest.raises(ValueError, match=text):
            dimred.SnapshotRecorder(model, tmp_path / "s", **options)
    (tmp_path / "file").write_text("not a folder")
    for options, text in (
        ({"rank": "0"}, "needs rank as a whole number >= 0, received '0'"),
        ({"folder": tmp_path / "file"}, "needs a folder, received '.*file', which is not a folder"),
        ({"model": {}}, r"needs a mapping with an array of floats, received names \[\]"),
    ):
        with pytest.raises(ValueError, match=text):
            dimred.SnapshotRecorder(**({"model": whole, "folder": tmp_path / "s", "every_steps": 1} | options))
    with pytest.raises(TypeError, match="needs trainable_only as True or False, received 'no'"):
        dimred.SnapshotRecorder(whole, tmp_path / "s", every_steps=1, trainable_only="no")
    with pytest.raises(TypeError, match="needs a torch module or a mapping from names to arrays, received str"):
        dimred.SnapshotRecorder("model.pt", tmp_path / "s", every_steps=1)
    for model, text in (
        ({"epoch": 3}, "received int for epoch"),
        (
            {("dense", "kernel"): np.zeros(3, np.float32)},
            r"needs names as text, received the key \('dense', 'kernel'\)",
        ),
    ):
        with pytest.raises(TypeError, match=text):
            dimred.SnapshotRecorder(model, tmp_path / "s", every_steps=1)
    assert not (tmp_path / "s").exists()
    with dimred.SnapshotRecorder(with_phases(persistent=False), tmp_path / "phases", every_steps=1) as recorder:
        recorder.step()
    assert dimred.average(tmp_path / "phases").names == ["weight", "bias"]
    with pytest.warns(UserWarning, match=r"rounds the float64 values of w to float32"):
        dimred.SnapshotRecorder({"w": np.zeros(3)}, tmp_path / "s", every_steps=np.int64(2)).close()
    grown = {"w": np.zeros(3, np.float32)}
    with dimred.SnapshotRecorder(grown, tmp_path / "s", every_steps=1) as recorder:
        with pytest.raises(ValueError, match="needs epoch as a whole number >= 0, received 'last'"):
            recorder.snapshot("last")
        grown["w"] = np.zeros(4, np.float32)
        with pytest.raises(ValueError, match=r"received a model in which w \[3\] was added, removed or reshaped"):
            recorder.step()


# What a reader does.


def run_page(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the Python code of a how-to page leaves defined, run in a folder."""
    monkeypatch.chdir(folder)
    page = (REPOSITORY / "docs" / "how-to" / f"{name}.md").read_text()
    (folder / "page.py").write_text("".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)))
    return runpy.run_path(str(folder / "page.py"))


def test_the_page_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = run_page("use_from_python", tmp_path, monkeypatch)
    assert len(list((tmp_path / "snapshots").iterdir())) == 40
    assert np.asarray(known["nearest"]).shape == (1101,)


def test_a_reader_from_scikit_learn_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = run_page("come_from_scikit_learn", tmp_path, monkeypatch)
    basis, theirs, rows = known["basis"], known["theirs"], known["W"]
    assert_allclose(
        basis.back_project(theirs.transform(rows)) + basis.mean,
        theirs.inverse_transform(theirs.transform(rows)),
        atol=1e-2,
    )
    assert_allclose(basis.singular_values**2 / (len(rows) - 1), theirs.explained_variance_, rtol=1e-9)
    assert len(dimred.fit(rows, None).components) == len(rows) - 1


def test_a_reader_exchanges_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = run_page("exchange_matrices", tmp_path, monkeypatch)
    basis = dimred.Basis.load(tmp_path / "pca_mat.npy")
    assert_allclose(basis.project(known["weights"].numpy()), known["coordinates"], rtol=1e-5, atol=1e-5)
    moved = torch.cat([values.detach().flatten() for values in known["model"].parameters()])
    assert_allclose(moved, known["weights"].numpy() + basis.back_project(np.ones(32)), atol=1e-6)


# The distribution.


def test_the_distribution_says_the_versions_that_the_tests_use() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    pinned = (REPOSITORY / "requirements/test.txt").read_text()
    assert all(requirement in pinned for requirement in project["build-system"]["requires"])
    assert dimred.__version__ in (REPOSITORY / "CITATION.cff").read_text()
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (REPOSITORY / "LICENSE").read_text()


def test_the_trainer_s_commands_say_how_to_get_it(tmp_path: Path, binaries: Path) -> None:
    """The program as the wheel has it: without dimred-train beside it."""
    (tmp_path / "dimred").write_bytes((binaries / "dimred").read_bytes())
    (tmp_path / "dimred").chmod(0o755)
    environment = os.environ | {"LD_LIBRARY_PATH": str(binaries.parent / "lib")}
    done = completed([tmp_path / "dimred", "stage1"], env=environment)
    assert done.returncode == 1
    assert "build this program with scripts/setup.sh in a clone of the repository" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_signals_keep_their_handlers() -> None:
    before = signal.getsignal(signal.SIGINT)
    dimred.fit(np.eye(5, 30, dtype=np.float32), 2)
    assert signal.getsignal(signal.SIGINT) is before


def test_merge_writes_what_average_says(tmp_path: Path) -> None:
    generator = np.random.default_rng(11)
    for step in (9, 10, 100):
        tensors = {"a": generator.standard_normal((3, 4), np.float32), "b": generator.standard_normal(5, np.float32)}
        save_file(tensors, tmp_path / f"step_{step}.safetensors")
    for kind in ("mean", "linear", "cosine", "minus-sqrt", "wma", "ema", "pma-ema"):
        alpha = 0.3 if kind == "pma-ema" else None
        merged = dimred.merge(tmp_path / "step_*", tmp_path / kind, kind, alpha=alpha)
        average = dimred.average([tmp_path / f"step_{step}.safetensors" for step in (9, 10, 100)], kind, alpha=alpha)
        assert merged.steps == [9, 10, 100]
        assert merged.coefficients == list(average.coefficients)
        for name, value in load_file(tmp_path / kind / "model.safetensors").items():
            assert value.tobytes() == average.arrays()[name].tobytes()
    with pytest.raises(ValueError, match="exists already"):
        dimred.merge(tmp_path / "step_*", tmp_path / "mean")
    for sources, options, what in (
        (tmp_path / "step_*", {"dtype": "float8"}, "needs dtype"),
        (tmp_path / "step_*", {"kind": "minus_sqrt"}, "needs kind as one of"),
        (tmp_path / "step_*", {"alpha": 0.2}, "alpha has no effect: it needs kind 'pma-ema', received 'mean'"),
        (tmp_path / "step_*", {"kind": "wma", "decay": 0.5}, "decay has no effect: it needs kind 'ema'"),
        (tmp_path / "step_*", {"last_step": 0}, "needs last_step as a whole number >= 1"),
        (tmp_path / "step_*", {"stride": 2**63}, "needs stride as a whole number"),
        ([], {}, "needs checkpoints, received none"),
        ("", {}, "needs sources as a path, received ''"),
        ("step_1\0", {}, "needs sources as a path, received "),
    ):
        with pytest.raises(ValueError, match=what):
            dimred.merge(sources, tmp_path / "x", **options)
    for source in (None, 3, b"step_1", [None]):
        with pytest.raises(TypeError, match="needs sources as a path, received "):
            dimred.merge(source, tmp_path / "x")
    with pytest.raises(ValueError, match=r"needs kind as one of mean, linear, cosine, minus-sqrt, wma"):
        dimred.average(tmp_path, "median")


def test_this_python_reads_pickles_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        torch.save({"a": torch.full((2,), float(step))}, tmp_path / f"step_{step}.pt")
    monkeypatch.delenv("DIMRED_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dimred.merge(tmp_path / "step_*", tmp_path / "out").steps == [1, 2]
    assert load_file(tmp_path / "out" / "model.safetensors")["a"].tolist() == [1.5, 1.5]
    assert dimred.average(str(tmp_path / "step_*")).w.tolist() == [1.5, 1.5]
    assert "DIMRED_PYTHON" not in os.environ  # other threads may read the environment meanwhile
    monkeypatch.setenv("DIMRED_PYTHON", "/nowhere/python")
    with pytest.raises(OSError, match="cannot run /nowhere/python"):
        dimred.average(str(tmp_path / "step_*"))


def test_memory_has_no_limit_where_the_system_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < _available_memory() < np.inf
    monkeypatch.setattr(Path, "read_text", lambda _: "MemTotal:  8 kB\n")
    assert _available_memory() == np.inf


def test_memory_has_the_limits_of_the_groups_around_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of what the machine and each control group have left; pages of files that nobody reads are left."""
    files = {"/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 4000 kB\n", "/proc/self/cgroup": "0::/pod/container\n"}

    def read_text(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert _available_memory() == 4000 * 1024
    for group, limit, used, stat, left in (
        ("/pod/container", "max", "5000", "", 4000 * 1024),
        ("/pod", "3000000", "2000000", "anon 9\ninactive_file 400000\nactive_file 7\n", 1_400_000),
        ("", "2000000", "1900000", "", 100_000),  # as a container sees its own
        ("/pod/container", "1000", "2000", "inactive_file 0\n", 0),
    ):
        files |= {
            f"/sys/fs/cgroup{group}/memory.{name}": text
            for name, text in (("max", limit + "\n"), ("current", used + "\n"), ("stat", stat))
        }
        assert _available_memory() == left


def test_ctrl_c_ends_a_merge(tmp_path: Path) -> None:
    size = 64 << 20
    header = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    for step in range(60):
        with (tmp_path / f"step_{step}.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)  # zeros that take no room
    interrupt = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        dimred.merge(tmp_path / "step_*", tmp_path / "out", threads=1)
    interrupt.join()
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.tmp").exists()


def test_merge_takes_a_file_of_the_folder_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    save_file({"a": np.ones(2, np.float32)}, here / "model.safetensors")
    monkeypatch.chdir(here)
    with pytest.raises(ValueError, match="would be inside"):  # dimred could not read this folder any more
        dimred.merge("model.safetensors", "out")
    assert dimred.merge("model.safetensors", "../out").inputs == [here]


def test_a_pattern_keeps_the_order_of_folders_and_leaves_merges_out(tmp_path: Path) -> None:
    for step in range(12, 0, -1):
        (tmp_path / f"step_{step}").mkdir()
        save_file({"a": np.full(2, step, np.float32)}, tmp_path / f"step_{step}" / "model.safetensors")
    (tmp_path / "step_13.tmp").mkdir()
    found = dimred.average(str(tmp_path / "step_*" / "model.safetensors"), last=2)
    assert [Path(name).parent.name for name in found.snapshots] == ["step_11", "step_12"]
    assert found.w.tolist() == [11.5, 11.5]
    assert dimred.average(str(tmp_path / "step_{3,1}")).w.tolist() == [2, 2]
    with pytest.raises(FileNotFoundError, match="none"):
        dimred.average(str(tmp_path / "none*"))
    dimred.merge(tmp_path / "step_*", tmp_path / "merged")
    (tmp_path / "merged").rename(tmp_path / "step_13")
    with pytest.raises(ValueError, match="step_13', the result of a merge"):
        dimred.average(str(tmp_path / "step_*"))
