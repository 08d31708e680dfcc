"""Values that are not finite, in files whose digests are right, in a loss and in a trial: never saved."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import save_file

from .compare import snapshots, states
from .launch import Command, Ended, execute
from .workplace import SMALL, Case, Workplace, shortened

USER_BLOCK = 512
STATE_HEAD = '{"format": "dimred-state 1", "digest": "'


class Digest128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def digest(data: bytes) -> str:
    """XXH3-128 as the files hold it."""
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_128bits.restype = Digest128
    library.XXH3_128bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    value = library.XXH3_128bits(data, len(data))
    return f"{value.high:016x}{value.low:016x}"


def poison_snapshot(file: Path) -> None:
    with h5py.File(file, "r+") as h5:
        h5["weights"][1000] = np.nan
    data = file.read_bytes()
    head = f"dimred-snapshot 1\nxxh3-128 {digest(data[USER_BLOCK:])}\n".encode().ljust(USER_BLOCK, b"\0")
    file.write_bytes(head + data[USER_BLOCK:])


def poison_state(folder: Path, vector: str) -> None:
    values = np.fromfile(folder / f"{vector}.f32", np.float32)
    values[1000] = np.nan
    values.tofile(folder / f"{vector}.f32")
    header = json.loads((folder / "state.json").read_text())
    header["files"][f"{vector}.f32"]["digest"] = digest(values.tobytes())
    rest = '",' + json.dumps({key: header[key] for key in ("files", "scalars")})[1:] + "\n"
    (folder / "state.json").write_text(STATE_HEAD + digest(rest.encode()) + rest)


def finite(file: Path) -> bool:
    """True for a file without numbers, too."""
    if file.suffix == ".f32":
        return bool(np.isfinite(np.fromfile(file, np.float32)).all())
    if file.suffix == ".npy":
        return bool(np.isfinite(np.load(file)).all())
    if file.suffix == ".h5":
        with h5py.File(file) as h5:
            return all(bool(np.isfinite(h5[name][:]).all()) for name in ("weights", "buffers"))
    if file.name in ("curve.csv", "state.json"):
        words = file.read_text().lower().replace(":", ",").replace("\n", ",").split(",")
        return not any(word.strip().lstrip("-") in ("nan", "inf", "infinity") for word in words)
    return True


def not_finite(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and not finite(file))


def refusal(ended: Ended) -> str:
    """Wrong unless it ended with one line that says so."""
    if ended.code <= 0:
        return f"ended with {ended.code}"
    if len(ended.errors) != 1 or "finite" not in ended.errors[0]:
        return shortened(f"not one clear line: {' | '.join(ended.errors)}")
    return ""


def warning(ended: Ended) -> str:
    """Passes where the only warning is of steps that were not taken."""
    known = all(line.startswith("warning: no line search of this epoch") for line in ended.errors)
    return "" if ended.code == 0 and ended.errors and known else shortened(f"{ended.code}: {' | '.join(ended.errors)}")


def poisoned(place: Workplace, label: str, command: Command, judge: Callable[[Ended], str], given: set[str]) -> Case:
    """`given`: the files that were poisoned beforehand."""
    ended = execute(place.build, command)
    case = Case("not finite", label, judge(ended))
    saved = [name for name in not_finite(command.folder) if name not in given] if command.folder.exists() else []
    if saved and not case.problem:
        case.problem = f"saved in {', '.join(saved)}"
    if not case.problem:
        place.remove(command.folder)
    return case


def from_snapshot(place: Workplace) -> Iterator[Case]:
    first = place.fresh("poisoned")
    shutil.copytree(place.root / "stage1_all", first)
    file = snapshots(first)[2]
    poison_snapshot(file)
    # By a list: the folder itself is refused, because its run has not written this file.
    names = first / "all.txt"
    names.write_text("".join(f"snapshots/{path.name}\n" for path in snapshots(first)))
    pca = Command(("pca", f"--snapshots={names}", "--components=3", f"--output={first}/p.npy"), first)
    yield poisoned(place, "snapshot into the PCA", pca, refusal, {f"snapshots/{file.name}"})
    shutil.copytree(place.root / "stage1_all", first)
    file = snapshots(first)[-1]
    poison_snapshot(file)
    run = place.fresh("stage2")
    start = Command(
        (
            "stage2",
            f"--checkpoint={file}",
            f"--snapshots={place.root}/stage1_all/snapshots",
            *SMALL,
            "--n_component=3",
            f"--output={run}",
        ),
        run,
    )
    yield poisoned(place, "snapshot as the start of stage 2", start, refusal, set())


def from_state(place: Workplace) -> Iterator[Case]:
    """The newest state is skipped, or the run ends; both are right."""

    def judge(ended: Ended) -> str:
        skipped = ended.code == 0 and any("finite" in line for line in ended.errors)
        return "" if skipped else refusal(ended)

    for name, vector in (("stage1", "weights"), ("stage1", "momentum"), ("stage2", "residual_momentum")):
        folder = place.fresh("poisoned")
        shutil.copytree(place.root / f"{name}_plain", folder)
        place.remove(states(folder)[-1])
        state = states(folder)[-1]
        poison_state(state, vector)
        given = {f"checkpoints/{state.name}/{vector}.f32"}
        yield poisoned(place, f"{vector} of a state of {name}", place.command(name, folder), judge, given)


def from_files(place: Workplace) -> Iterator[Case]:
    """A start file and a matrix of somebody else, without digests."""
    with h5py.File(snapshots(place.root / "stage1_all")[-1]) as h5:
        weights, layout = h5["weights"][:], json.loads(h5["layout"][()].tobytes())
    weights[5] = np.nan
    tensors, offset = {}, 0
    for row in layout["parameters"]:
        count = int(np.prod(row["shape"]))
        tensors[row["name"]] = weights[offset : offset + count].reshape(row["shape"])
        offset += count
    save_file(tensors, place.root / "start.safetensors")
    basis = np.load(place.root / "stage2_plain" / "pca_mat.npy")
    basis[1, 77] = np.nan
    np.save(place.root / "foreign.npy", basis)
    options = {
        "safetensors start file": ("--start=file", f"--start_file={place.root / 'start.safetensors'}"),
        "matrix without a sidecar": (f"--pca_mat={place.root / 'foreign.npy'}",),
    }
    for label, given in options.items():
        command = place.command("stage2", place.fresh("stage2"))
        command = Command((*command.arguments, *given), command.folder, command.ranks)
        yield poisoned(place, label, command, refusal, set())


def from_training(place: Workplace) -> Iterator[Case]:
    run = place.fresh("stage1")
    data = f"--data={place.root / 'data'}"
    rate = Command(
        ("stage1", data, *SMALL, "--epochs=2", "--learning_rate=1e30", "--snapshots_per_epoch=4", f"--output={run}"),
        run,
    )
    yield poisoned(place, "loss of stage 1", rate, refusal, set())
    # A step that overflows in every trial: no step is taken, the run goes on.
    command = place.command("stage2", place.fresh("stage2"))
    trial = Command((*command.arguments, "--alpha=1e36", "--trials=3"), command.folder, command.ranks)
    yield poisoned(place, "every trial of stage 2", trial, warning, set())
    command = place.command("stage2", place.fresh("stage2"))
    unguarded = Command((*command.arguments, "--preset=mindspore-first", "--alpha=1e36"), command.folder)
    yield poisoned(place, "steps of a preset without guards", unguarded, refusal, set())


def cases(place: Workplace) -> Iterator[Case]:
    for name in ("stage1", "stage2"):
        place.reference(name)
    yield from from_snapshot(place)
    yield from from_state(place)
    yield from from_files(place)
    yield from from_training(place)
