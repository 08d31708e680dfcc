"""Files as somebody forges them: their digests are right. Each function is called in a process of its own."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER_BLOCK = 512
STATE_HEAD = '{"format": "dimred-state 1", "digest": "'


def seal_snapshot(file: Path) -> None:
    """Its head fits what follows."""
    from faults.poison import digest

    data = file.read_bytes()
    head = f"dimred-snapshot 1\nxxh3-128 {digest(data[USER_BLOCK:])}\n".encode().ljust(USER_BLOCK, b"\0")
    file.write_bytes(head + data[USER_BLOCK:])


def seal_state(file: Path, rest: str) -> None:
    """A state.json with this text behind its digest."""
    from faults.poison import digest

    file.write_text(STATE_HEAD + digest(rest.encode()) + rest)


def change_scalars(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    header = json.loads(file.read_text())
    change(header["scalars"])
    seal_state(file, '",' + json.dumps({key: header[key] for key in ("files", "scalars")})[1:] + "\n")


def before_the_first(file: Path) -> None:
    """A state of step -5."""

    def change(scalars: dict[str, Any]) -> None:
        scalars["step"] = scalars["position"]["step"] = -5

    change_scalars(file, change)


def negative_epoch(file: Path) -> None:
    """A state of epoch -1."""

    def change(scalars: dict[str, Any]) -> None:
        scalars["position"]["epoch"] = -1

    change_scalars(file, change)


def with_escapes(file: Path) -> None:
    """A state whose texts are commands to a terminal."""

    def change(scalars: dict[str, Any]) -> None:
        scalars["optimizer"] = "\x1b[2J\x1b]0;owned\x07\u202egnp"
        scalars["class_names"] = ["\x1b[31m" + name for name in "abcdefghij"]

    change_scalars(file, change)


def early_snapshot(file: Path) -> None:
    """A snapshot of step and epoch -5."""
    import h5py

    with h5py.File(file, "r+") as h5:
        h5.attrs["step"] = h5.attrs["epoch"] = -5
    seal_snapshot(file)


def linked_weights(file: Path, kind: str, target: Path) -> None:
    """Weights that are somewhere else, or much larger than their file."""
    import h5py
    import numpy as np

    with h5py.File(file, "r+") as h5:
        count = h5["weights"].shape[0]
        if kind == "soft":
            h5["other"] = h5["weights"][:]
        del h5["weights"]
        if kind == "external":
            h5["weights"] = h5py.ExternalLink(str(target), "weights")
        elif kind == "soft":
            h5["weights"] = h5py.SoftLink("/other")
        elif kind == "raw":
            h5.create_dataset("weights", (count,), "<f4", external=[(str(target), 0, 4 * count)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((count,), "<f4")
            layout[:] = h5py.VirtualSource(str(target), "weights", (count,))
            h5.create_virtual_dataset("weights", layout)
        else:
            h5.create_dataset(
                "weights", (1 << 28,), "<f4", chunks=(1 << 20,), compression="gzip", fillvalue=np.float32(0)
            )
            for begin in range(0, 1 << 28, 1 << 24) if kind == "inflated" else ():
                h5["weights"][begin : begin + (1 << 24)] = 0
    seal_snapshot(file)


def pickled(file: Path, data: bytes) -> None:
    """PyTorch's archive around a pickle."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")


def listing(folder: Path, target: Path) -> None:
    """Tensors of a name that is a command to a terminal."""
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"\x1b[2J\x1b]52;c;Y3VybA==\x07": np.zeros(3, np.float32)}, folder / target)


def modules(folder: Path, touched: Path) -> None:
    """TorchScript that saves, maps and never ends; one that does as it should, for the undisturbed peak."""
    import torch
    from torch import nn

    def saving(file: str, images: torch.Tensor) -> torch.Tensor:
        torch.ops.aten.save(images, file)
        return images

    def mapping(file: str, images: torch.Tensor) -> torch.Tensor:
        return images + torch.from_file(file, True, 64).sum()

    def endless(_: str, images: torch.Tensor) -> torch.Tensor:
        turns = 0
        while turns >= 0:
            turns = (turns + 1) % 7
        return images

    def plain(_: str, images: torch.Tensor) -> torch.Tensor:
        return images

    class Calling(nn.Module):
        def __init__(self, call: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.call, self.file, self.fc = call, str(touched), nn.Linear(784, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.fc(self.call(self.file, images).flatten(1))

    for call in (saving, mapping, endless, plain):
        torch.jit.script(Calling(call)).save(folder / f"{call.__name__}.pt")


def npy(file: Path, head: bytes) -> None:
    """A header of these bytes, in version 2."""
    out = io.BytesIO()
    out.write(b"\x93NUMPY\x02\x00" + len(head).to_bytes(4, "little") + head)
    file.write_bytes(out.getvalue())


def copied(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(source, target))


def sealed(values: dict[str, Any]) -> str:
    """A manifest's text with the digest of these values."""
    from faults.poison import digest

    values.pop("digest", None)
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(values | {"digest": digest(text.encode())})
