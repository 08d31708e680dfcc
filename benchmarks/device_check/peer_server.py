"""PyTorch's side of benchmarks/gpu_check.py: answers one line of JSON to each line of JSON.

    python peer_server.py cuda
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from peer_loops import Images, Resident, Trainer, drawn_batches, loaded, network, synchronize  # noqa: E402
from snapshot_file import write_snapshots  # noqa: E402

Answer = dict[str, Any]
WARM_UP = 5  # steps


class Server:
    """What stays between questions: trained and compiled networks, data that was read."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.trainers: dict[tuple[object, ...], Trainer] = {}
        self.images: dict[tuple[object, ...], Images] = {}
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True  # convolutions round to TF32 by default

    def machine(self) -> Answer:
        """The device and the versions."""
        told: Answer = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": self.device.type}
        if self.device.type != "cuda":
            return told
        properties = torch.cuda.get_device_properties(self.device)
        return told | {"device": properties.name, "memory": properties.total_memory,
                       "capability": f"{properties.major}.{properties.minor}",
                       "multiprocessors": properties.multi_processor_count,
                       "cudnn": torch.backends.cudnn.version()}  # fmt: skip

    def copy(self, size: int, repeats: int) -> Answer:
        """Seconds of copies of `size` bytes: within the device, and from page-locked memory to it."""
        source = torch.ones(size // 4, device=self.device)
        pinned = torch.ones(size // 4, pin_memory=self.device.type == "cuda")
        target = torch.empty_like(source)
        told: dict[str, list[float]] = {"device": [], "host": []}
        for i in range(repeats + 1):
            for name, values in (("device", source), ("host", pinned)):
                synchronize(self.device)
                start = time.perf_counter()
                target.copy_(values)
                synchronize(self.device)
                told[name] += [time.perf_counter() - start] if i else []
        return told

    def trainer(self, name: str, channels: int, side: int, classes: int, half: bool, compiled: bool = False) -> Trainer:
        """The same one for the same question."""
        key = (name, channels, side, classes, half, compiled)
        if key not in self.trainers:
            torch.manual_seed(1)
            self.trainers[key] = Trainer(self.device, network(name, channels, side, classes), half, compiled)
        return self.trainers[key]

    def steps(self, name: str, side: int, classes: int, batch: int, steps: int, half: bool, compiled: bool) -> Answer:
        """Seconds a step on two batches that lie on the device, after steps that do not count."""
        trainer = self.trainer(name, 3, side, classes, half, compiled)
        trainer.seconds(drawn_batches(self.device, batch, side, classes, WARM_UP))
        return {"seconds": trainer.seconds(drawn_batches(self.device, batch, side, classes, steps)) / steps}

    def epoch(
        self, name: str, data: str | None, samples: int, shape: list[int], batch: int, augment: bool, loader: bool
    ) -> Answer:
        """Seconds of an epoch in float32, after one that does not count (a loader's: its first)."""
        key = (data, samples, *shape)
        if key not in self.images:
            self.images[key] = Images.read(Path(data) if data else None, samples, (shape[0], shape[1], shape[2]))
        images = self.images[key]
        trainer = self.trainer(name, images.images.shape[1], images.images.shape[2], 10, False)
        if loader:
            return {"seconds": trainer.seconds(loaded(images, batch, augment, self.device))}
        resident = Resident(images.to(self.device), batch, augment)
        trainer.seconds(resident)
        return {"seconds": trainer.seconds(resident)}

    def snapshots(self, path: str, rows: int, columns: int) -> Answer:
        """Writes W [rows x columns] for the PCA."""
        start = time.perf_counter()
        write_snapshots(Path(path), rows, columns, self.device)
        return {"seconds": time.perf_counter() - start}

    def answer(self, request: Answer) -> Answer:
        """By name; an error is one line. What the answer has left free goes back to the device."""
        known: dict[str, Callable[..., Answer]] = {
            "machine": self.machine, "copy": self.copy, "steps": self.steps, "epoch": self.epoch,
            "snapshots": self.snapshots,
        }  # fmt: skip
        try:
            return known[request.pop("what")](**request)
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            return {"error": f"{type(error).__name__}: {first}"}
        finally:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()


def reason_of_no_device(device: str) -> str:
    """What torch says when it is asked for one; empty: it has it."""
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def main() -> None:
    """Until its input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    device = sys.argv[1]
    missing = reason_of_no_device(device)
    server = None if missing else Server(device)
    for line in sys.stdin:
        answer = server.answer(json.loads(line)) if server else {"missing": missing}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
