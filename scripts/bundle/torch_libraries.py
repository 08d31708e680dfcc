"""Where this Python's torch keeps its shared libraries, for programs that were linked elsewhere.

    python3 torch_libraries.py BUNDLE      prints folders with ':' between them, for LD_LIBRARY_PATH

Looks without loading torch. Refuses, in one line, a torch or a system that BUNDLE/bundle.json does
not name: the programs are bound to LibTorch's version.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any


class Unfit(RuntimeError):
    """The libraries that the programs need and this machine lacks, in one line."""


def torch_folder() -> Path:
    """The version of the package. Raises Unfit."""
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        raise Unfit(f"needs a Python with torch, but {sys.executable} has none; set DIMRED_PYTHON to another Python")
    return Path(found.origin).parent


def torch_version(folder: Path) -> tuple[str, str]:
    """Its version without what it was built for, and its CUDA version ("" of a processor's build)."""
    report = runpy.run_path(str(folder / "version.py"))
    return str(report["__version__"]).split("+")[0], str(report.get("cuda") or "")


def library_folders(folder: Path) -> list[Path]:
    """torch/lib, and lib of every package beside it or elsewhere on the path that is called nvidia.*."""
    found = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    beside = folder.parent / "nvidia"
    if beside.is_dir() and beside not in places:
        places.append(beside)
    return [folder / "lib", *sorted(lib for place in places for lib in place.glob("*/lib") if lib.is_dir())]


def version_of(text: str) -> tuple[int, ...]:
    """Numbers that compare: 3.4.30 is above 3.4.9."""
    return tuple(int(part) for part in text.split("."))


def newest_glibcxx() -> str:
    """The newest GLIBCXX_ symbol version of the system's libstdc++; 0 where there is none."""
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return "0"
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libstdc++.so" in path:
            found = re.findall(rb"GLIBCXX_(3\.4(?:\.\d+)?)\0", Path(path).read_bytes())
            return max((text.decode() for text in found), key=version_of, default="0")
    return "0"


def require_fit(needs: dict[str, Any], folder: Path) -> None:
    """Raises Unfit where torch or the C library is not what the programs were linked with."""
    version, cuda = torch_version(folder)
    if (version, cuda) != (needs["torch"], needs["cuda"]):
        raise Unfit(
            f"needs torch {needs['torch']} for CUDA {needs['cuda']}, but {folder} has {version} for "
            f"{'CUDA ' + cuda if cuda else 'processors alone'}"
        )
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[-1]
    if version_of(glibc) < version_of(needs["glibc"]):
        raise Unfit(f"needs glibc {needs['glibc']} or later, but this system has {glibc}")


def needs_of(bundle: Path) -> dict[str, Any]:
    """Its bundle.json. Raises Unfit where scripts/bundle.sh did not come to its end."""
    try:
        needs: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
    except ValueError:
        needs = {}
    if "torch" not in needs:
        raise Unfit("the bundle is unfinished; make it again with scripts/bundle.sh")
    return needs


def search_path(bundle: Path) -> list[Path]:
    """The folders that the bundle's programs need on LD_LIBRARY_PATH. Raises Unfit."""
    needs = needs_of(bundle)
    folder = torch_folder()
    require_fit(needs, folder)
    folders = [bundle / "lib", *library_folders(folder)]
    if version_of(newest_glibcxx()) < version_of(needs["glibcxx"]):
        folders.insert(0, bundle / "lib" / "libstdc++")
    return folders


def main() -> int:
    """Prints the folders."""
    try:
        print(":".join(map(str, search_path(Path(sys.argv[1]).resolve()))))
    except Unfit as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
