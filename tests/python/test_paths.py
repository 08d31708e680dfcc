"""docs/reference/paths.md: each kind of path, in every command and in Python, means what the page's table says; runs of
an earlier revision go on meaning what they meant."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from cli import completed
from conftest import REPOSITORY
from safetensors.torch import save_file

import dimred

PAGE = (REPOSITORY / "docs/reference/paths.md").read_text()
COLUMNS = ("evaluate", "--initialize_from", "convert", "merge", "pca")
ROWS = {
    cells[0]: dict(zip(COLUMNS, cells[1:], strict=True))
    for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.split("## Meanings")[1].split("\n## ")[0].splitlines()
        if line.startswith("| ") and "`evaluate`" not in line
    )
}
EARLIER = REPOSITORY / "tests/earlier/revision_8b694755.tar.gz"


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    """What 8b694755 made: run (finished), half (stopped after 2 of 4 epochs), boost, merged, export, pca_mat.npy."""
    folder = tmp_path_factory.mktemp("earlier")
    subprocess.run([sys.executable, "-m", "tarfile", "-e", EARLIER, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def paths(ours: Path, tmp_path_factory) -> dict[str, str]:
    """A path of each kind; all hold weights of the same network."""
    folder = tmp_path_factory.mktemp("paths")
    weight, bias = torch.ones(2, 16), torch.tensor([0.0, 1.0])
    for step in (9, 10):
        (folder / f"series/step{step}").mkdir(parents=True)
        save_file({"1.weight": weight * step, "1.bias": bias}, folder / f"series/step{step}/model.safetensors")
    shutil.copy(folder / "series/step9/model.safetensors", folder / "w.safetensors")
    shutil.copy(folder / "w.safetensors", folder / "rank_1.safetensors")
    (folder / "shards").mkdir()
    places = {}
    for i, (name, value) in enumerate({"1.weight": weight, "1.bias": bias}.items()):
        save_file({name: value}, folder / f"shards/w-{i}.safetensors")
        places[name] = f'"{name}": "w-{i}.safetensors"'
    (folder / "shards/w.safetensors.index.json").write_text(f'{{"weight_map": {{{", ".join(places.values())}}}}}')
    (folder / "list.txt").write_text("# two\nseries/step9\nseries/step10\n")
    np.save(folder / "m.npy", np.random.default_rng(0).standard_normal((5, 34)).astype(np.float32))
    return {
        "run": str(ours / "run"),
        "state": str(ours / "run/checkpoints/state_00000008"),
        "snapshot": str(ours / "run/snapshots/snapshot_00000008.h5"),
        "weight file": str(folder / "w.safetensors"),
        "checkpoint folder": str(folder / "series/step9"),
        "index": str(folder / "shards/w.safetensors.index.json"),
        "part": str(folder / "rank_1.safetensors"),
        "series": str(folder / "series"),
        "list": str(folder / "list.txt"),
        "pattern": str(folder / "series/step*"),
        "matrix": str(folder / "m.npy"),
    }


@pytest.fixture()
def said(binaries: Path, ours: Path, tmp_path: Path):
    """Runs dimred with words and returns (exit code, what it printed)."""

    def run(*words: str | Path) -> tuple[int, str]:
        done = completed([binaries / "dimred", *words], env=dict(os.environ, OMP_NUM_THREADS="1"), cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    return run


def network(ours: Path) -> list[str]:
    return ["--data", str(ours / "d"), "--model", str(ours / "net.pt"), "--threads", "1"]


def test_every_kind_has_a_row(paths) -> None:
    assert list(ROWS) == list(paths)


@pytest.mark.parametrize("kind", ROWS)
def test_as_one_set_of_weights(kind: str, paths, ours: Path, said) -> None:
    meaning = ROWS[kind]["evaluate"]
    code, text = said("evaluate", paths[kind], *network(ours))
    if meaning == "refused":
        assert code == 2, text
        assert Path(paths[kind]).name in text
        return
    assert code == 0, text
    assert ("mean of 2" in text) == (meaning == "mean"), text
    assert ("state of" in text) == (kind in ("run", "state")), text


@pytest.mark.parametrize("kind", ["run", "checkpoint folder", "series", "part", "matrix"])
def test_as_the_start_of_a_run(kind: str, paths, ours: Path, said, tmp_path: Path) -> None:
    meaning = ROWS[kind]["--initialize_from"]
    words = ["stage1", "--initialize_from", paths[kind], *network(ours), "--epochs", "1", "--batch_size", "8"]
    code, text = said(*words, "--output", tmp_path / "run")
    assert code == (2 if meaning == "refused" else 0), text
    assert ("newest of 2" in text) == (meaning == "newest"), text


@pytest.mark.parametrize("kind", ["checkpoint folder", "series"])
def test_as_what_is_exported(kind: str, paths, ours: Path, said, tmp_path: Path) -> None:
    code, text = said("export", paths[kind], *network(ours), "--output", tmp_path / "out")
    assert code == 0, text
    value = safetensors.torch.load_file(tmp_path / "out/1/weights.safetensors")["1.weight"][0, 0]
    assert value == {"checkpoint folder": 9, "series": 9.5}[kind]


@pytest.mark.parametrize("kind", ROWS)
def test_as_what_is_converted(kind: str, paths, said, tmp_path: Path) -> None:
    code, text = said("convert", paths[kind], "--output", tmp_path / "out.safetensors")
    assert code == (2 if ROWS[kind]["convert"] == "refused" else 0), text
    if kind in ("series", "list", "pattern"):
        assert "step10" in text and "dimred merge" in text


COUNTS = {"itself": 1, "members": 2, "snapshots": 4, "rows": 5}


@pytest.mark.parametrize("kind", ROWS)
def test_as_several_in_a_merge(kind: str, paths, said, tmp_path: Path) -> None:
    meaning = ROWS[kind]["merge"]
    code, text = said("merge", paths[kind], "--output", tmp_path / "m")
    if meaning == "refused":
        assert code == 2, text
        assert not (tmp_path / "m").exists()
        return
    assert code == 0, text
    assert f"mean of {COUNTS[meaning]} checkpoint" in text


@pytest.mark.parametrize("kind", ROWS)
def test_as_several_in_python_and_in_a_pca(kind: str, paths, said, tmp_path: Path) -> None:
    meaning = ROWS[kind]["pca"]
    code, text = said("pca", paths[kind], "--kind", "span", "--output", tmp_path / "p.npy")
    if meaning == "refused":
        assert code == 2, text
        with pytest.raises((ValueError, FileNotFoundError)):
            dimred.average(paths[kind])
        return
    assert code == 0, text
    count = COUNTS[meaning]
    assert re.search(rf"\b{count} (snapshot|x)", text) or f"{count} x " in text, text
    assert len(dimred.fit(paths[kind], components=1, kind="span").snapshots) == count


def test_a_trajectory_takes_what_a_pca_takes(paths, said) -> None:
    code, text = said("inspect", "--trajectory", paths["run"])
    assert code == 0, text
    assert said("inspect", "--trajectory", paths["matrix"])[0] == 0
    code, text = said("inspect", "--trajectory", paths["part"])
    assert code == 2
    assert "part of a checkpoint" in text


def test_stage_2_starts_from_what_evaluate_takes(paths, ours: Path, said, tmp_path: Path) -> None:
    words = [*network(ours), "--batch_size", "8", "--epochs", "0", "--n_component", "2"]
    for kind in ("run", "checkpoint folder"):
        code, text = said(
            "stage2", "--checkpoint", paths[kind], "--snapshots", paths["run"], *words, "--output", tmp_path / kind
        )
        assert code == 0, text


def test_earlier_runs_are_read_bit_for_bit(ours: Path, said, tmp_path: Path) -> None:
    assert said("pca", ours / "run", "--components", "2", "--output", tmp_path / "p.npy")[0] == 0
    assert (tmp_path / "p.npy").read_bytes() == (ours / "pca_mat.npy").read_bytes()
    assert said("merge", ours / "run/snapshots", "--output", tmp_path / "m")[0] == 0
    assert (tmp_path / "m/model.safetensors").read_bytes() == (ours / "merged/model.safetensors").read_bytes()
    for whole in ("run", "boost", "merged/merge.json", "pca_mat.npy", "export/1"):
        code, text = said("inspect", ours / whole)
        assert code == 0, text
    code, text = said("evaluate", ours / "run", "--data", ours / "d")
    assert code == 0, text
    assert "0.5483" in text


def require_repeated(again: Path, earlier: Path, state: str) -> None:
    """Requires the same bits where the processor is the earlier run's; another one rounds other sums."""
    weights = [run / "checkpoints" / state / "weights.f32" for run in (again, earlier)]
    np.testing.assert_allclose(*[np.fromfile(file, np.float32) for file in weights], rtol=1e-4, atol=1e-6)
    processors = {json.loads((run / "manifest.json").read_text())["processor"] for run in (again, earlier)}
    if len(processors) == 1:
        assert weights[0].read_bytes() == weights[1].read_bytes()


def test_earlier_runs_are_resumed_and_repeated_bit_for_bit(ours: Path, said, tmp_path: Path) -> None:
    words = [*network(ours), "--batch_size", "8", "--epochs", "4", "--total_epochs", "4"]
    code, text = said("stage1", "--resume_from", ours / "half", *words, "--output", tmp_path / "gone_on")
    assert code == 0, text
    require_repeated(tmp_path / "gone_on", ours / "run", "state_00000008")
    code, text = said("stage1", "--config", ours / "run/config.toml", *network(ours), "--output", tmp_path / "again")
    assert code == 0, text
    require_repeated(tmp_path / "again", ours / "run", "state_00000008")
    assert "label_noise: dimred no longer has this option; the old default has no effect" in text


LEFT = {
    "label_noise = 0.0": ("label_noise = 0.2", "dimred no longer has this option, received 0.2"),
    'train_on = "train"': ('train_on = "validation"', "dimred no longer has this option, received validation"),
    'start = "last"': ('start = "soup"', "dimred no longer has the choice soup"),
}


def second_stage(ours: Path, config: Path, output: Path) -> list[str | Path]:
    """Words that repeat 8b694755's run of stage 2 with this configuration."""
    earlier = ["--checkpoint", ours / "run", "--snapshots", ours / "run/snapshots", "--pca_mat", ours / "pca_mat.npy"]
    return ["stage2", "--config", config, *network(ours), *earlier, "--output", output]


def test_an_earlier_second_stage_is_repeated_bit_for_bit(ours: Path, said, tmp_path: Path) -> None:
    code, text = said(*second_stage(ours, ours / "boost/config.toml", tmp_path / "again"))
    assert code == 0, text
    require_repeated(tmp_path / "again", ours / "boost", "state_00000001")
    for name in ("label_noise", "train_on"):
        assert f"{name}: dimred no longer has this option; the old default has no effect" in text


@pytest.mark.parametrize("line", LEFT)
def test_what_left_is_refused_at_another_value(line: str, ours: Path, said, tmp_path: Path) -> None:
    """It names the last revision that has it, and begins nothing."""
    changed, complaint = LEFT[line]
    earlier = (ours / "boost/config.toml").read_text()
    assert f"\n{line}\n" in earlier
    (tmp_path / "changed.toml").write_text(earlier.replace(f"\n{line}\n", f"\n{changed}\n"))
    code, text = said(*second_stage(ours, tmp_path / "changed.toml", tmp_path / "run"))
    assert code == 2, text
    what = "choice" if "the choice" in complaint else "option"
    assert f"{changed.split()[0]}: {complaint}; the last revision with this {what} is 8b694755" in text
    assert not (tmp_path / "run").exists()
