"""Outputs that a user names replace nothing but earlier ones, and printed text reaches no file of ours."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import compare
import numpy as np
import pytest
import report
from cli import completed
from conftest import PACKAGE, REPOSITORY
from fashion import fashion, few
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from run_folders import row, write_run

import dimred

SMALL = ["--train_samples=320", "--test_samples=40", "--epochs=1", "--threads=1", "--batch_size=64"]


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute: Callable[..., str]) -> Path:
    """A short run with four snapshots."""
    folder = tmp_path_factory.mktemp("outputs") / "run"
    execute("dimred", "stage1", *SMALL, f"--data={few()}", "--snapshots_per_epoch=4", "--output", folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """photos/CLASS/NAME.png."""
    folder = tmp_path_factory.mktemp("photos")
    for i, image in enumerate(fashion("test", 12)[0]):
        (folder / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(image[0].numpy().astype(np.uint8)).save(folder / "ab"[i % 2] / f"{i:02}.png")
    return folder


def state_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# ---- standard streams


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_the_place_of_a_closed_stream(closed: str, run: Path, dimred: Path, tmp_path: Path) -> None:
    """stage 1's .lock was the first file opened, pca's matrix another."""
    for command in (
        f"{dimred} stage1 {' '.join(SMALL)} --data={few()} --output run",
        f"{dimred} pca {run} --output p.npy",
        f"{dimred} inspect --schedule cosine --epochs 2 --csv rates.csv",
        f"{dimred} data convert {few()} --split test --output records",
    ):
        done = subprocess.run(["bash", "-c", f"{command} {closed}"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    assert b"images" not in (tmp_path / "run" / ".lock").read_bytes()  # the process, while it runs
    assert (tmp_path / "rates.csv").read_text().startswith("step,epoch,learning_rate\n0,0,")
    assert len((tmp_path / "rates.csv").read_text().splitlines()) == 201
    assert np.load(tmp_path / "p.npy").shape == (3, 93322)


# ---- one rule


def test_a_table_replaces_no_photograph(run: Path, photos: Path, tmp_path: Path, fails, execute) -> None:
    """`--csv photos/*.png`, with the table's name forgotten."""
    before = state_of(photos)
    files = sorted(photos.glob("a/*.png"))
    said = fails(2, "predict", run, "--csv", *files)
    assert f"{files[0]} exists already and is not an earlier table of dimred predict; choose another --csv" in said
    assert state_of(photos) == before
    table = tmp_path / "answers.csv"
    for _ in range(2):  # a rerun replaces its own
        execute("dimred", "predict", run, *files, "--csv", table)
    assert len(table.read_text().splitlines()) == 1 + 5 * len(files)
    assert "a part of the run" in fails(2, "predict", run, files[0], "--csv", run / "curve.csv")
    assert "a part of the run" in fails(2, "predict", run, files[0], "--csv", run / "snapshots" / "new.csv")


def test_a_preview_replaces_no_image(photos: Path, tmp_path: Path, fails, execute) -> None:
    copy = shutil.copytree(photos, tmp_path / "photos")
    words = ["data", "preview", copy, "--rows=2", "--columns=2", "--output"]
    image = copy / "a" / "00.png"
    before = image.read_bytes()
    assert "is not an earlier picture of dimred data preview" in fails(2, *words, image)
    assert image.read_bytes() == before
    for _ in range(2):
        execute("dimred", *words, tmp_path / "preview.png")
    assert Image.open(tmp_path / "preview.png").info["Software"] == "dimred data preview"
    mark = PngInfo()
    mark.add_text("Software", "dimred data preview")
    Image.open(image).save(copy / "a" / "preview.png", pnginfo=mark)  # a picture that is a sample now
    for name in ("preview.png", "new.png"):
        assert "needs an --output outside the data" in fails(2, *words, copy / "a" / name)
    assert not (copy / "a" / "new.png").exists()
    (tmp_path / "list.txt").write_text(f"{copy}/a/preview.png a\n{copy}/b/01.png b\n")
    words[2] = tmp_path / "list.txt"
    assert "is an input of this command" in fails(2, *words, copy / "a" / "preview.png")


def test_other_commands_have_the_same_rule(run: Path, tmp_path: Path, fails, execute) -> None:
    """Two siblings or more of each kind: tables, matrices, configurations, folders."""
    before = state_of(run)
    foreign = tmp_path / "notes.csv"
    foreign.write_text("my own\n")
    assert "is not an earlier table" in fails(2, "inspect", "--schedule", "cosine", "--csv", foreign)
    small = [word for word in SMALL if not word.startswith("--epochs")]
    finder = ["stage1", *small, f"--data={few()}", "--steps=20", "--find_learning_rate", foreign]
    assert "give --overwrite" in fails(2, *finder)
    assert foreign.read_text() == "my own\n"
    assert "a part of the run" in fails(2, "pca", run, "--output", run / "snapshots" / "p.npy", "--overwrite")
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(1).normal(size=(5, 60)).astype(np.float32))
    assert "is an input" in fails(2, "pca", rows, "--components=2", "--output", rows, "--overwrite")
    (tmp_path / "config.json").write_text("{}")
    for more in ([], ["--overwrite"]):  # an --overwrite would replace no other program's file
        refused = fails(2, "pca", rows, "--components=2", "--output", tmp_path / "config.npy", *more)
        assert "config.json', but this file exists" in refused and "give --overwrite" not in refused
    options = tmp_path / "options.txt"
    options.write_text("batch_size=32\n")
    assert "a part of the run" in fails(2, "import", options, "--output", run / "config.toml", "--overwrite")
    assert "a part of the run" in fails(2, "export", run, "--output", run / "checkpoints")
    assert "a part of the run" in fails(2, "data", "convert", few(), "--output", run / "snapshots" / "records")
    assert state_of(run) == before


def test_a_download_replaces_no_other_file(run: Path, photos: Path, tmp_path: Path, fails, execute) -> None:
    image = next(photos.glob("a/*.png"))
    curve = (run / "curve.csv").read_bytes()
    assert "a part of the run" in fails(2, "store", "get", image.as_uri(), run / "curve.csv")
    there = tmp_path / "there.png"
    there.write_bytes(b"mine")
    assert "exists already; choose another path or give --overwrite" in fails(2, "store", "get", image.as_uri(), there)
    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / image.name).write_bytes(b"mine")
    assert "exists already" in fails(2, "store", "get", photos.as_uri(), folder)
    assert state_of(folder) == {f"a/{image.name}": b"mine"}  # nothing was begun
    assert there.read_bytes() == b"mine" and (run / "curve.csv").read_bytes() == curve
    execute("dimred", "store", "get", photos.as_uri(), folder, "--overwrite")
    assert state_of(folder) == state_of(photos)


def test_no_copy_writes_into_a_run(run: Path, photos: Path, tmp_path: Path, fails, execute) -> None:
    """Folders as well as files; a copy of a whole run may be made again."""
    copy = shutil.copytree(run, tmp_path / "run")
    before = state_of(copy)
    foreign = tmp_path / "foreign"
    (foreign / "deep").mkdir(parents=True)
    for name in ("snapshot_00000001.h5", "curve.csv", "deep/a.txt"):
        (foreign / name).write_bytes(b"other")
    newest = sorted((copy / "checkpoints").glob("state_*"))[-1]
    for place in (
        copy / "snapshots",
        copy / "snapshots" / "new",
        newest,
        copy / "checkpoints" / "state_00000099",
        copy,
    ):
        for more in ([], ["--overwrite"]):
            said = fails(2, "store", "get", foreign.as_uri(), place, *more)
            assert "is a part of the run" in said, place
            assert state_of(copy) == before
    for place in (copy / "snapshots" / "new", copy / "checkpoints" / "state_00000099"):
        assert "is a part of the run" in fails(2, "store", "put", foreign, place.as_uri())
    for name in ("final.h5", "model.pt", "start.h5"):  # present or absent
        get = fails(2, "store", "get", (foreign / "curve.csv").as_uri(), copy / name, "--overwrite")
        put = fails(2, "store", "put", foreign / "curve.csv", (copy / name).as_uri(), "--overwrite")
        assert "is a part of the run" in get and "is a part of the run" in put
        assert "is a part of the run" in fails(2, "predict", run, next(photos.glob("a/*.png")), "--csv", copy / name)
    assert state_of(copy) == before
    execute("dimred", "store", "get", foreign.as_uri(), copy / "notes")  # no part of the run
    shutil.rmtree(copy / "notes")
    (copy / "curve.csv").write_text("cut")
    execute("dimred", "store", "get", run.as_uri(), copy, "--overwrite")  # the whole run once more
    assert state_of(copy) == before


def test_no_output_lies_within_another_run(run: Path, tmp_path: Path, fails) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    before = state_of(copy)
    snapshot = next((run / "snapshots").glob("*.h5"))
    for command in ("merge", "convert"):
        for place in ("snapshots/new", "checkpoints/new", "best/new"):
            for output in (copy / place, (copy / place).as_uri()):
                assert "is a part of the run" in fails(2, command, snapshot, "--output", output)
    assert "is a part of the run" in fails(2, "convert", snapshot, "--output", copy / "frozen.safetensors")
    words = ["stage1", *SMALL, f"--data={few()}", "--output", copy / "snapshots" / "new"]
    assert "is a part of the run" in fails(2, *words)
    assert state_of(copy) == before


def test_python_has_the_same_rule(run: Path, tmp_path: Path, capsys) -> None:
    basis = dimred.fit(run, components=2)
    for place, rule in (
        (run / "snapshots" / "p.npy", "a part of the run"),
        (tmp_path / "photo.npy", "is not an earlier matrix"),
    ):
        if place.parent == tmp_path:
            place.write_text("a photograph")
        with pytest.raises(ValueError, match=rule):
            basis.save(place)
        with pytest.raises(ValueError, match=rule):
            dimred.fit(run, components=2, output=place)
    assert (tmp_path / "photo.npy").read_text() == "a photograph"
    for _ in range(2):
        basis.save(tmp_path / "p.npy")
    for place, rule in ((run / "curve.csv", "a part of the run"), (tmp_path / "photo.npy", "is not an earlier page")):
        assert report.main([str(run), "--output", str(place)]) == 2
        assert rule in capsys.readouterr().err
    for _ in range(2):
        assert report.main([str(run), "--output", str(tmp_path / "page.html")]) == 0


def test_python_replaces_no_array_that_is_no_matrix_of_dimred(tmp_path: Path) -> None:
    """Every array of NumPy begins as a matrix does: the sidecar tells."""
    rows = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    basis = dimred.fit(rows, 2)

    def put(name: str) -> Path:
        np.save(tmp_path / name, np.ones((3, 3)))
        return tmp_path / name

    alone, beside, other = put("images.npy"), put("beside.npy"), tmp_path / "other.npy"
    beside.with_suffix(".json").write_text('{"a": 1}')
    own = tmp_path / "own.npy"
    basis.save(own)
    own.with_suffix(".json").unlink()
    basis.save(other)
    put("other.npy")  # a stranger's array, where the sidecar is still ours
    np.savez(tmp_path / "theirs.mean.npz", mean=np.ones(3))
    for place, rule in (
        (alone, r"cannot be recognised as an earlier matrix \(\.npy\) of dimred, because images.json is missing;"),
        (beside, r"beside.json exists already and is not an earlier sidecar of a matrix"),
        (own, r"cannot be recognised as an earlier matrix \(\.npy\) of dimred, because own.json is missing;"),
        (other, r"an earlier matrix \(\.npy\) of dimred, because other.json describes another matrix;"),
    ):
        before = state_of(tmp_path)
        with pytest.raises(ValueError, match=f"{rule}.*choose another path"):
            basis.save(place)
        with pytest.raises(ValueError, match=f"{rule}.*choose another output"):
            dimred.fit(rows, 2, output=place)
        assert state_of(tmp_path) == before
    with pytest.raises(ValueError, match=r"theirs.mean.npz' exists already and is not the mean of an earlier matrix"):
        basis.save(tmp_path / "theirs.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "theirs.mean.npz")["mean"], np.ones(3))
    assert not (tmp_path / "theirs.npy").exists()
    own.unlink()  # as the message says
    basis.save(own)
    basis.save(own)
    assert dimred.Basis.load(own) == basis


SAVES = """
import sys
import numpy as np
import dimred
basis = dimred.fit(np.random.default_rng(int(sys.argv[2])).normal(size=(6, 9)).astype(np.float32), 2)
basis.save(sys.argv[1])
"""


def test_python_saves_a_matrix_durably(binaries: Path, tmp_path: Path) -> None:
    """Each file is synced before it gets its name, and the folder behind each name. A save whose sync or rename fails
    leaves the earlier matrix whole."""
    folder, log = tmp_path / "there", tmp_path / "log"
    folder.mkdir()

    def save(action: str, number: int) -> subprocess.CompletedProcess[str]:
        log.unlink(missing_ok=True)
        fault = f"under={folder},kind=sync+rename,number={number},action={action}"
        environment = os.environ | {
            "LD_PRELOAD": str(binaries.parent / "lib" / "libfault_shim.so"),
            "DIMRED_FAULT": fault,
            "DIMRED_FAULT_LOG": str(log),
            "PYTHONPATH": str(PACKAGE),
        }
        command = [sys.executable, "-c", SAVES, folder / "p.npy", str(number)]
        return completed(command, env=environment)

    done = save("count", 0)
    assert done.returncode == 0, done.stderr
    calls = [tuple(line.split(" ")[1:]) for line in log.read_text().splitlines()]
    names = ("p.npy", "p.json", "p.mean.npz")
    expected = [("sync", f"{name}.tmp") for name in names]  # before any is replaced
    for name in names:
        expected += [("sync", f"{name}.tmp"), ("rename", name), ("sync", "")]  # "": the folder
    assert calls == expected
    before = state_of(folder)
    for number in range(1, len(calls) + 1):
        done = save("errno:5", number)
        assert done.returncode == 1 and "Input/output error" in done.stderr, (number, done.stderr)
        assert state_of(folder) == before, number
    assert save("count", 99).returncode == 0
    assert state_of(folder) != before and set(state_of(folder)) == set(names)


def test_a_matrix_has_one_writer_in_python(tmp_path: Path) -> None:
    basis = dimred.fit(np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32), 2)
    basis.save(tmp_path / "p.npy")
    before = state_of(tmp_path)
    first = dimred._core.AtomicFile(tmp_path / "p.npy")
    with pytest.raises(OSError, match=r"p\.npy"):
        basis.save(tmp_path / "p.npy")
    del first
    assert state_of(tmp_path) == before
    basis.save(tmp_path / "p.npy")


def test_python_replaces_no_input_and_its_own_earlier_matrix(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(6, 9)).astype(np.float32)
    for name, dtype in (("single.npy", np.float32), ("half.npy", np.float16)):
        np.save(tmp_path / name, rows.astype(dtype))
        with pytest.raises(ValueError, match=f"{name} is an input of this command; choose another output"):
            dimred.fit(tmp_path / name, 2, output=tmp_path / name)
        assert np.load(tmp_path / name).dtype == dtype
    (tmp_path / "p.npy").touch()  # holds nothing to lose
    for k in (2, 3):
        dimred.fit(rows, k, output=tmp_path / "p.npy")
        assert len(dimred.Basis.load(tmp_path / "p.npy")) == k
        dimred.fit(rows, k + 1).save(tmp_path / "p.npy")
        assert len(dimred.Basis.load(tmp_path / "p.npy")) == k + 1


@pytest.mark.parametrize("closing", ["2>&-", "sys.stderr.close()", "os.close(2)"])
def test_a_fit_needs_no_standard_error(closing: str, tmp_path: Path) -> None:
    """A daemon has none: sys.stderr is None. The line of the progress goes nowhere else then."""
    by_shell = closing == "2>&-"
    few_warn = by_shell  # Python's own warnings fail on a closed file, or are written at the exit
    program = f"""
import os, sys, numpy, dimred
{"" if by_shell else closing}
rows = numpy.random.default_rng(0).normal(size=(6, 9))
for progress in (None, True, lambda part: None):
    basis = dimred.fit(rows, {"dimred._fit.DEFAULT" if few_warn else 5}, output="p.npy", progress=progress)
dimred._fit._show("a line of the progress")
print(len(basis), dimred.average(rows).w.shape)
"""
    (tmp_path / "program.py").write_text(program)
    words = f"exec {sys.executable} program.py {closing if by_shell else ''}"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": ""}
    done = completed(["bash", "-c", words], env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5 (9,)\n"), done.stderr
    assert len(dimred.Basis.load(tmp_path / "p.npy")) == 5


def test_a_second_writer_of_a_basis_is_refused(run: Path, tmp_path: Path) -> None:
    """Both wrote NAME.tmp, and either could publish the other's half."""
    from dimred import _core

    basis = dimred.fit(run, components=2)
    first = _core.AtomicFile(tmp_path / "p.npy")
    with pytest.raises(OSError, match="being written by another program or thread"):
        basis.save(tmp_path / "p.npy")
    del first
    basis.save(tmp_path / "p.npy")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.json", "p.mean.npz", "p.npy"]


# ---- weights alone


def test_the_weights_of_an_export_have_its_signature(run: Path, photos: Path, tmp_path: Path, execute) -> None:
    """A file elsewhere takes the default data's normalisation, and a line says so."""
    copy = shutil.copytree(run, tmp_path / "run")
    signature = copy / "export" / "1" / "signature.json"
    execute("dimred", "export", copy)
    image = next(photos.glob("a/*.png"))
    answer = execute("dimred", "predict", signature.parent, image)
    assert execute("dimred", "predict", signature.parent / "weights.safetensors", image) == answer
    alone = shutil.copy(signature.parent / "weights.safetensors", tmp_path)
    line = f"no run folder records the training data of {alone}, so normalisation, classes and samples come from the "
    line += "default data"
    assert line in execute("dimred", "predict", alone, image)
    assert line in execute("dimred", "evaluate", alone, "--test_samples=20", "--threads=1")
    line = "so classes and samples come from the default data"  # the normalisation is the signature's
    file = signature.parent / "weights.safetensors"
    assert line in execute("dimred", "evaluate", file, "--test_samples=20", "--threads=1")
    words = ("evaluate", alone, f"--data={few()}", "--test_samples=20")
    assert "no run folder records the training data" not in execute("dimred", *words)
    assert "no run folder records" not in execute("dimred", "predict", run, image)


# ---- a newcomer's ways


def test_help_of_a_subcommand(execute) -> None:
    assert execute("dimred", "help", "pca") == execute("dimred", "pca", "--help")
    assert execute("dimred", "help", "data", "convert") == execute("dimred", "data", "convert", "--help")


def test_a_report_of_a_folder_of_runs(tmp_path: Path, capsys) -> None:
    for seed in (1, 2):
        data = f"subset of 576 samples, indices xxh3 {seed:032x}, of label noise on 3 of 640 samples, seed {seed}, of x"
        write_run(tmp_path / "runs" / f"seed{seed}", [row(1, 0.5)], seed=seed, train_data=data)
    assert report.main([str(tmp_path / "runs"), "--output", str(tmp_path / "x.html")]) == 0
    said = capsys.readouterr().out
    assert "seed1" in said and "seed2" in said
    assert "do not compare" not in said  # what a seed chooses is no other data
    other = "subset of 570 samples, indices xxh3 0, of label noise on 3 of 640 samples, seed 1, of x"
    write_run(tmp_path / "runs" / "other", [row(1, 0.5)], seed=3, train_data=other)
    assert report.main([str(tmp_path / "runs"), "--output", str(tmp_path / "x.html")]) == 0
    assert "different training data" in capsys.readouterr().out


@pytest.mark.parametrize("script", ["first_run", "recipe_seeds", "rank_scaling", "trajectory_figure"])
def test_an_experiment_replaces_no_other_file(script: str, tmp_path: Path, monkeypatch, capsys) -> None:
    place = tmp_path / ("x.svg" if script == "trajectory_figure" else "results.csv")
    place.write_text("somebody's own")
    output = place if script == "trajectory_figure" else tmp_path
    words = {"first_run": ["a=default"], "trajectory_figure": ["nowhere"]}.get(script, [])
    monkeypatch.setattr(sys, "argv", [script, *words, "--output", str(output)])
    with pytest.raises(SystemExit) as ended:
        sys.exit(importlib.import_module(script).main())
    assert ended.value.code in (1, 2)
    assert f"{place} exists already and is not an earlier" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [place]


def test_a_report_has_each_run_once(tmp_path: Path, capsys) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / "runs" / name, [row(1, 0.5)])
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "one")
    words = [str(tmp_path / "runs"), str(tmp_path / "runs" / "one"), str(tmp_path / "link")]
    assert report.main([*words, "--output", str(tmp_path / "x.html")]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:4]] == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"phase,folder\n\xff,one\n"])
def test_a_report_names_a_table_that_is_none(content: bytes, tmp_path: Path, capsys) -> None:
    write_run(tmp_path / "runs" / "one", [row(1, 0.5)])
    (tmp_path / "runs" / "results.csv").write_bytes(content)
    assert report.main([str(tmp_path / "runs"), "--output", str(tmp_path / "x.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}/runs/results.csv " in line


IDX = "idx {}/train-images-idx3-ubyte, 640 images of 28 x 28, 10 classes, xxh3 images {:032x} labels {:032x}"
SAME = {
    "held out by a seed": [
        f"subset of 576 samples, indices xxh3 {i:032x}, of {IDX.format('/d', 1, 2)}" for i in (1, 2)
    ],
    "noise by a seed": [f"label noise on 3 of 640 samples, seed {i}, of {IDX.format('/d', 1, 2)}" for i in (1, 2)],
    "moved": [IDX.format(place, 1, 2) for place in ("/d", "/home/a, b/d, 3 copies")],
    "moved folder": [
        f"folder {p}, 12 images, 2 classes, 0 other files ignored, xxh3 of paths {1:032x}" for p in ("/a", "/b")
    ],
}
OTHER = {
    "pixels": [IDX.format("/d", i, 2) for i in (1, 3)],
    "labels": [IDX.format("/d", 1, i) for i in (2, 3)],
    "held out": [f"subset of {n} samples, indices xxh3 {1:032x}, of {IDX.format('/d', 1, 2)}" for n in (576, 570)],
    "place without a digest": [f"mock {place}, 12 images" for place in ("/a", "/b")],
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_a_report_warns_of_other_data_alone(name: str, tmp_path: Path) -> None:
    from workbench.summary import mixed

    from dimred.runs import read_runs

    for number, data in enumerate((SAME | OTHER)[name]):
        write_run(tmp_path / str(number), [row(1, 0.5)], seed=number, train_data=data, test_data=data)
    warnings = mixed(read_runs([tmp_path / "0", tmp_path / "1"]))
    assert len(warnings) == (0 if name in SAME else 2), warnings


def test_words_are_looked_at_before_a_download(tmp_path: Path) -> None:
    """Without .venv-tensorflow: pip is not there either."""
    copy = tmp_path / "clone"
    for name in ("scripts/slim_checkpoint.sh", "experiments/slim_checkpoint.py", "requirements/tensorflow.txt"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, copy / name)
    script = copy / "scripts" / "slim_checkpoint.sh"
    for words, rule in (([], "needs CKPT OUT"), (["none.ckpt", "out.safetensors"], "the checkpoint does not exist")):
        done = completed([script, *words], cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert rule in done.stderr
    assert not (copy / ".venv-tensorflow").exists()


def clone_of_scripts(folder: Path) -> Path:
    """A clone whose .venv has a Python that notes what it is asked for, and installs nothing."""
    for name in ("scripts", "requirements"):
        shutil.copytree(REPOSITORY / name, folder / name)
    for name in ("experiments", "python"):
        (folder / name).symlink_to(REPOSITORY / name)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\n[ "$2" = pip ] || exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["compare.sh", "--engine", "dask"], "the following arguments are required: CONFIG"),
        (["compare.sh", "none.toml", "--engine=slurm", "--jobs=2"], "none.toml"),
        (["notebooks.sh", "none"], "needs a folder of runs, received none;"),
        (["docs.sh", "--serv"], "unknown option --serv"),
        (["setup.sh", "--test"], "needs at most one of --no-build, --tests, --benchmarks and --lint, received --test"),
        (["demo.sh", "--help"], "takes one folder for the runs, received --help"),
        (["benchmark.sh", "--larg"], "takes --large or --peer mindspore, received --larg"),
    ],
)
def test_other_scripts_look_at_their_words_before_they_install(words: list[str], rule: str, tmp_path: Path) -> None:
    clone = clone_of_scripts(tmp_path / "clone")
    command = [clone / "scripts" / words[0], *words[1:]]
    done = completed(command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert rule in done.stderr
    asked = clone / "asked"
    assert "pip" not in (asked.read_text() if asked.exists() else "")
    assert not any((clone / name).exists() for name in ("build", "runs", ".venv-notebooks"))


@pytest.mark.parametrize(
    "words",
    [
        ["run_stage_1.sh", "default"],
        ["run_stage_2.sh", "default", "run"],
        ["compare.sh", "x.toml"],
        ["export.sh", "run"],
        ["recipe.sh", "x.toml"],
        ["faults.sh"],
        ["hostile.sh", "--short"],
        ["newcomer.sh"],
        ["cluster_test.sh"],
        ["shared_folder_test.sh"],
        ["models_check.sh"],
        ["bundle.sh"],
    ],
    ids=lambda words: words[0],
)
def test_scripts_without_a_build_say_what_to_run(words: list[str], tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "scripts", tmp_path / "scripts")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DIMRED_")}
    command = [tmp_path / "scripts" / words[0], *words[1:]]
    done = completed(command, env=environment, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(words[0].removesuffix(".sh") + ": needs ")
    assert done.stderr.endswith("; run scripts/setup.sh, then the same command again\n")


def test_lint_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(REPOSITORY / "scripts" / "lint.sh", tmp_path / "scripts")
    done = completed([script])
    assert (done.returncode, done.stderr) == (
        2,
        "lint: needs a build of the tests; run scripts/setup.sh --tests, then scripts/lint.sh again\n",
    )


def test_a_model_is_made_by_the_clones_python(tmp_path: Path, binaries: Path) -> None:
    """build/bin/dimred finds .venv/bin/python of its clone."""
    (tmp_path / "build" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(binaries / "dimred", tmp_path / "build" / "bin")
    (tmp_path / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho "the clone\'s" >&2\nexit 3\n')
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    command = [tmp_path / "build" / "bin" / "dimred", "model", "overfeat"]
    environment = {name: value for name, value in os.environ.items() if name != "DIMRED_PYTHON"}
    done = completed(command, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "dimred model: error: [model] the clone's\n")


def test_data_inspect_shows_where_it_is(photos: Path, tmp_path: Path, dimred: Path) -> None:
    """On a terminal, long before a thousand samples are read."""
    data = tmp_path / "data"
    for name in "ab":
        (data / name).mkdir(parents=True)
        for i in range(60):
            shutil.copy(next(photos.glob("a/*.png")), data / name / f"{i}.png")
    for words, place in (
        (f"inspect {data} --threads 1", "32/120"),
        (f"pack {data} {tmp_path}/packed", "/120"),
        (f"convert {data} --to base64 --output {tmp_path}/records", "/120"),
    ):
        command = ["script", "-qec", f"{dimred} data {words}", "/dev/null"]
        shown = subprocess.run(
            command, capture_output=True, text=True, check=True, env=os.environ | {"TERM": "xterm"}
        ).stdout
        assert place in shown, words


def test_what_a_dry_run_says(tmp_path: Path, binaries: Path, capsys) -> None:
    """No two jobs have one name; the time is told by those that have run."""
    words = ["--dry_run", "--jobs=2", "--output", str(tmp_path), "--dimred", str(binaries / "dimred")]
    config = REPOSITORY / "experiments" / "comparisons"
    for name in ("fashion", "precision"):
        assert compare.main([str(config / f"{name}.toml"), *words]) == 0
        *jobs, last = capsys.readouterr().out.splitlines()
        assert len(set(jobs)) == len(jobs)
        assert last == f"{len(jobs)} of {len(jobs)} jobs to run, 2 at a time; time known once a job has run here"
    (tmp_path / "journal.jsonl").write_text(
        json.dumps({"target": str(tmp_path / "x"), "kind": "stage1", "seconds": 60.0}) + "\n"
    )
    assert compare.main([str(config / "precision.toml"), *words]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "time about" in last and f"{len(jobs)} of" in last
