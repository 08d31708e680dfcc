"""The commands that read each kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli import cli
from faults.compare import content, without_times

from .measured import Ended, bytes_of
from .site import Site, Use, printed

NEWEST = "stage1/checkpoints/state_00000008"
STAGE1, STAGE2 = ("inspect stage1", "resume stage1"), ("inspect stage2", "resume stage2")
STATE = ("inspect state", "evaluate", "export", "resume stage1", "stage2")
# Each kind: files below the work folder, and names of the uses that read them.
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "run folder": {
        "stage1/curve.csv": STAGE1,
        "stage2/curve.csv": STAGE2,
        "stage2/steps.csv": STAGE2,
        "stage2/final.h5": ("inspect stage2", "inspect final", "evaluate final"),
        "stage1/.lock": STAGE1,
        "stage1/checkpoints/state_00000004/weights.f32": STAGE1,
        "stage1/checkpoints/state_00000004/state.json": STAGE1,
    },
    "snapshot": {
        f"stage1/snapshots/snapshot_{step:08}.h5": (
            "inspect stage1",
            "pca",
            "evaluate snapshots",
            "stage2",
            "resume stage1",
        )
        for step in (2, 4, 6, 8)
    },
    "state": {f"{NEWEST}/state.json": STATE}
    | {f"{NEWEST}/{name}": STATE for name in ("weights.f32", "momentum.f32", "counters.i64", "buffers.f32")}
    | {
        f"stage2/checkpoints/state_00000004/{name}": (*STAGE2, "evaluate stage2")
        for name in ("state.json", "weights.f32", "residual_momentum.f32")
    },
    "matrix": {f"stage2/pca_mat.{end}": ("inspect matrix", "reuse", "resume stage2") for end in ("npy", "json")},
    "config": {
        "stage1/config.toml": ("inspect stage1", "evaluate", "predict run", "export", "resume stage1", "stage2"),
        "stage2/config.toml": (*STAGE2, "evaluate stage2", "evaluate final"),
    },
    "manifest": {
        "stage1/manifest.json": (*STAGE1, "evaluate", "stage2"),
        "stage2/manifest.json": (*STAGE2, "evaluate stage2"),
    },
    "exports": {
        f"export/1/{name}": ("inspect export", "predict")
        for name in ("signature.json", "weights.safetensors", "reference.safetensors")
    },
}


def matrix(site: Site, _: Ended) -> Any:
    sidecar = json.loads((site.work / "p.json").read_text())
    return bytes_of(site.work / "p.npy"), without_times(sidecar)


def exported(_: Site, ended: Ended) -> Any:
    """The files of the version that the command names, whatever its number."""
    folder = Path(ended.output.split("-> ")[-1].strip())
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_in(folder: str) -> Callable[[Site, Ended], Any]:
    return lambda site, _: content(site.work / folder)


def uses(site: Site) -> dict[str, Use]:
    """All by name."""
    work, reading = site.work, ("--threads=1", "--batch_size=100")
    looked = {
        "stage1": work / "stage1",
        "stage2": work / "stage2",
        "state": work / NEWEST,
        "matrix": work / "stage2/pca_mat.npy",
        "final": work / "stage2/final.h5",
        "export": work / "export/1",
    }
    found = [Use(f"inspect {name}", ("inspect", str(path)), printed) for name, path in looked.items()]
    found += [
        Use("evaluate", ("evaluate", f"{work}/stage1", *reading), printed),
        Use("evaluate snapshots", ("evaluate", f"{work}/stage1/snapshots", *reading), printed),
        Use("evaluate final", ("evaluate", f"{work}/stage2/final.h5", *reading), printed),
        Use("evaluate stage2", ("evaluate", f"{work}/stage2", *reading), printed),
        Use("export", ("export", f"{work}/stage1", f"--output={work}/out", "--score=false", "--threads=1"), exported),
        Use("predict run", ("predict", f"{work}/stage1", f"{site.root}/image.png", "--threads=1"), printed),
        Use("predict", ("predict", f"{work}/export/1", f"{site.root}/image.png", "--threads=1"), printed),
        Use(
            "pca",
            cli("pca", work / "stage1/snapshots", "--components=2 --threads=1 --overwrite", output=f"{work}/p.npy"),
            matrix,
        ),
        Use("resume stage1", site.stage1(3), run_in("stage1")),
        Use("resume stage2", site.stage2(2, "stage2", "--n_component=2"), run_in("stage2")),
        Use("stage2", site.stage2(1, "out", "--n_component=2"), run_in("out")),
        Use("reuse", site.stage2(1, "out", f"--pca_mat={work}/stage2/pca_mat.npy"), run_in("out")),
    ]
    return {use.name: use for use in found}


def names(file: Path, work: Path, line: str) -> bool:
    """Whether a line names the file, or the state or folder that it is part of."""
    parts = [file.name, *(part for part in file.relative_to(work).parts if part.startswith(("state_", "snapshots")))]
    return any(part in line for part in parts)
