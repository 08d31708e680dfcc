"""Weight snapshots of a training loop in Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arrays import as_array, is_torch

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

NAME = re.compile(r"snapshot_(\d+)\.h5")


class SnapshotRecorder:
    """Writes the weights of `model` as snapshots of dimred, which dimred.fit, `dimred pca` and stage 2 read.

        with SnapshotRecorder(model, "snapshots", epochs_of=len(loader), per_epoch=2) as recorder:
            ...
            optimizer.step()
            recorder.step()

    model: a torch module, or a mapping from names to arrays (looked at anew at each snapshot: a dict that the loop updates).
    every_steps: a snapshot after each so many steps; or epochs_of: steps of an epoch, of which per_epoch get one, evenly, the last
        step among them. Both from epoch `from_epoch` on, counted from 1.
    first_step: steps done before, where a training goes on. Without it, a folder that holds snapshots is refused; with it, later
        ones are written again when their step comes.
    rank: only rank 0 writes; by default torch.distributed's, or that of RANK in the environment.

    step() copies the weights aside before it returns, so that a snapshot holds what they were at the call; a thread writes them
    durably, whole or not at all. A snapshot that comes while the last one is being written waits for it. What a write raised
    (OSError: a full disk; ValueError: a weight that is not finite) the next step(), or the end of the block, raises.
    """

    def __init__(
        self,
        model: Any,
        folder: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        epochs_of: int | None = None,
        per_epoch: int = 2,
        from_epoch: int = 1,
        first_step: int = 0,
        rank: int | None = None,
    ) -> None:
        if (every_steps is None) == (epochs_of is None):
            raise ValueError("[SnapshotRecorder] needs every_steps or epochs_of, one of them")
        for name, value in (("every_steps", every_steps), ("epochs_of", epochs_of), ("per_epoch", per_epoch)):
            if value is not None and value < 1:
                raise ValueError(f"[SnapshotRecorder] needs {name} >= 1, received {value}")
        if epochs_of is not None and per_epoch > epochs_of:
            raise ValueError(f"[SnapshotRecorder] needs per_epoch <= epochs_of, received {per_epoch} of {epochs_of} steps")
        if from_epoch > 1 and epochs_of is None:
            raise ValueError("[SnapshotRecorder] needs epochs_of where from_epoch is given, to know the epochs")
        self._every, self._epoch_steps, self._per_epoch, self._from_epoch = every_steps, epochs_of, per_epoch, from_epoch
        self.folder, self.steps = Path(folder), first_step
        self._model = model
        self._pending: Future[None] | None = None
        self._writes = (_rank() if rank is None else rank) == 0
        if self._writes:
            from concurrent.futures import ThreadPoolExecutor  # at its first use: a tenth of `import dimred`

            self.folder.mkdir(parents=True, exist_ok=True)
            self._refuse_later_ones(first_step)
            self._parameters, self._buffers, self._counters = _tensors(model)
            self._recording = _core.Recording([(name, shape_of(value)) for name, value in self._parameters],
                                              _size(self._buffers), _size(self._counters))  # fmt: skip
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="dimred-snapshots")

    def step(self) -> None:
        """After each optimiser step."""
        self.steps += 1
        if self._writes and self._is_due():
            self.snapshot()

    def snapshot(self) -> None:
        """A snapshot now, whatever the step."""
        if not self._writes:
            return
        self.wait()
        parameters, buffers, counters = _tensors(self._model)
        _copy([value for _, value in parameters], self._recording.weights)
        _copy(buffers, self._recording.buffers)
        _copy(counters, self._recording.counters)
        path = self.folder / f"snapshot_{self.steps:08d}.h5"
        self._pending = self._writer.submit(self._recording.write, str(path), self._epoch(), self.steps)

    def wait(self) -> None:
        """Until the last snapshot is durable; raises what its write raised."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """wait(), and the end of the thread."""
        if self._writes:
            self._writer.shutdown()
            self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except Exception:
            if error is None:  # else the loop's own error is the one to see
                raise

    def _epoch(self) -> int:
        """Of the step just done, counted from 1; 0 where nobody said how long one is."""
        return 0 if self._epoch_steps is None else (self.steps - 1) // self._epoch_steps + 1

    def _is_due(self) -> bool:
        if self._epoch_steps is None:
            return self.steps % (self._every or 1) == 0
        within = (self.steps - 1) % self._epoch_steps + 1
        due = within * self._per_epoch // self._epoch_steps > (within - 1) * self._per_epoch // self._epoch_steps
        return due and self._epoch() >= self._from_epoch

    def _refuse_later_ones(self, first_step: int) -> None:
        steps = [int(found[1]) for file in self.folder.iterdir() if (found := NAME.fullmatch(file.name))]
        if steps and first_step == 0:
            raise ValueError(f"[SnapshotRecorder] '{self.folder}' holds snapshots up to step {max(steps)}: "
                             "choose another folder, or give first_step to go on")  # fmt: skip


class CallbackOptions:
    """What the callbacks of trainers take, and the recorder that they make of it where a training begins."""

    def __init__(self, folder: str | os.PathLike[str], every_steps: int | None, per_epoch: int | None, from_epoch: int) -> None:
        if every_steps is not None and per_epoch is not None:
            raise ValueError("[SnapshotCallback] needs every_steps or per_epoch, received both")
        self.folder, self.every_steps, self.per_epoch, self.from_epoch = folder, every_steps, per_epoch or 2, from_epoch

    def recorder(self, model: Any, epoch_steps: int | None, first_step: int, rank: int) -> SnapshotRecorder:
        """epoch_steps: of the optimizer in an epoch; None where the training set does not say its length."""
        if self.every_steps is not None:
            return SnapshotRecorder(model, self.folder, every_steps=self.every_steps, first_step=first_step, rank=rank)
        if epoch_steps is None:
            raise ValueError("[SnapshotCallback] needs every_steps: the training set does not say its length")
        return SnapshotRecorder(model, self.folder, epochs_of=epoch_steps, per_epoch=self.per_epoch, from_epoch=self.from_epoch,
                                first_step=first_step, rank=rank)  # fmt: skip


def _rank() -> int:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def _tensors(model: Any) -> tuple[list[tuple[str, Any]], list[Any], list[Any]]:
    """Parameters by name, float buffers and integer ones, in the order of registration."""
    if isinstance(model, Mapping):
        return list(model.items()), [], []
    if not hasattr(model, "named_parameters"):
        raise TypeError(f"[SnapshotRecorder] needs a torch module or a mapping from names to arrays, received {type(model).__name__}")
    model = bare(model)
    if any(type(parameter).__name__ == "DTensor" for parameter in model.parameters()) or "FullySharded" in type(model).__name__:
        raise TypeError("[SnapshotRecorder] needs whole parameters, received a model sharded by FSDP")
    buffers = list(model.buffers())
    floats = [buffer for buffer in buffers if buffer.is_floating_point()]
    return list(model.named_parameters()), floats, [buffer for buffer in buffers if not buffer.is_floating_point()]


def bare(model: Any) -> Any:
    """The module that DistributedDataParallel, DataParallel or torch.compile wraps."""
    while inner := {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}.get(
        type(model).__name__
    ):
        model = getattr(model, inner)
    return model


def shape_of(value: Any) -> tuple[int, ...]:
    """Of a tensor of any framework."""
    return tuple(int(extent) for extent in value.shape)


def _size(tensors: list[Any]) -> int:
    return sum(int(np.prod(shape_of(tensor), dtype=np.int64)) for tensor in tensors)


def _copy(tensors: list[Any], out: NDArray[Any]) -> None:
    """One behind another, converted to the type of `out`."""
    begin = 0
    for tensor in tensors:
        size = _size([tensor])
        if begin + size > out.size:
            raise ValueError("[SnapshotRecorder] the model has grown since the recorder was made")
        _copy_one(tensor, out[begin : begin + size].reshape(shape_of(tensor)))
        begin += size
    if begin != out.size:
        raise ValueError("[SnapshotRecorder] the model has shrunk since the recorder was made")


def _copy_one(tensor: Any, out: NDArray[Any]) -> None:
    if is_torch(tensor):
        import torch

        torch.from_numpy(out).copy_(tensor.detach())
    else:
        out[...] = as_array(tensor)[0]
