"""Where the programs, the data and the recipes lie: in an unpacked bundle, or in a repository with its build."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from . import torch_libraries

FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


@dataclass(frozen=True)
class Place:
    """All that a part starts or reads."""

    root: Path
    bundled: bool
    programs: Path
    sources: Path  # holds benchmarks/ and experiments/
    data: dict[str, Path] = field(default_factory=dict)  # fashion, cifar10, as far as they are there
    environment: dict[str, str] = field(default_factory=dict)  # of our programs

    def program(self, name: str) -> Path | None:
        """A program's file, or None where this build has none of that name."""
        path = self.programs / name
        return path if os.access(path, os.X_OK) and path.is_file() else None


def data_of(choices: dict[str, Path | None]) -> dict[str, Path]:
    """Those that are there."""
    return {name: path for name, path in choices.items() if path and path.exists()}


def chosen(variable: str, default: Path | None) -> Path | None:
    """What the environment says, else the default."""
    text = os.environ.get(variable)
    return Path(text) if text else default


def find_place() -> Place:
    """By where this file lies. Raises torch_libraries.Unfit in a bundle that does not fit this machine."""
    sources = Path(__file__).resolve().parents[2]
    bundle = sources.parent
    if (bundle / "bundle.json").is_file():
        folders = torch_libraries.search_path(bundle)
        given = os.environ.get("LD_LIBRARY_PATH")
        path = ":".join([*map(str, folders), *([given] if given else [])])
        data = {"fashion": chosen("DIMRED_FASHION", bundle / "data" / "fashion"),
                "cifar10": chosen("DIMRED_CIFAR10", bundle / "data" / "cifar10")}  # fmt: skip
        return Place(bundle, True, bundle / "bin", sources, data_of(data), os.environ | {"LD_LIBRARY_PATH": path})
    build = chosen("DIMRED_BUILD", sources / "build") or sources / "build"
    data = {"fashion": chosen("DIMRED_FASHION", FASHION), "cifar10": chosen("DIMRED_CIFAR10", None)}
    return Place(sources, False, build / "bin", sources, data_of(data), dict(os.environ))
