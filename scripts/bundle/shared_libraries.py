"""The shared libraries that programs need, as ldd, readelf and objdump report them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Libraries of the C library, which every system has in a version of its own, and of the driver.
OF_THE_SYSTEM = re.compile(
    r"(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|util|resolv|nsl|anl|BrokenLocale)|libnss_.*|libcuda|libnvidia-.*)\.so(\.\d+)*"
)
# Carried apart: a system's own are used where they are as new.
OF_THE_COMPILER = ("libstdc++.so.6", "libgcc_s.so.1")


class Unusable(RuntimeError):
    """Why no bundle can be made, in one line."""


def output_of(*command: object) -> str:
    """Standard output. Raises Unusable with the program's error."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise Unusable(f"needs {command[0]}") from error
    except subprocess.CalledProcessError as error:
        raise Unusable(f"{command[0]} ended with {error.returncode}: {error.stderr.strip()}") from error
    return done.stdout


def needed(programs: Iterable[Path]) -> dict[str, Path]:
    """Every library that the loader finds for these, by the name it is asked for. Raises Unusable where it
    finds none."""
    found: dict[str, Path] = {}
    for program in programs:
        for line in output_of("ldd", program).splitlines():
            name, arrow, place = line.strip().partition(" => ")
            if arrow and place.startswith("not found"):
                raise Unusable(f"{program} needs {name}, but the loader does not find {name}")
            if arrow:
                found[name] = Path(place.rsplit(" (", 1)[0])
    return found


def private(libraries: dict[str, Path], torch_folders: Iterable[Path]) -> dict[str, Path]:
    """The libraries that a machine with torch alone does not have."""
    of_torch = {path.name for folder in torch_folders for path in folder.glob("*.so*")}
    return {
        name: path
        for name, path in libraries.items()
        if name not in of_torch and not OF_THE_SYSTEM.fullmatch(name) and name not in OF_THE_COMPILER
    }


def runpaths(file: Path) -> list[str]:
    """Folders that the loader looks into for a file's libraries."""
    found = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", output_of("readelf", "-d", file))
    return [folder for text in found for folder in text.split(":")]


def newest(files: Iterable[Path], prefix: str) -> str:
    """The newest symbol version of that prefix that any of the files asks for."""
    versions = {"0"}
    for file in files:
        asked = [line for line in output_of("objdump", "-T", file).splitlines() if "*UND*" in line]
        versions.update(re.findall(rf"\b{prefix}_(\d[\d.]*)", "\n".join(asked)))
    return max(versions, key=lambda text: [int(part) for part in text.split(".")])
