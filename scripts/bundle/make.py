"""Makes a bundle; scripts/bundle.sh explains the options."""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "experiments" / "benchmarks" / "gpu"))

from archive import IMAGES, PROGRAMS, Group, TooLarge, write_archive  # noqa: E402
from programs import DEVICE_TESTS, FASHION  # noqa: E402
from shared_libraries import OF_THE_COMPILER, Unusable, needed, newest, output_of, private, runpaths  # noqa: E402
from torch_libraries import Unfit, library_folders, torch_folder, torch_version  # noqa: E402

HERE = Path(__file__).resolve().parent
OURS = ("dimred", "dimred-train", "device_algebra")
# The part of our Python that runs there, below python/ as it lies here.
PYTHON = (
    "experiments/benchmarks/gpu/*.py",
    "tests/device/*.py",
    "scripts/bundle/torch_libraries.py",
    "experiments/dimred_twins/*.py",
    "experiments/recipes/fashion_demo.toml",
    "experiments/recipes/fashion_stage2.toml",
)
STARTED = ("gpu_check.sh",)
PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")  # pytest and what it needs
IDX = [f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]
MOST = 48_000_000  # bytes of the archive without CIFAR-10, which has one of its own


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bundle.sh", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=REPOSITORY / "runs" / "bundle")
    parser.add_argument("--fashion", type=Path, default=FASHION)
    parser.add_argument("--cifar10", type=Path)
    parser.add_argument("--no-data", action="store_true")
    parser.add_argument("--no-archive", action="store_true")
    return parser.parse_args(arguments)


def build_folder() -> Path:
    """Raises Unusable where no build with tests is."""
    build = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build")).resolve()
    programs_of(build)
    return build


def programs_of(build: Path) -> list[Path]:
    """The programs, and the tests of rooms that have some for a device."""
    programs = [build / "bin" / name for name in (*OURS, *(f"{room}_test" for room in DEVICE_TESTS))]
    if missing := [program.name for program in programs if not program.is_file()]:
        raise Unusable(
            f"needs a finished build, but {build / 'bin'} has no {', '.join(missing)}; run scripts/setup.sh --tests"
        )
    return programs


def begin(folder: Path) -> None:
    """An empty folder, without the archive of an earlier bundle. Raises Unusable where something else than a bundle
    lies there."""
    earlier = (folder / "bundle.json").is_file()
    if folder.exists() and any(folder.iterdir()) and not earlier:
        raise Unusable(f"needs a new folder, an empty folder or an earlier bundle, received {folder}")
    if earlier:
        for name in ("", "-cifar10"):
            archive_of(folder, name).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "data", "python"):
        (folder / name).mkdir(parents=True)
    (folder / "bundle.json").write_text("{}\n")  # an unfinished bundle, which can be replaced


def take(file: Path, folder: Path, name: str = "") -> Path:
    """A copy without debugging symbols, whose libraries lie in ../lib."""
    copy = folder / (name or file.name)
    shutil.copy(file, copy, follow_symlinks=True)
    copy.chmod(0o755)
    output_of("strip", "--strip-unneeded", copy)
    if runpaths(copy):
        output_of("cmake", f"-DFILE={copy}", "-P", HERE / "set_runpath.cmake")
    strange = [path for path in runpaths(copy) if not path.startswith("$ORIGIN")]
    if strange:
        raise Unusable(f"{copy} still looks for libraries in {strange[0]}")
    return copy


def add_programs(build: Path, folder: Path, torch_folders: Iterable[Path]) -> None:
    """bin/, and in lib/ what they need; the compiler's own libraries in lib/libstdc++/."""
    programs = programs_of(build)
    loaded = [path for path in [build / "lib" / "libdimred_cuda.so"] if path.is_file()]  # cuda/cuda.h
    libraries = needed([*programs, *loaded]) | {path.name: path for path in loaded}
    for program in programs:
        take(program, folder / "bin")
    for name, path in private(libraries, torch_folders).items():
        take(path, folder / "lib", name)
    (folder / "lib" / "libstdc++").mkdir()
    for name in OF_THE_COMPILER:
        if name in libraries:
            take(libraries[name], folder / "lib" / "libstdc++", name)


def sources_of(options: argparse.Namespace) -> dict[str, Path]:
    """Data sets that are asked for. Raises Unusable where one is not there."""
    asked = {} if options.no_data else {"fashion": options.fashion, "cifar10": options.cifar10}
    found = {name: source.resolve() for name, source in asked.items() if source}
    for name, source in found.items():
        if not source.exists():
            raise Unusable(f"--{name} needs a folder, received {source}, which does not exist")
    return found


def inflate(source: Path, folder: Path) -> bool:
    """Fashion-MNIST's IDX files as they are, not compressed by themselves; False where source has none."""
    files = (
        [file for file in sorted(source.iterdir()) if file.name.removesuffix(".gz") in IDX] if source.is_dir() else []
    )
    if len(files) != len(IDX):
        return False
    folder.mkdir()
    for file in files:
        content = file.read_bytes()
        (folder / file.name.removesuffix(".gz")).write_bytes(
            gzip.decompress(content) if file.suffix == ".gz" else content
        )
    return True


def add_data(build: Path, folder: Path, sources: dict[str, Path]) -> list[str]:
    """Packed files, IDX where the source is (xz makes them 3 % smaller than packed ones); what is left out."""
    for name, source in sources.items():
        place = folder / "data" / name
        if inflate(source, place):
            continue
        output_of(build / "bin" / "dimred", "data", "pack", source, f"--output={place}", "--quiet")
        (place / "dimred-data.txt").unlink(missing_ok=True)  # names folders of this machine
    return [f"no {name}" for name in ("fashion", "cifar10") if name not in sources]


def add_texts(folder: Path) -> None:
    """python/ with pytest, and what is started. Raises Unusable where pytest is not installed here."""
    for pattern in PYTHON:
        for file in sorted(REPOSITORY.glob(pattern)):
            copy = folder / "python" / file.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if not found or not found.origin:
            raise Unusable(f"needs the Python package {name}")
        shutil.copytree(
            Path(found.origin).parent,
            folder / "python" / "packages" / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for file in (HERE / "run", HERE / "README.txt", *(REPOSITORY / "scripts" / name for name in STARTED)):
        shutil.copy(file, folder)


def files_of(folder: Path) -> list[Path]:
    """All of them."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def size_of(folder: Path) -> int:
    """Bytes of its files."""
    return sum(path.stat().st_size for path in files_of(folder))


def describe(build: Path, folder: Path, left_out: list[str], torch: tuple[str, str]) -> dict[str, Any]:
    """bundle.json: what it needs, and what it holds."""
    programs = sorted((folder / "bin").iterdir())
    binaries = [*programs, *(path for path in (folder / "lib").iterdir() if path.is_file())]
    report = {
        "torch": torch[0],
        "cuda": torch[1],
        "glibc": newest(binaries, "GLIBC"),
        "glibcxx": newest(binaries, "GLIBCXX"),
        "glibc_of_its_libstdc++": newest(files_of(folder / "lib" / "libstdc++"), "GLIBC"),
        "dimred": output_of(build / "bin" / "dimred", "--version").strip(),
        "programs": [path.name for path in programs],
        "left_out": [*left_out, "no libdimred_arrow.so: s3:// and gs:// need pyarrow"],
        "bytes": {name: size_of(folder / name) for name in ("bin", "lib", "data", "python")},
    }
    (folder / "bundle.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def archive_of(folder: Path, name: str = "") -> Path:
    """Where it lies."""
    return folder.with_name(f"{folder.name}{name}.tar.xz")


def groups_of(folder: Path) -> list[Group]:
    """The archive's, in its order: what a machine cannot do without first."""
    files = files_of(folder)
    below = {
        name: [file for file in files if file.is_relative_to(folder / name)]
        for name in ("bin", "lib", "python", "data")
    }
    ours, tests = ([file for file in below["bin"] if (file.name in OURS) == mine] for mine in (True, False))
    top = [file for file in files if file.parent == folder]
    fashion = [file for file in below["data"] if folder / "data" / "fashion" in file.parents]
    return [
        Group("programs", [*top, *ours], PROGRAMS),
        Group("device tests", tests, PROGRAMS),
        Group("libraries", below["lib"], PROGRAMS),
        Group("check and pytest", below["python"], PROGRAMS),
        Group("Fashion-MNIST", fashion, IMAGES),
    ]


def archive(folder: Path) -> list[str]:
    """FOLDER.tar.xz, and FOLDER-cifar10.tar.xz of data/cifar10 where that is, which Python's tarfile reads; a line
    each, with what their parts cost. Raises Unusable where the first is too large."""
    cifar10 = [file for file in files_of(folder) if folder / "data" / "cifar10" in file.parents]
    wanted = [("", [group for group in groups_of(folder) if group.files], float(MOST))]
    wanted += [("-cifar10", [Group("CIFAR-10", cifar10, IMAGES)], math.inf)] if cifar10 else []
    lines = []
    for name, groups, most in wanted:
        path = archive_of(folder, name)
        try:
            costs = write_archive(path, folder, groups, most)
        except TooLarge as error:
            raise Unusable(str(error)) from error
        parts = ", ".join(f"{group} {size / 1e6:.1f}" for group, size in costs.items())
        lines.append(f"{path}: {sum(costs.values()) / 1e6:.1f} MB ({parts}); unpack: python3 -m tarfile -e {path.name}")
    return lines


def make(options: argparse.Namespace) -> None:
    """All of it, and a summary."""
    folder = options.folder.resolve()
    build, torch, sources = build_folder(), torch_folder(), sources_of(options)
    begin(folder)
    add_programs(build, folder, library_folders(torch))
    left_out = add_data(build, folder, sources)
    add_texts(folder)
    report = describe(build, folder, left_out, torch_version(torch))
    sizes = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in report["bytes"].items())
    print(f"{folder}: {size_of(folder) / 1e6:.1f} MB ({sizes})")
    print(
        f"The bundle needs glibc {report['glibc']} or later, and torch {report['torch']} for CUDA {report['cuda']}. If "
        f"the system's libstdc++ lacks GLIBCXX_{report['glibcxx']}, the bundle uses its own, which needs glibc "
        f"{report['glibc_of_its_libstdc++']}."
    )
    print("\n".join(report["left_out"]))
    if not options.no_archive:
        print("\n".join(archive(folder)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; 1 with one line on standard error."""
    try:
        make(parse(arguments))
    except (Unusable, Unfit, OSError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
