"""A bundle, moved to another place, runs there by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import driver_stub
import pytest
from cli import completed
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts" / "bundle"))
import archive
import make
import shared_libraries
import torch_libraries
from archive import IMAGES, PROGRAMS, Group, write_archive

BUNDLE = REPOSITORY / "scripts" / "bundle.sh"
TOOLS = ("strip", "readelf", "objdump", "ldd", "cmake")
pytestmark = pytest.mark.skipif(any(not shutil.which(tool) for tool in TOOLS), reason=f"needs {', '.join(TOOLS)}")


def made(binaries: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """bundle.sh, of the build under test."""
    given = os.environ | {"DIMRED_BUILD": str(binaries.parent), "DIMRED_PYTHON": sys.executable}
    return completed([BUNDLE, folder, "--no-archive", *options], env=given)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, binaries: Path) -> Path:
    """Without data, moved after it was made."""
    folder = tmp_path_factory.mktemp("bundle")
    done = made(binaries, folder / "made", "--no-data")
    assert done.returncode == 0, done.stderr
    return (folder / "made").rename(folder / "moved there")


def run(bundle: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Its launcher, in an environment that knows nothing."""
    given = {"PATH": "/usr/bin:/bin", "DIMRED_PYTHON": sys.executable} | more
    return completed([bundle / "run", *words], env=given)


def test_programs_of_a_moved_bundle_start(bundle: Path) -> None:
    assert run(bundle, "dimred", "--version").stdout.startswith("dimred ")
    done = run(bundle, "dimred", "inspect", "--model", "resnet20")  # which dimred-train does
    assert done.returncode == 0 and "conv1" in done.stdout, done.stderr


@driver_stub.needs_a_compiler
def test_its_cuda_library_loads_where_a_driver_is(bundle: Path, tmp_path: Path) -> None:
    driver_stub.make(tmp_path, 13000, driver_stub.NO_DEVICE)
    done = run(bundle, "cuda_test", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_libraries_come_from_the_bundle_from_torch_and_from_the_c_library(bundle: Path, monkeypatch) -> None:
    script = bundle / "python" / "scripts" / "bundle" / "torch_libraries.py"
    path = subprocess.run([sys.executable, script, bundle], capture_output=True, text=True, check=True).stdout.strip()
    torch = next(folder for folder in path.split(":") if folder.endswith("torch/lib"))
    nvidia = str(Path(torch).parents[1] / "nvidia")
    monkeypatch.setenv("LD_LIBRARY_PATH", path)
    found = shared_libraries.needed([*sorted((bundle / "bin").iterdir()), *(bundle / "lib").glob("libdimred_cuda.so")])
    own = [name for name, place in found.items() if place.is_relative_to(bundle)]
    assert "libdimred_pca.so" in own and any(name.startswith("libhdf5") for name in own)
    for name, place in found.items():
        if place.is_relative_to(bundle) or str(place).startswith((torch, nvidia)):
            continue
        assert shared_libraries.OF_THE_SYSTEM.fullmatch(name) or name in shared_libraries.OF_THE_COMPILER, (name, place)
    for file in [*(bundle / "bin").iterdir(), *(bundle / "lib").glob("*.so*")]:
        assert all(folder.startswith("$ORIGIN") for folder in shared_libraries.runpaths(file)), file


def test_what_it_needs_is_written_down_and_refused_elsewhere(bundle: Path, tmp_path: Path) -> None:
    report = json.loads((bundle / "bundle.json").read_text())
    assert report["torch"].startswith("2.") and float(report["glibc"]) >= 2.17
    assert {"dimred", "dimred-train", "device_algebra", "cuda_test", "stage2_test"} <= set(report["programs"])
    other = tmp_path / "other"
    shutil.copytree(bundle, other)
    (other / "bundle.json").write_text(json.dumps(report | {"torch": "1.0"}))
    done = run(other, "dimred", "--version")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "needs torch 1.0" in done.stderr


@pytest.mark.parametrize("text", ["{}\n", '{"torch": "2.'])
def test_an_unfinished_bundle_is_said_to_be_one(bundle: Path, tmp_path: Path, text: str) -> None:
    other = tmp_path / "other"
    shutil.copytree(bundle, other)
    (other / "bundle.json").write_text(text)
    done = run(other, "dimred", "--version")
    says = "the bundle is unfinished; make it again with scripts/bundle.sh"
    assert (done.returncode, done.stderr) == (1, f"{other}: {says}\n")
    given = {"PATH": "/usr/bin:/bin", "DIMRED_PYTHON": sys.executable}
    command = [other / "gpu_check.sh", "--device=cpu", "--output", tmp_path / "out"]
    done = completed(command, env=given)
    assert (done.returncode, done.stderr) == (1, f"{other}: {says}\n")


def test_an_unknown_program_and_a_python_without_torch_are_named(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, "dimredd")
    assert done.returncode == 2 and "received dimredd; the programs are: " in done.stderr and " dimred " in done.stderr
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # no site-packages
    (tmp_path / "python3").chmod(0o755)
    done = run(bundle, "dimred", "--version", DIMRED_PYTHON=str(tmp_path / "python3"))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "needs a Python with torch" in done.stderr


def test_the_check_runs_in_the_bundle(bundle: Path, tmp_path: Path) -> None:
    """It runs with torch and pytest alone; scripts/bundle_check.sh runs all parts of an archive so."""
    missing = ("numpy", "torchvision", "scipy", "sklearn", "pandas", "safetensors")
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules |= dict.fromkeys({missing})\n")
    given = {
        "PATH": "/usr/bin:/bin",
        "DIMRED_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(tmp_path),
    }
    command = [bundle / "gpu_check.sh", "--device=cpu", "--parts", *"acdeg", "--output", tmp_path / "out"]
    done = completed(command, env=given)
    report = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    found = {part["part"]: (part["result"], part["why"]) for part in report["parts"]}
    assert found == {
        "a": ("ok in part", "needs a CUDA device"),
        "c": ("not run", "needs a CUDA device"),
        "d": ("ok", ""),
        "e": ("ok", ""),
        "g": ("failed", "demo: needs Fashion-MNIST; set DIMRED_FASHION to its folder"),
    }, done.stderr
    passed = [test["test"] for test in report["parts"][0]["tests"] if test["outcome"] == "passed"]
    assert "test_programs.py::test_no_device_test_fails[cuda]" in passed


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, binaries: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = made(binaries, tmp_path, "--no-data")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and str(tmp_path) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_build_and_data_that_are_not_there_are_named(tmp_path: Path, binaries: Path) -> None:
    done = made(tmp_path / "bin", tmp_path / "out")
    assert done.returncode == 1 and done.stderr.startswith("bundle: needs a finished build, ")
    done = made(binaries, tmp_path / "out", "--fashion", str(tmp_path / "nowhere"))
    assert done.returncode == 1 and "--fashion needs a folder, " in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_archive_is_the_folder_in_streams_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    for name, text in (
        ("bin/program", b"\xe8\x00\x01\x02\x03" * 99),
        ("data/images", bytes(range(256)) * 40),
        ("run", b"#!/bin/sh\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    (folder / "run").chmod(0o755)
    files = [folder / "run", folder / "bin/program", folder / "data/images"]
    groups = [
        Group(file.name, [file], filters) for file, filters in zip(files, (PROGRAMS, PROGRAMS, IMAGES), strict=True)
    ]
    costs = write_archive(tmp_path / "one.tar.xz", folder, groups)
    content = (tmp_path / "one.tar.xz").read_bytes()
    assert list(costs) == ["run", "program", "images"]
    assert sum(costs.values()) == len(content)
    assert content.count(b"\xfd7zXZ\x00") == 2
    unpack = [sys.executable, "-m", "tarfile", "-e", tmp_path / "one.tar.xz", tmp_path / "there"]
    subprocess.run(unpack, check=True)  # as check_a_gpu.md says
    for file in files:
        copy = tmp_path / "there" / "one" / file.relative_to(folder)
        assert copy.read_bytes() == file.read_bytes() and copy.stat().st_mode == file.stat().st_mode


def names_in(path: Path) -> set[str]:
    """The names of an archive's files."""
    with tarfile.open(path) as tar:
        return set(tar.getnames())


def test_cifar10_has_an_archive_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    make.begin(folder)
    for name in """
        bin/dimred bin/stage2_test lib/libx.so python/check.py data/fashion/one data/cifar10/train.packed
    """.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 30)
    lines = make.archive(folder)
    assert [line.partition(":")[0] for line in lines] == [f"{folder}.tar.xz", f"{folder}-cifar10.tar.xz"]
    assert all(part in lines[0] for part in ("programs", "device tests", "libraries", "Fashion-MNIST"))
    assert "CIFAR-10" in lines[1]
    names = [names_in(tmp_path / f"bundle{name}.tar.xz") for name in ("", "-cifar10")]
    assert names[1] == {"bundle/data/cifar10/train.packed"}
    assert names[0] == {
        "bundle/bundle.json",
        *(
            f"bundle/{name}"
            for name in ("bin/dimred", "bin/stage2_test", "lib/libx.so", "python/check.py", "data/fashion/one")
        ),
    }
    make.begin(folder)
    assert [path.name for path in tmp_path.iterdir()] == [
        "bundle"
    ]  # a new bundle takes the archives of the earlier one along


def test_an_archive_that_is_too_large_or_stopped_is_not_there(tmp_path: Path, monkeypatch) -> None:
    folder, path = tmp_path / "one", tmp_path / "one.tar.xz"
    folder.mkdir()
    (folder / "bundle.json").write_text("{}")
    groups = [Group("all", [folder / "bundle.json"], PROGRAMS)]
    with pytest.raises(archive.TooLarge, match=f"^{path} needs at most 0 MB, received 0.0 MB$"):
        write_archive(path, folder, groups, 10)
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]

    def stopped(streams: archive.Streams) -> None:
        assert not path.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(archive.Streams, "end", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_archive(path, folder, groups)
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"torch": "2.99.0"}, "needs torch 2.99.0 for CUDA 13.0, "),
        ({"cuda": "99.0"}, "for CUDA 99.0, "),
        ({"glibc": "99.1"}, "needs glibc 99.1 or later, but this system has "),
    ],
)
def test_another_torch_or_system_is_refused(change: dict[str, str], says: str) -> None:
    folder = torch_libraries.torch_folder()
    version, cuda = torch_libraries.torch_version(folder)
    fits = {"torch": version, "cuda": cuda, "glibc": "2.17", "glibcxx": "3.4.9"}
    torch_libraries.require_fit(fits, folder)
    with pytest.raises(torch_libraries.Unfit, match=says):
        torch_libraries.require_fit(fits | change, folder)


def test_versions_compare_by_their_numbers() -> None:
    assert torch_libraries.version_of("3.4.30") > torch_libraries.version_of("3.4.9")
    assert torch_libraries.version_of(torch_libraries.newest_glibcxx()) > (3, 4)
