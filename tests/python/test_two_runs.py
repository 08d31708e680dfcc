"""Snapshots of two runs in one folder: commands that read them say so, or refuse them where a course is meant."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from cli import completed

import dimred


@pytest.fixture(scope="module")
def place(tmp_path_factory, execute) -> Path:
    """both/ has the snapshots of two runs whose validation parts differ, one behind the other; one/ those of run1."""
    folder = tmp_path_factory.mktemp("two_runs")
    for name, count in (("train", 32), ("test", 4)):
        (folder / "data" / name).mkdir(parents=True)
        images = np.random.default_rng(0).integers(0, 256, (count, 8, 8), np.uint8)
        np.save(folder / "data" / name / "images.npy", images)
        np.save(folder / "data" / name / "labels.npy", np.arange(count) % 2)
    torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))).save(folder / "net.pt")
    for name in ("one", "both"):
        (folder / name).mkdir()
    for seed in (1, 2):
        run = folder / f"run{seed}"
        execute("dimred", "stage1", *training(folder), f"--seed={seed}", f"--split_seed={seed}", "--output", run)
        for file in sorted((run / "snapshots").glob("*.h5")):
            name = f"snapshot_{100 * (seed - 1) + int(file.stem.split('_')[1]):08}.h5"
            shutil.copy(file, folder / "both" / name)
            if seed == 1:
                shutil.copy(file, folder / "one" / name)
    return folder


def network(folder: Path) -> list[str]:
    return [f"--data={folder}/data", f"--model={folder}/net.pt", "--threads=1"]


def training(folder: Path) -> list[str]:
    return [*network(folder), "--epochs=4", "--batch_size=8", "--validation_fraction=0.25"]


@pytest.mark.parametrize("command", ["evaluate", "export", "merge"])
def test_a_mean_says_whose_snapshots_it_is_of(command: str, place: Path, binaries: Path, tmp_path: Path) -> None:
    """Normalisations that differ with the validation parts leave no one network to export."""
    for name in ("one", "both"):
        words = [] if command == "merge" else network(place)
        if command != "evaluate":
            words += ["--output", str(tmp_path / name)]
        done = completed([binaries / "dimred", command, place / name, *words])
        text = done.stdout + done.stderr
        assert done.returncode == (2 if (command, name) == ("export", "both") else 0), text
        assert ("of 2 runs: 4 of run A" in text) == (name == "both"), text


def test_a_course_of_two_runs_is_refused(place: Path, execute, fails, tmp_path: Path) -> None:
    refused = "needs the snapshots of one run, received 4 of run A"
    output = ["--components=2", "--output", tmp_path / "p.npy"]
    assert refused in fails(2, "pca", place / "both", *output)
    assert refused in fails(2, "pca", f"{place}/both/*.h5", *output)
    assert refused in fails(2, "inspect", "--trajectory", place / "both")
    start = ["stage2", "--checkpoint", place / "run1", *training(place)[:-1], "--n_component=2", "--snapshots"]
    assert refused in fails(2, *start, place / "both", "--output", tmp_path / "stage2")
    execute("dimred", "pca", place / "one", *output)
    execute("dimred", *start, place / "one", "--output", tmp_path / "stage2")


def test_the_packages_mean_says_whose_snapshots_it_is_of(place: Path) -> None:
    """As merge does; what follows a course refuses them."""
    files = sorted((place / "both").glob("*.h5"))
    for source in (place / "both", files):
        with pytest.warns(UserWarning, match="of 2 runs: 4 of run A"):
            found = dimred.average(source, last=len(files))
        rows = [h5py.File(file)["weights"][:].astype(np.float64) for file in files]
        np.testing.assert_allclose(found.w, np.mean(rows, axis=0), rtol=0, atol=1e-7)
        with pytest.raises(ValueError, match="needs the snapshots of one run, received 4 of run A"):
            dimred.fit(source, 2)
