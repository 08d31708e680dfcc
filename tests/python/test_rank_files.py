"""Files of ranks, of FSDP and of DeepSpeed's ZeRO, are one set of weights: its tensors are those that were cut."""

from __future__ import annotations

import json
import math
import multiprocessing
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cli import completed
from conftest import REPOSITORY
from safetensors.torch import load_file
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

READER = REPOSITORY / "checkpoints/read_pickle.py"
Merged = Callable[[Path], dict[str, torch.Tensor]]
Tensors = dict[str, torch.Tensor]


@pytest.fixture()
def merged(execute, tmp_path: Path) -> Merged:
    """The tensors of a merge of one checkpoint."""

    def call(folder: Path) -> Tensors:
        out = tmp_path / "merged"
        execute("dimred", "merge", folder, "--output", out)
        return load_file(out if out.is_file() else out / "model.safetensors")

    return call


@pytest.fixture()
def refused(binaries: Path, tmp_path: Path) -> Callable[[Path], str]:
    """The one line that refuses a path."""

    def call(path: Path) -> str:
        command = [binaries / "dimred", "merge", path, "--output", tmp_path / "refused"]
        done = completed(command)
        assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    return call


def same(received: Tensors, expected: Tensors) -> bool:
    return received.keys() == expected.keys() and all(
        received[name].dtype == value.dtype and torch.equal(received[name], value) for name, value in expected.items()
    )


# FSDP


def part_of(value: torch.Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> torch.Tensor:
    """What torch.chunk leaves to a rank."""
    for dimension, placement in enumerate(placements):
        if isinstance(placement, Shard):
            chunks = value.chunk(mesh.size(dimension), placement.dim)
            place = mesh.get_coordinate()[dimension]
            value = chunks[place] if place < len(chunks) else value.narrow(placement.dim, 0, 0)
    return value.clone()


def dtensor(value: torch.Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> DTensor:
    part = part_of(value, mesh, placements)
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=value.shape, stride=value.stride())


def as_rank(rank: int, shape: tuple[int, ...], names: tuple[str, ...] = ("ddp", "fsdp")) -> Iterator[DeviceMesh]:
    """The mesh as a rank has it, without the others."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=math.prod(shape))
    try:
        yield init_device_mesh("cpu", shape, mesh_dim_names=names[-len(shape) :])
    finally:
        dist.destroy_process_group()


def save_ranks(folder: Path, tensors: Tensors, shape: tuple[int, ...], placements: dict[str, tuple]) -> Path:
    """The files of all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    world = math.prod(shape)
    for rank in range(world):
        for mesh in as_rank(rank, shape):
            usual = (*[Replicate()] * (len(shape) - 1), Shard(0))
            state = {name: dtensor(value, mesh, placements.get(name, usual)) for name, value in tensors.items()}
            torch.save(state, folder / f"model_world_size_{world}_rank_{rank}.pt")
    return folder


def weights(seed: int = 0) -> Tensors:
    """Extents that ranks do not divide, and types that differ."""
    draws = torch.Generator().manual_seed(seed)
    return {
        "embed.weight": torch.randn(7, 3, generator=draws),
        "proj.weight": torch.randn(4, 6, generator=draws).bfloat16(),
        "norm.weight": torch.randn(2, generator=draws),
        "scale": torch.randn((), generator=draws),
        "deep.weight": torch.randn(3, 5, 2, generator=draws),
    }


@pytest.mark.parametrize(
    ("shape", "placements"),
    [
        ((2,), {"scale": (Replicate(),)}),
        ((5,), {"scale": (Replicate(),), "deep.weight": (Shard(1),)}),
        ((2, 2), {"scale": (Replicate(),) * 2, "proj.weight": (Shard(0), Shard(1))}),
        (
            (2, 3),
            {"scale": (Replicate(),) * 2, "embed.weight": (Shard(0), Shard(0)), "proj.weight": (Shard(1), Replicate())},
        ),
        ((1,), {"scale": (Replicate(),)}),
    ],
)
def test_fsdp_ranks_are_what_was_cut(shape, placements, tmp_path: Path, merged) -> None:
    tensors = weights()
    assert same(merged(save_ranks(tmp_path / "saved", tensors, shape, placements)), tensors)


def save_by_fsdp(folder: Path, rank: int) -> None:
    """What a rank of two does, in a process of its own."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    if rank == 0:
        torch.save(model.state_dict(), folder / "whole.pt")
    fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",)))
    state = {**model.state_dict(), "0.weight": model[0].weight}  # as a parameter, too
    torch.save(state, folder / f"actor/model_world_size_2_rank_{rank}.pt")
    dist.destroy_process_group()


def test_fsdp_as_two_processes_save_it(tmp_path: Path, merged) -> None:
    (tmp_path / "actor").mkdir()
    forked = multiprocessing.get_context("fork")  # which import nothing again
    ranks = [forked.Process(target=save_by_fsdp, args=(tmp_path, rank), daemon=True) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    assert same(merged(tmp_path / "actor"), torch.load(tmp_path / "whole.pt"))


def other_names(pickled: bytes, names: dict[bytes, bytes]) -> bytes:
    for old, new in names.items():
        assert old in pickled
        pickled = pickled.replace(old, new)
    return pickled


def renamed(file: Path, names: dict[bytes, bytes]) -> None:
    """Writes the archive again with other names of classes in its pickle."""
    with zipfile.ZipFile(file) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, other_names(data, names) if name.endswith("data.pkl") else data)


def test_fsdp_as_torch_2_4_wrote_it(tmp_path: Path, monkeypatch, merged) -> None:
    """A mesh was a tensor of ranks, and the classes lay elsewhere."""

    def state_of(mesh: DeviceMesh) -> dict[str, Any]:
        return {"device_type": "cpu", "mesh": mesh.mesh, "_coordinate_on_dim": list(mesh.get_coordinate())}

    monkeypatch.setattr(DeviceMesh, "__getstate__", state_of)
    folder = save_ranks(tmp_path / "saved", weights(), (2, 2), {"scale": (Replicate(),) * 2})
    new, old = b"ctorch.distributed.tensor", b"ctorch.distributed._tensor"
    for file in folder.iterdir():
        renamed(
            file,
            {
                new + b"\nDTensor\n": old + b".api\nDTensor\n",
                new + b"._dtensor_spec\nDTensorSpec": old + b".placement_types\nDTensorSpec",
                new + b"._dtensor_spec\nTensorMeta": old + b".placement_types\nTensorMeta",
                new + b".placement_types\nShard": old + b".placement_types\nShard",
                new + b".placement_types\nReplicate": old + b".placement_types\nReplicate",
            },
        )
    assert same(merged(folder), weights())


def shard_all(folder: Path, seed: int = 0) -> Path:
    return save_ranks(folder, weights(seed), (2,), {"scale": (Replicate(),)})


def test_a_series_of_verl_has_its_steps_and_side_files(tmp_path: Path, execute) -> None:
    for step in (9, 10):
        actor = shard_all(tmp_path / f"run/global_step_{step}/actor", step)
        (actor / "huggingface").mkdir()
        (actor / "huggingface/config.json").write_text('{"torch_dtype": "float32"}')
        torch.save({"lr": 1.0}, actor / "optim_world_size_2_rank_0.pt")
    execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "mean")
    nine, ten, mean = weights(9), weights(10), load_file(tmp_path / "mean/model.safetensors")
    for name in nine:
        exact = (nine[name].double() + ten[name].double()) / 2
        assert torch.equal(mean[name], exact.to(mean[name].dtype)), name
    assert (tmp_path / "mean/config.json").exists()
    report = json.loads((tmp_path / "mean/merge.json").read_text())
    assert "global_step_10" in json.dumps(report)
    execute("dimred", "pca", tmp_path / "run", "--kind", "span", "--output", tmp_path / "p.npy")
    last = tmp_path / "run/global_step_10/actor"
    (last / "fsdp_config.json").write_text("{}")
    execute("dimred", "convert", last, "--output", tmp_path / "one", "--dtype", "bfloat16")
    assert json.loads((tmp_path / "one/config.json").read_text()) == {"torch_dtype": "bfloat16"}


def rewrite(file: Path, change: Callable[[dict[str, Any]], None], rank: int, shape: tuple[int, ...] = (2,)) -> None:
    """Saves a rank's file again, changed."""
    for _ in as_rank(rank, shape):
        state = torch.load(file, weights_only=False)
        change(state)
        torch.save(state, file)


def test_fsdp_ranks_that_do_not_fit_are_refused_by_name(tmp_path: Path, refused) -> None:
    first, second = (f"model_world_size_2_rank_{rank}.pt" for rank in (0, 1))
    folder = shard_all(tmp_path / "lone")
    assert f"give the folder '{folder}' instead" in refused(folder / first)
    (folder / second).rename(tmp_path / "away.pt")
    assert f"'{second}' is missing" in refused(folder)
    (tmp_path / "away.pt").rename(folder / "model_world_size_3_rank_1.pt")
    assert "all files must come from one save" in refused(folder)

    folder = shard_all(tmp_path / "twice")
    (folder / second).write_bytes((folder / first).read_bytes())
    assert "was saved by rank 0, but the file name says rank 1" in refused(folder)

    folder = shard_all(tmp_path / "fewer")
    rewrite(folder / second, lambda state: state.pop("embed.weight"), 1)
    assert f'{second}\' has no tensor "embed.weight"' in refused(folder)

    folder = shard_all(tmp_path / "plain")
    rewrite(folder / second, lambda state: state.update(step=torch.ones(3)), 1)
    assert '"step" is not a DTensor' in refused(folder)

    folder = shard_all(tmp_path / "another")
    for mesh in as_rank(1, (2,)):
        state = torch.load(folder / second, weights_only=False)
        state["proj.weight"] = dtensor(weights()["proj.weight"], mesh, (Shard(1),))
        torch.save(state, folder / second)
    assert 'has "proj.weight" as BF16 [4, 6], placements [0]' in refused(folder)

    folder = shard_all(tmp_path / "short")
    for mesh in as_rank(1, (2,)):
        state = torch.load(folder / second, weights_only=False)
        state["embed.weight"] = DTensor.from_local(
            torch.ones(2, 3), mesh, (Shard(0),), run_check=False, shape=torch.Size((7, 3)), stride=(3, 1)
        )
        torch.save(state, folder / second)
    assert (
        '"embed.weight" with the shape [7, 3] needs a shard with the shape [3, 3] on rank 1, received [2, 3]'
        in refused(folder)
    )


def test_partial_sums_are_refused(tmp_path: Path, refused) -> None:
    for mesh in as_rank(0, (2,)):
        value = DTensor.from_local(torch.ones(2), mesh, (Partial(),), run_check=False)
        torch.save({"w": value}, tmp_path / "model_world_size_2_rank_0.pt")
    torch.save({}, tmp_path / "model_world_size_2_rank_1.pt")
    assert "needs placements Shard and Replicate, received Partial" in refused(tmp_path)


def test_damage_of_a_rank_is_named(tmp_path: Path, refused) -> None:
    folder = shard_all(tmp_path / "saved")
    file = folder / "model_world_size_2_rank_1.pt"
    data = bytearray(file.read_bytes())
    stored = weights()["embed.weight"].chunk(2)[1].numpy().tobytes()
    data[data.index(stored)] ^= 1
    file.write_bytes(data)
    assert "is damaged" in refused(folder) and file.name in refused(folder)


class Command:
    """What a pickle would run."""

    def __reduce__(self) -> Any:
        return (subprocess.check_call, (["touch", "run"],))


@pytest.mark.parametrize("kind", ["fsdp", "deepspeed_model", "deepspeed_optimizer"])
def test_nothing_of_a_rank_is_run(kind: str, tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1), "module": Command()}, tmp_path / "f.pt")
    command = [sys.executable, "-I", "-S", READER, kind, tmp_path / "f.pt"]
    done = completed(command, cwd=tmp_path)
    assert done.returncode == 3 and ".check_call, which" in done.stderr and not (tmp_path / "run").exists()


# DeepSpeed


@pytest.fixture(scope="module", autouse=True)
def deepspeed() -> Iterator[Any]:
    """The classes that DeepSpeed's pickles name."""

    class ZeroStageEnum(int, Enum):
        disabled, optimizer_states, gradients, weights = range(4)

    class LossScaler:
        def __init__(self) -> None:
            self.cur_scale = 1.0

    names = ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.zero", "deepspeed.runtime.zero.config")
    modules = {name: ModuleType(name) for name in names}
    place = modules[names[-1]]
    for kind in (ZeroStageEnum, LossScaler):
        kind.__module__, kind.__qualname__ = place.__name__, kind.__name__
        setattr(place, kind.__name__, kind)
    sys.modules.update(modules)
    yield place
    for name in names:
        del sys.modules[name]


class Network(SimpleNamespace):
    """Groups of parameters by name, frozen ones, buffers, and names that share a tensor with another."""

    groups: list[Tensors]
    frozen: Tensors
    buffers: Tensors
    shared: dict[str, str]

    def masters(self) -> Tensors:
        """What its optimizer holds, with the rest."""
        own = {name: value for group in self.groups for name, value in group.items()} | self.frozen | self.buffers
        return own | {name: own[source] for name, source in self.shared.items()}


def network(frozen: bool, extras: bool) -> Network:
    draws = torch.Generator().manual_seed(4)

    def value(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws)

    return Network(
        groups=[
            {"a.weight": value(3, 5), "b.weight": value(7), "c.weight": value(2, 2, 2)},
            {"a.bias": value(3), "d": value(1)},
        ],
        frozen={"f.weight": value(4, 3).bfloat16(), "f.bias": value(5).bfloat16()} if frozen else {},
        buffers={"e.position": torch.arange(6), "e.mean": value(3)} if extras else {},
        shared={"head.weight": "a.weight"} if extras else {},
    )


def padded(values: torch.Tensor, unit: int) -> torch.Tensor:
    return torch.cat([values, torch.full((-values.numel() % unit,), 99.0, dtype=values.dtype)])


def flat_parts(network: Network, stage: int, ranks: int, rank: int) -> list[torch.Tensor]:
    """What the optimizer of a rank holds. Stages 1 and 2 cut a group's vector, whose padding is not saved; stage 3 cuts
    each parameter."""
    parts = []
    for group in network.groups:
        if stage == 3:
            parts.append(torch.cat([padded(value.flatten(), ranks).chunk(ranks)[rank] for value in group.values()]))
            continue
        vector = torch.cat([value.flatten() for value in group.values()])
        each = padded(vector, 2 * ranks).numel() // ranks
        parts.append(vector[rank * each : (rank + 1) * each].clone())
    return parts


def save_zero(folder: Path, network: Network, stage: int, ranks: int, deepspeed: Any) -> Path:
    """A folder global_stepN, as DeepSpeed writes it."""
    folder.mkdir(parents=True)
    shapes = [OrderedDict((name, value.shape) for name, value in group.items()) for group in network.groups]
    module = {name: value.bfloat16() for group in network.groups for name, value in group.items()} | network.frozen
    for rank in range(ranks if stage == 3 else 1):
        of_rank = {
            name: padded(value.flatten(), ranks).chunk(ranks)[rank].clone() if stage == 3 else value
            for name, value in network.frozen.items()
        }
        held = {name: torch.empty(0) for name in module} if stage == 3 else module
        prefix = f"zero_pp_rank_{rank}_" if stage == 3 else ""
        model = {
            "module": OrderedDict(held | network.buffers | dict.fromkeys(network.shared, held["a.weight"])),
            "buffer_names": list(network.buffers),
            "param_shapes": shapes,
            "frozen_param_shapes": {name: value.shape for name, value in network.frozen.items()} if stage > 1 else None,
            "frozen_param_fragments": of_rank if stage > 1 else None,
            "shared_params": network.shared,
            "ds_config": {"train_batch_size": 8},
            "mp_world_size": 1,
            "sparse_tensor_module_names": set(),
        }
        torch.save(model, folder / f"{prefix}mp_rank_00_model_states.pt")
    for rank in range(ranks):
        parts = flat_parts(network, stage, ranks, rank)
        for part in parts:
            part.ds_id = "0_1"  # type: ignore[attr-defined]  # DeepSpeed sets it
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        state = {
            "loss_scaler": deepspeed.LossScaler(),
            "zero_stage": deepspeed.ZeroStageEnum(stage),
            "partition_count": ranks if stage == 3 else [ranks] * len(parts),
            "base_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(3)}}},
            key: parts,
        }
        prefix = "bf16_" if stage < 3 else ""
        torch.save(
            {"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.16"},
            folder / f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt",
        )
    return folder


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("frozen", "extras"), [(False, False), (True, True)])
def test_zero_is_what_its_optimizer_holds(stage, ranks, frozen, extras, tmp_path: Path, deepspeed, merged) -> None:
    whole = network(frozen, extras)
    assert same(merged(save_zero(tmp_path / "global_step5", whole, stage, ranks, deepspeed)), whole.masters())


def test_zero_whose_stage_python_3_11_wrote_by_name(tmp_path: Path, deepspeed, merged, refused, monkeypatch) -> None:
    monkeypatch.setattr(Enum, "__reduce_ex__", lambda self, _: (getattr, (self.__class__, self._name_)))
    whole = network(True, True)
    assert same(merged(save_zero(tmp_path / "global_step5", whole, 2, 2, deepspeed)), whole.masters())
    monkeypatch.setattr(Enum, "__reduce_ex__", lambda self, _: (getattr, (self.__class__, "half")))
    assert "has the unknown ZeRO stage 'half'" in refused(save_zero(tmp_path / "other", whole, 2, 2, deepspeed))


def test_a_trainers_folder_has_the_zero_that_its_latest_names(tmp_path: Path, deepspeed, merged, refused) -> None:
    whole = network(True, True)
    save_zero(tmp_path / "checkpoint-5/global_step5", whole, 2, 2, deepspeed)
    (tmp_path / "checkpoint-5/latest").write_text("global_step5\n")
    (tmp_path / "checkpoint-5/config.json").write_text("{}")
    assert same(merged(tmp_path / "checkpoint-5"), whole.masters())
    assert (tmp_path / "merged/config.json").exists()


def test_zero_that_does_not_fit_is_refused_by_name(tmp_path: Path, deepspeed, refused) -> None:
    whole = network(True, False)
    folder = save_zero(tmp_path / "a/global_step5", whole, 2, 2, deepspeed)
    last = folder / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    assert f"give the folder '{folder}' instead" in refused(last)
    last.rename(tmp_path / "away.pt")
    assert "comes from 2 ranks, but the folder has 1 file" in refused(folder)
    (tmp_path / "away.pt").rename(folder / "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt")
    assert "model, pipeline or expert parallelism" in refused(folder)

    folder = save_zero(tmp_path / "b/global_step5", whole, 3, 2, deepspeed)
    (folder / "zero_pp_rank_1_mp_rank_00_model_states.pt").unlink()
    assert "needs files of model states from 2 ranks" in refused(folder)
    for file in folder.glob("*optim_states.pt"):
        file.unlink()
    assert "optim_states.pt of any rank" in refused(folder)

    for stage in (2, 3):
        folder = save_zero(tmp_path / f"c{stage}/global_step5", whole, stage, 2, deepspeed)
        file = next(folder.glob("*zero_pp_rank_1_mp_rank_00_optim_states.pt"))
        saved = torch.load(file, weights_only=False)
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        saved["optimizer_state_dict"][key][0] = torch.ones(3)
        torch.save(saved, file)
        assert "elements" in refused(folder)

    # Four such numbers of elements add up to 0 in 64 bits.
    folder = save_zero(tmp_path / "d/global_step5", whole, 2, 2, deepspeed)
    file = folder / "mp_rank_00_model_states.pt"
    saved = torch.load(file, weights_only=False)
    saved["param_shapes"][0] |= {f"large{i}": torch.Size([2**31, 2**31]) for i in range(4)}
    torch.save(saved, file)
    assert 'the parameter "large0" needs a shape of fewer elements' in refused(folder)
