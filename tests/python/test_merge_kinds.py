"""Merges by the step's power, by tensors' names, of LoRA's updates, and of files that hold raw and averaged weights,
against NumPy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file, save_file

import dimred

Arrays = dict[str, np.ndarray]
STEPS = (10, 20, 40)
GENERATOR = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape, np.float32)


@pytest.fixture()
def run(tmp_path: Path) -> Path:
    """Checkpoints of three steps."""
    for step in STEPS:
        folder = tmp_path / f"run/checkpoint-{step}"
        folder.mkdir(parents=True)
        save_file({"mlp.w": normal(30, 40), "attn.w": normal(7), "n": np.array([3])}, folder / "model.safetensors")
    return tmp_path / "run"


def summed(run: Path, name: str, shares: list[float]) -> np.ndarray:
    """The sum of a tensor in float64, rounded once."""
    files = [load_file(run / f"checkpoint-{step}/model.safetensors")[name] for step in STEPS]
    return sum(share * file.astype(np.float64) for share, file in zip(shares, files, strict=True)).astype(np.float32)


def test_the_power_of_a_step(run: Path, tmp_path: Path, execute, fails) -> None:
    shares = [step**3 / sum(each**3 for each in STEPS) for step in STEPS]
    execute("dimred", "merge", run, "--kind", "power", "--gamma", 3, "--output", tmp_path / "cube")
    assert_allclose(load_file(tmp_path / "cube/model.safetensors")["attn.w"], summed(run, "attn.w", shares), rtol=1e-6)
    merged = dimred.merge(run, tmp_path / "again", "power", gamma=3)
    assert_allclose(merged.coefficients, shares, rtol=1e-15)
    assert repr(merged).startswith(f"Merged('{tmp_path}/again': power 3 of 3 checkpoints, 0.0136986 of checkpoint-10, ")
    line = tmp_path / "sweep.txt"
    line.write_text("kind=power gamma=3\nkind=power gamma=0 last=2\n")
    execute("dimred", "merge", run, "--sweep", line, "--output", tmp_path / "swept")
    for folder in ("again", "swept/01"):
        assert (tmp_path / folder / "model.safetensors").read_bytes() == (
            tmp_path / "cube/model.safetensors"
        ).read_bytes()
    named = [tmp_path / "early", tmp_path / "late"]
    for path, step in zip(named, STEPS, strict=False):
        path.symlink_to(run / f"checkpoint-{step}")
    assert "power needs a step in the name" in fails(2, "merge", *named, "--kind=power", "--output", tmp_path / "x")
    with pytest.raises(ValueError, match="gamma has no effect: it needs kind 'power'"):
        dimred.merge(run, tmp_path / "x", gamma=2)
    with pytest.raises(ValueError, match="'power' needs steps in the names"):
        dimred.average([normal(4), normal(4)], "power")


def test_coefficients_by_name(run: Path, tmp_path: Path, execute, fails) -> None:
    file = tmp_path / "c.txt"
    file.write_text("# oldest first: 1 2\nmlp: 0 0.5 0.5\n^attn\\.w$: -0.2 0.3 0.9\n.: 1 0 0\nno: 0 0 1\n")
    said = execute("dimred", "merge", run, "--coefficients", file, "--output", tmp_path / "out")
    assert "mlp: 0 0.5 0.5 (1 tensor)" in said and 'the pattern "no" matches no tensor, so its' in said
    rules = {"mlp": [0, 0.5, 0.5], r"^attn\.w$": [-0.2, 0.3, 0.9]}
    for folder in ("out", "python"):
        if folder == "python":
            merged = dimred.merge(run, tmp_path / folder, coefficients=rules)
            assert merged.coefficients == rules
            assert "'mlp': 0 0.5 0.5" in repr(merged)
        for name, shares in (("mlp.w", rules["mlp"]), ("attn.w", rules[r"^attn\.w$"])):
            found = load_file(tmp_path / folder / "model.safetensors")[name]
            assert_allclose(found, summed(run, name, shares), rtol=2e-7, atol=1e-7)
    written = json.loads((tmp_path / "out/merge.json").read_text())
    assert written["rules"][0] == {"pattern": "mlp", "coefficients": [0.0, 0.5, 0.5], "tensors": 1}
    assert "by name of " in execute("dimred", "inspect", tmp_path / "out")
    file.write_text("mlp: 0 0.5 0.5\n")
    refused = fails(2, "merge", run, "--coefficients", file, "--output", tmp_path / "x")
    assert 'needs a line for each tensor, received none for "attn.w"' in refused
    for text, what in (("mlp: 1 1 1\n", ":1 needs coefficients that sum"), ("[: 1 0 0\n", ":1: needs a reg")):
        file.write_text(text)
        assert what in fails(2, "merge", run, "--coefficients", file, "--output", tmp_path / "x")
    with pytest.raises(ValueError, match="for each of 3 checkpoints, received 2"):
        dimred.merge(run, tmp_path / "x", coefficients=[0.5, 0.5])
    with pytest.raises(ValueError, match="needs kind or coefficients"):
        dimred.merge(run, tmp_path / "x", "wma", coefficients=[0, 0, 1])


def test_a_sweeps_paths_are_relative_to_its_file(run: Path, tmp_path: Path, execute) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "shares.txt").write_text("0.2\n0.3\n0.5\n")
    (folder / "sweep.txt").write_text("coefficients=shares.txt\n")
    execute("dimred", "merge", run, "--sweep", folder / "sweep.txt", "--output", tmp_path / "swept")
    merged = load_file(next((tmp_path / "swept").glob("*/model.safetensors")))["attn.w"]
    assert_allclose(merged, summed(run, "attn.w", [0.2, 0.3, 0.5]), rtol=1e-6)


def test_a_sweep_in_python(run: Path, tmp_path: Path) -> None:
    shares = [0.25, 0.25, 0.5]
    sweep: list[dict[str, Any]] = [{"last": 2}, {"kind": "ema", "decay": 0.5}, {"coefficients": {".": shares}}]
    mean, ema, given = dimred.merge(run, tmp_path / "out", sweep=sweep)
    assert [merged.output.name for merged in (mean, ema, given)] == ["01", "02", "03"]
    assert mean.coefficients == [0.5, 0.5] and mean.steps == [20, 40]
    assert_array_equal(load_file(given.output / "model.safetensors")["attn.w"], summed(run, "attn.w", shares))
    for lines, what in (
        ([{"speed": 1}], "needs kind, last, .* in a dict of sweep"),
        ([{"kind": "mode"}], "needs kind as one of"),
    ):
        with pytest.raises(ValueError, match=what):
            dimred.merge(run, tmp_path / "x", sweep=lines)
    with pytest.raises(ValueError, match="last belongs in the dicts of sweep"):
        dimred.merge(run, tmp_path / "x", sweep=sweep, last=2)
    with pytest.raises(ValueError, match="coefficients belongs in the dicts of sweep"):
        dimred.merge(run, tmp_path / "x", sweep=sweep, coefficients=np.array(shares))


@pytest.mark.parametrize("given", [str, Path])
def test_the_copied_checkpoint_is_named_as_a_source_is(given, tmp_path: Path, monkeypatch, execute, fails) -> None:
    for step in (1, 2):
        (tmp_path / f"run/c-{step}").mkdir(parents=True)
        save_file({"w": normal(2), "n": np.array([step])}, tmp_path / f"run/c-{step}/model.safetensors")
    monkeypatch.chdir(tmp_path)
    names = ["run/c-1", "./run/c-1", "run/../run/c-1", "c-1", str(tmp_path / "run/c-1")]
    for i, name in enumerate(names):
        dimred.merge(["run/c-1", "run/c-2"], f"out_{i}", copy_from=given(name))
        execute("dimred", "merge", "run/c-1", "run/c-2", "--copy_from", name, "--output", f"command_{i}")
        for folder in (f"out_{i}", f"command_{i}"):
            assert load_file(tmp_path / folder / "model.safetensors")["n"][0] == 1
    assert "received 'run/c-3'" in fails(
        2, "merge", "run/c-1", "run/c-2", "--copy_from", "run/c-3", "--output", tmp_path / "none"
    )
    with pytest.raises(TypeError, match="needs copy_from as a path, received 3"):
        dimred.merge("run", "none", copy_from=3)


def test_sizes_of_shards_and_a_merge_of_one(run: Path, tmp_path: Path, execute, fails) -> None:
    said = execute("dimred", "merge", run / "checkpoint-10", "--shard_size", "1KB", "--output", tmp_path / "out")
    assert "is only a copy of one checkpoint; `dimred convert` makes such copies" in said
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())["weight_map"]
    assert index["mlp.w"] != index["attn.w"]  # 4.8 kB have a shard of their own
    dimred.merge(run, tmp_path / "whole", shard_size="5GB")
    assert (tmp_path / "whole/model.safetensors").exists()
    assert "needs a size" in fails(2, "merge", run, "--shard_size", "5GiB", "--output", tmp_path / "x")


# LoRA.

LAYERS = {"layers.0.q": (6, 5), "layers.0.v": (4, 5), "layers.1.q": (6, 5)}


def put_adapter(folder: Path, ranks: dict[str, int], config: dict[str, Any], more: Arrays | None = None) -> Path:
    """An adapter as PEFT saves it; ranks: of each module."""
    folder.mkdir(parents=True)
    tensors = dict(more or {})
    for module, (rows, columns) in LAYERS.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = normal(ranks[module], columns)
        tensors[f"base_model.model.{module}.lora_B.weight"] = normal(rows, ranks[module])
    save_file(tensors, folder / "adapter_model.safetensors")
    known = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "b", "fan_in_fan_out": False}
    (folder / "adapter_config.json").write_text(json.dumps({**known, **config}))
    return folder


def value_for(patterns: dict[str, float], module: str, otherwise: float) -> float:
    """As PEFT's get_pattern_key finds it."""
    for key, value in patterns.items():
        if re.match(rf"(.*\.)?({key})$", module):
            return value
    return otherwise


def update_of(folder: Path, module: str) -> np.ndarray:
    """s B A in float64."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    rank = value_for(config.get("rank_pattern", {}), module, config["r"])
    alpha = value_for(config.get("alpha_pattern", {}), module, config["lora_alpha"])
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    a, b = (tensors[f"base_model.model.{module}.lora_{side}.weight"].astype(np.float64) for side in "AB")
    assert a.shape[0] == b.shape[1] == rank
    return scale * b @ a


def test_the_mean_of_adapters_is_that_of_their_updates(tmp_path: Path, execute) -> None:
    head = "base_model.model.head.weight"
    heads = [normal(2, 3) for _ in range(3)]
    adapters = [
        put_adapter(tmp_path / "run/checkpoint-10", dict.fromkeys(LAYERS, 2), {}, {head: heads[0]}),
        put_adapter(
            tmp_path / "run/checkpoint-20",
            {"layers.0.q": 3, "layers.0.v": 5, "layers.1.q": 3},
            {"r": 5, "rank_pattern": {"q": 3}, "alpha_pattern": {r"layers\.1\.q": 7}, "use_rslora": True},
            {head: heads[1]},
        ),
        put_adapter(tmp_path / "run/checkpoint-40", dict.fromkeys(LAYERS, 1), {"r": 1}, {head: heads[2]}),
    ]
    for name, options, shares in (
        ("mean", {}, [1 / 3] * 3),
        ("given", {"coefficients": [1.5, -1, 0.5]}, [1.5, -1, 0.5]),
        ("same", {"last": 2}, [0, 0.5, 0.5]),
    ):
        merged = dimred.merge(tmp_path / "run", tmp_path / name, **options)
        assert len(merged.inputs) == sum(share != 0 for share in shares)
        for module in LAYERS:
            wanted = sum(share * update_of(folder, module) for share, folder in zip(shares, adapters, strict=True))
            assert_allclose(update_of(tmp_path / name, module), wanted, rtol=1e-5, atol=1e-6)
        whole = load_file(tmp_path / name / "adapter_model.safetensors")[head]
        assert_allclose(whole, sum(s * h.astype(np.float64) for s, h in zip(shares, heads, strict=True)), rtol=1e-5)
        assert "whole, its digest" in execute("dimred", "inspect", tmp_path / name)
    assert dimred.merge(adapters[0], tmp_path / "one").coefficients == [1]
    config = "adapter_config.json"
    assert (tmp_path / "one" / config).read_bytes() == (adapters[0] / config).read_bytes()
    one = load_file(tmp_path / "one/adapter_model.safetensors")
    for name, value in load_file(adapters[0] / "adapter_model.safetensors").items():
        assert value.tobytes() == one[name].tobytes()


def test_ranks_of_one_size_make_a_plain_configuration(tmp_path: Path, execute) -> None:
    for step in STEPS:
        put_adapter(tmp_path / f"run/checkpoint-{step}", dict.fromkeys(LAYERS, 2), {"rank_pattern": {}})
    dimred.merge(tmp_path / "run", tmp_path / "out")
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["rank_pattern"], config["alpha_pattern"]) == (6, 6, {}, {})
    execute("dimred", "merge", tmp_path / "run", "--block", 5, "--output", tmp_path / "blocks")
    file = "adapter_model.safetensors"
    assert (tmp_path / "blocks" / file).read_bytes() == (tmp_path / "out" / file).read_bytes()
    shapes = {name: value.shape for name, value in load_file(tmp_path / "out" / file).items()}
    assert shapes["base_model.model.layers.0.q.lora_A.weight"] == (6, 5)
    assert shapes["base_model.model.layers.0.q.lora_B.weight"] == (6, 6)


def test_adapters_folded_into_their_base(tmp_path: Path, fails) -> None:
    base = tmp_path / "base"
    base.mkdir()
    weights = {f"{module}.weight": normal(*shape) for module, shape in LAYERS.items()}
    weights |= {"head.weight": normal(2, 3), "embed.weight": normal(8, 3), "norm.weight": normal(9)}
    save_file(weights, base / "model.safetensors")
    (base / "config.json").write_text('{"hidden_size": 5}')
    adapters, more = [], []
    for step in STEPS:
        more.append(
            {
                "base_model.model.head.weight": normal(2, 3),
                "base_model.model.embed.lora_embedding_A": normal(2, 8),
                "base_model.model.embed.lora_embedding_B": normal(3, 2),
            }
        )
        folder = tmp_path / f"run/checkpoint-{step}"
        adapters.append(put_adapter(folder, dict.fromkeys(LAYERS, 2), {"alpha_pattern": {"v": 3}}, more[-1]))
    shares = [0.5, 0.75, -0.25]
    dimred.merge(tmp_path / "run", tmp_path / "out", coefficients=shares, base=base, shard_size="200B")
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())["weight_map"]
    found = {name: load_file(tmp_path / "out" / file)[name] for name, file in index.items()}
    for module in LAYERS:
        update = sum(share * update_of(folder, module) for share, folder in zip(shares, adapters, strict=True))
        assert_allclose(found[f"{module}.weight"], weights[f"{module}.weight"] + update, rtol=1e-6, atol=1e-7)
    name = "base_model.model.embed.lora_embedding_"
    embed = sum(share * 2 * (each[name + "B"] @ each[name + "A"]).T for share, each in zip(shares, more, strict=True))
    assert_allclose(found["embed.weight"], weights["embed.weight"] + embed, rtol=1e-5, atol=1e-5)
    heads = [each["base_model.model.head.weight"].astype(np.float64) for each in more]
    head = sum(share * each for share, each in zip(shares, heads, strict=True))
    assert_allclose(found["head.weight"], head, rtol=1e-6, atol=1e-7)
    assert found["norm.weight"].tobytes() == weights["norm.weight"].tobytes()
    assert not (tmp_path / "out/adapter_config.json").exists() and (tmp_path / "out/config.json").exists()
    save_file({name: value for name, value in weights.items() if "layers.0.v" not in name}, base / "model.safetensors")
    words = ("merge", tmp_path / "run", "--output", tmp_path / "x", "--base", base)
    assert 'has no tensor "layers.0.v.weight"' in fails(2, *words)
    assert "--base needs LoRA adapters" in fails(2, "merge", base, "--output", tmp_path / "x", "--base", base)


def test_counters_and_statistics_of_saved_modules_are_the_copied_adapters(tmp_path: Path) -> None:
    """As `convert --adapter` writes them; modules_to_save holds a BatchNorm whose buffers are no sums."""
    base, adapters = tmp_path / "base", []
    base.mkdir()
    weights = {f"{module}.weight": normal(*shape) for module, shape in LAYERS.items()}
    norm = {
        "bn.weight": normal(3),
        "bn.bias": normal(3),
        "bn.running_mean": normal(3),
        "bn.running_var": normal(3) ** 2,
    }
    save_file({**weights, **norm, "bn.num_batches_tracked": np.array(1)}, base / "model.safetensors")
    (base / "config.json").write_text("{}")
    for step in STEPS:
        more = {f"base_model.model.{name}": value + step for name, value in norm.items()}
        more["base_model.model.bn.num_batches_tracked"] = np.array(step)
        config = {"modules_to_save": ["bn"]}
        adapters.append(put_adapter(tmp_path / f"run/checkpoint-{step}", dict.fromkeys(LAYERS, 2), config, more))
    dimred.merge(adapters[0], tmp_path / "one", base=base)
    dimred.convert(base, tmp_path / "folded", adapter=adapters[0])
    one, folded = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "folded"))
    assert one.keys() == folded.keys()
    for name, value in folded.items():
        assert value.tobytes() == one[name].tobytes(), name
    assert one["bn.num_batches_tracked"] == STEPS[0]

    merged = dimred.merge(tmp_path / "run", tmp_path / "mean", base=base, copy_from="checkpoint-20")
    mean = load_file(tmp_path / "mean/model.safetensors")
    assert mean["bn.num_batches_tracked"] == 20 and merged.copied == []
    assert_array_equal(mean["bn.running_var"], norm["bn.running_var"] + 20)
    assert_allclose(mean["bn.weight"], norm["bn.weight"] + np.mean(STEPS), rtol=1e-6)

    half = {name: value.astype(np.float16) for name, value in norm.items()}
    save_file({**weights, **half, "bn.num_batches_tracked": np.array(1)}, base / "model.safetensors")
    more["base_model.model.bn.running_mean"] = np.full(3, 1e5, np.float32)
    put_adapter(tmp_path / "large", dict.fromkeys(LAYERS, 2), config, more)
    with pytest.raises(ValueError, match=r'bn\.running_mean" at element 0 is beyond the range of F16'):
        dimred.merge(tmp_path / "large", tmp_path / "none", base=base)


def test_adapters_are_read_by_blocks(tmp_path: Path, binaries: Path, execute) -> None:
    """Blocks of any size give the same bits; a tensor that was trained whole, 24 MB here, is never in memory."""
    head = "base_model.model.head.weight"
    for step, value in ((10, 1), (20, 2)):
        more = {head: np.full((6000, 1000), value, np.float32)}
        put_adapter(tmp_path / f"run/checkpoint-{step}", dict.fromkeys(LAYERS, 2), {}, more)
    base = {f"{module}.weight": normal(*shape) for module, shape in LAYERS.items()}
    save_file({**base, "head.weight": np.zeros((6000, 1000), np.float32)}, tmp_path / "base.safetensors")
    for name, options in (("adapter_model", ()), ("model", ("--base", tmp_path / "base.safetensors"))):
        words = (binaries / "dimred", "merge", tmp_path / "run", *options, "--threads", 1)
        (tmp_path / "limited.sh").write_text('ulimit -d 65536\nexec "$@"\n')  # kB
        limit = ("/bin/sh", tmp_path / "limited.sh")
        execute(*limit, *words, "--output", tmp_path / name)
        execute(*words, "--block", 7_001, "--output", tmp_path / f"{name}-blocks")
        file = f"{name}.safetensors"
        assert (tmp_path / name / file).read_bytes() == (tmp_path / f"{name}-blocks" / file).read_bytes()
        found = load_file(tmp_path / name / file)
        assert np.all(found[head if name == "adapter_model" else "head.weight"] == 1.5)


def test_tied_weights_of_a_base_change_together(tmp_path: Path, execute) -> None:
    head = torch.from_numpy(normal(6, 5))
    others = {f"{module}.weight": torch.from_numpy(normal(*LAYERS[module])) for module in list(LAYERS)[1:]}
    torch.save({"layers.0.q.weight": head, "embed.weight": head, **others}, tmp_path / "base.pt")
    folder = put_adapter(tmp_path / "ad", dict.fromkeys(LAYERS, 2), {})
    execute("dimred", "merge", folder, "--output", tmp_path / "out", "--base", tmp_path / "base.pt")
    found = load_file(tmp_path / "out/model.safetensors")
    assert_allclose(found["layers.0.q.weight"], head.numpy() + update_of(folder, "layers.0.q"), rtol=1e-6, atol=1e-7)
    assert found["embed.weight"].tobytes() == found["layers.0.q.weight"].tobytes()


def test_what_is_no_plain_lora_is_refused_by_name(tmp_path: Path, fails) -> None:
    for step in STEPS[:2]:
        put_adapter(tmp_path / f"run/checkpoint-{step}", dict.fromkeys(LAYERS, 2), {})
    file = tmp_path / "run/checkpoint-20/adapter_config.json"
    plain = json.loads(file.read_text())
    words = ("merge", tmp_path / "run", "--output", tmp_path / "x")
    for more, what in (
        ({"peft_type": "LOHA"}, 'peft_type = "LOHA"'),
        ({"use_dora": True}, "use_dora = true"),
        ({"use_rslora": 1}, "needs use_rslora = true or false, received 1"),
        ({"use_dora": "true"}, 'needs use_dora = true or false, received "true"'),
        ({"fan_in_fan_out": 0}, "needs fan_in_fan_out = true or false, received 0"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"r": 3}, "says rank 3 for"),
        ({"base_model_name_or_path": "other"}, "differ in base_model_name_or_path"),
    ):
        file.write_text(json.dumps({**plain, **more}))
        assert what in fails(2, *words)
    file.unlink()
    assert "but the folder has no adapter_config.json" in fails(2, *words)
    tensors = load_file(tmp_path / "run/checkpoint-20/adapter_model.safetensors")
    with pytest.raises(
        ValueError, match=r"their mean is not the mean of the updates; .*dimred\.merge\(FOLDERS, OUTPUT"
    ):
        dimred.average([tensors, tensors])
    assert len(dimred.average([tensors, tensors], last=1).names) == 6


# Raw and averaged weights.


def state(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.full((4,), float(value))}


def prefixed(prefix: str, value: float) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in state(value).items()}


COUNT = torch.tensor(3)
FILES: dict[str, tuple[dict[str, Any], str]] = {
    "lightning": (
        {"state_dict": state(2), "current_model_state": state(1), "averaging_state": {"n_averaged": COUNT}},
        "state_dict is read, the averaged weights; with --take raw, merge, convert and diff read current_model_state",
    ),
    "mmengine": (
        {
            "meta": {"mmengine_version": "0.10"},
            "state_dict": state(2),
            "ema_state_dict": {**prefixed("module.", 1), "steps": COUNT},
        },
        "state_dict is read, the averaged weights; with --take raw, merge, convert and diff read ema_state_dict",
    ),
    "torchvision": (
        {"model": state(1), "model_ema": {**prefixed("module.", 2), "n_averaged": COUNT}},
        "model is read, the raw weights; with --take averaged, merge, convert and diff read model_ema",
    ),
    "detector": (
        {"model": state(1), "ema": {"module": state(2), "updates": 5}},
        "with --take averaged, merge, convert and diff read ema",
    ),
    "ddpm": (
        {"model": state(1), "ema": {**prefixed("online_model.", 1), **prefixed("ema_model.", 2)}},
        "with --take averaged, merge, convert and diff read ema",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_raw_and_averaged_weights_of_one_file(name: str, tmp_path: Path, execute) -> None:
    content, remark = FILES[name]
    torch.save(content, tmp_path / "step_5.pt")
    for take, value in (("raw", 1), ("averaged", 2)):
        execute("dimred", "merge", tmp_path / "step_5.pt", "--take", take, "--output", tmp_path / take)
        found = load_file(tmp_path / take / "model.safetensors")
        assert {key: tensor.tolist() for key, tensor in found.items()} == {"w": [value] * 4}
        assert json.loads((tmp_path / take / "merge.json").read_text())["take"] == take
    said = execute("dimred", "merge", tmp_path / "step_5.pt", "--output", tmp_path / "usual")
    assert remark in said
    assert dimred.merge(tmp_path / "step_5.pt", tmp_path / "python", take="raw").remarks


@pytest.mark.parametrize("key", ["state_dict", None])
def test_an_average_in_one_list_of_a_pytorch_file(key: str | None, tmp_path: Path, execute) -> None:
    """model.w beside model_ema.w or ema.w, as Lightning saves a module that holds both."""
    both = {"model.w": torch.full((4,), 1.0), "ema.w": torch.full((4,), 2.0)}
    torch.save({key: both} if key else both, tmp_path / "both.ckpt")
    assert "(model.*) and their average (ema.*) are both read" in execute("dimred", "inspect", tmp_path / "both.ckpt")
    for take, value in (("raw", 1), ("averaged", 2)):
        execute("dimred", "convert", tmp_path / "both.ckpt", "--take", take, "--output", tmp_path / take)
        found = load_file(tmp_path / take / "model.safetensors")
        assert {name: tensor.tolist() for name, tensor in found.items()} == {"model.w": [value] * 4}


@pytest.mark.parametrize("key", ["", "shadow"])
def test_raw_weights_without_an_average_stay_beside_the_average(key: str, tmp_path: Path, execute) -> None:
    """Frozen ones, which no average follows, as in one list of names."""
    average = {key: state(2), "decay": 0.9} if key else state(2)
    torch.save({"model": {**state(1), "frozen": torch.ones(2)}, "ema": average}, tmp_path / "both.pt")
    execute("dimred", "convert", tmp_path / "both.pt", "--take", "averaged", "--output", tmp_path / "out")
    found = load_file(tmp_path / "out/model.safetensors")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"w": [2] * 4, "frozen": [1] * 2}


def test_raw_weights_and_an_average_have_no_mean(tmp_path: Path, fails) -> None:
    """ultralytics' last file has the average alone; mmengine's has it under the key of the raw weights before."""
    pairs = {
        "detector": ({"model": state(1)}, {"model": None, "ema": state(3)}),
        "mmengine": (
            {"meta": {"mmengine_version": "1"}, "state_dict": state(1), "message_hub": {}},
            FILES["mmengine"][0],
        ),
    }
    for name, contents in pairs.items():
        (tmp_path / name).mkdir()
        for step, content in enumerate(contents, start=1):
            torch.save(content, tmp_path / f"{name}/step{step}.pt")
        for words in (("merge", "--output", tmp_path / "x"), ("pca", "--components=1", "--output", tmp_path / "x.npy")):
            line = fails(2, words[0], tmp_path / name, *words[1:])
            assert "step2.pt' gives averaged weights" in line and "step1.pt' does not say" in line
        with pytest.raises(ValueError, match="needs weights of one kind"):
            dimred.average(tmp_path / name)


def test_files_without_the_kind_that_is_asked(tmp_path: Path, fails, execute) -> None:
    file = tmp_path / "step_5.pt"

    def refused(content: dict[str, Any], take: str) -> str:
        torch.save(content, file)
        return fails(2, "merge", file, "--take", take, "--output", tmp_path / "x")

    assert "averaged weights, ema_0.9, ema_0.99; save" in refused(
        {"model": state(1), "ema_0.9": state(2), "ema_0.99": state(3)}, "averaged"
    )
    assert "holds no averaged weights" in refused(state(1), "averaged")
    averages = {"shadow_params": [*state(2).values()], "decay": 0.9}
    said = refused({"model": state(1), "ema": averages}, "averaged")
    assert "holds the averaged weights as a list, ema.shadow_params.0 and others" in said
    assert "holds no raw weights, only ema" in refused({"ema": state(1)}, "raw")
    for train, take, wanted in ((True, "averaged", "eval"), (False, "raw", "train")):
        groups = {"state": {0: {"z": torch.ones(4)}}, "param_groups": [{"train_mode": train}]}
        said = refused({"model": state(1), "optimizer": groups}, take)
        assert f"holds no {take} weights; call optimizer.{wanted}() before saving" in said
        assert "schedule-free" in execute("dimred", "merge", file, "--output", tmp_path / wanted)
    save_file({"w": normal(3)}, tmp_path / "w.safetensors")
    said = fails(2, "merge", tmp_path / "w.safetensors", "--take=averaged", "--output", tmp_path / "x")
    assert "with one kind of weights" in said


def test_configurations_of_pythons_infinity_and_large_tokenizers_are_compared(run: Path, tmp_path: Path, fails) -> None:
    """JSON has no infinity; a table of 200,000 pairs takes more memory than other texts may."""
    pairs = [["ab", f"c{i}"] for i in range(200_000)]
    for indent, step in enumerate(STEPS):
        folder = run / f"checkpoint-{step}"
        config = {"time_step_limit": [0.0, float("inf")], "transformers_version": f"5.{step}"}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_text(json.dumps({"truncation": None, "merges": pairs}, indent=indent))
    dimred.merge(run, tmp_path / "merged")
    assert (tmp_path / "merged/tokenizer.json").exists()
    (run / "checkpoint-20/tokenizer.json").write_text(json.dumps({"truncation": 7, "merges": pairs}))
    line = fails(2, "merge", run, "--output", tmp_path / "other")
    assert "tokenizer.json" in line and "--allow_different_config" in line
