"""Records snapshots of the weights in a training loop in Python."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import WeakValueDictionary

import numpy as np

from dimred import _core
from dimred._arguments import local_path, require_switch, whole_number
from dimred._recorded import Recorded
from dimred._schedule import SCOPE, Schedule

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from numpy.typing import NDArray

NAME = re.compile(r"snapshot_(\d+)\.h5")
MARK = ("snapshot (.h5)", "HDF")  # what an earlier one is, and what is near its beginning
EARLIER_STEP = 1.0  # how far weights may lie from an earlier snapshot of their run, in its norms: another network's do
PIECE = 1 << 20  # weights that are compared at a time
# This process's recorders by folder: one that goes on with a recording takes its folder over.
recording: WeakValueDictionary[Path, SnapshotRecorder] = WeakValueDictionary()


class SnapshotRecorder:
    """Writes snapshots of the weights of `model`. dimred.fit, `dimred pca` and stage 2 read these snapshots.

        with SnapshotRecorder(model, "snapshots", epochs_of=len(loader), per_epoch=2) as recorder:
            ...
            optimizer.step()
            recorder.step()

    model: a torch module, or a mapping from names to arrays. A mapping is read again at each snapshot, so it may be a
        dict that the loop updates.
    every_steps: the number of steps from one snapshot to the next. Give either every_steps or epochs_of.
    epochs_of: the number of steps in an epoch. Each epoch has per_epoch snapshots at even distances; the last step of
        the epoch always has one.
    from_epoch: the first epoch with snapshots, counted from 1. It needs epochs_of.
    first_step: the number of earlier steps, if a training is resumed. `model` then holds the weights of that step.
        Without first_step, a folder that holds snapshots is refused. With first_step, snapshots of later steps are
        overwritten when their step comes. If the model does not continue from the newest snapshot up to that step, a
        new run begins, with a warning: `dimred merge` tells the two runs apart, and dimred.fit and stage 2 refuse their
        snapshots together.
    trainable_only: True records only the parameters of a module that need a gradient (LoRA's, or those of a head); a
        warning says so. The snapshots hold the names of the frozen parameters and a digest of their values, which are
        read once. A parameter that needs a gradient later is refused.
    rank: only rank 0 writes. The default is the rank of torch.distributed, or else RANK in the environment.

    step() copies the weights before it returns, so a snapshot holds the weights at the time of the call, in float32. A
    thread then writes the snapshot durably, completely or not at all. If the previous snapshot is still being written,
    step() waits for that write. The next step(), or the end of the block, raises the error of a write: OSError for a
    full disk, ValueError for a weight that is not finite.

    A folder has one recorder at a time, and is no part of a run of dimred, such as RUN/snapshots (ValueError).
    The recorder belongs to the process that made it: a forked child is refused (RuntimeError), and so is a copy
    (TypeError).
    """

    _to_continue = "give first_step to continue"  # in a message; a callback has no such argument

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
        trainable_only: bool = True,
        rank: int | None = None,
    ) -> None:
        self._schedule = Schedule(every_steps, epochs_of, per_epoch, from_epoch)
        require_switch(SCOPE, "trainable_only", trainable_only)
        self.folder = local_path(SCOPE, "folder", folder).absolute()  # wherever the program goes meanwhile
        self.steps = whole_number(SCOPE, "first_step", first_step, 0)
        self._process, self._closed = os.getpid(), False
        self._pending: Future[None] | None = None
        self._writes = whole_number(SCOPE, "rank", _rank() if rank is None else rank, 0) == 0
        if self._writes:
            from concurrent.futures import ThreadPoolExecutor  # at its first use: a tenth of `import dimred`

            self._recorded = Recorded(model, trainable_only)
            self._recording = self._open(goes_on=first_step > 0)
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="dimred-snapshots")

    def step(self) -> None:
        """Counts one step, and takes a snapshot if one is due. Call step() after each step of the optimizer."""
        self._require_usable()
        self.steps += 1
        if self._writes and self._schedule.is_due(self.steps):
            self.snapshot()

    def snapshot(self, epoch: int | None = None) -> None:
        """Takes a snapshot now, whether or not one is due. epoch: the epoch to record; by default the epoch of the
        step.
        """
        self._require_usable()
        carried = self._schedule.epoch(self.steps) if epoch is None else whole_number(SCOPE, "epoch", epoch, 0)
        if not self._writes:
            return
        self.wait()
        self._recorded.copy(self._recording.weights, self._recording.buffers, self._recording.counters)
        path = self.folder / f"snapshot_{self.steps:08d}.h5"
        self._pending = self._writer.submit(self._recording.write, path, carried, self.steps)

    def wait(self) -> None:
        """Waits until the last snapshot is on disk. Raises the error of that write."""
        if self._pending is None or self._process != os.getpid():
            return
        try:
            self._pending.result()
        except Exception:  # the write's; after Ctrl-C the next wait() says how the write ended
            self._pending = None
            raise
        self._pending = None

    def close(self) -> None:
        """Waits for the last snapshot and ends the thread. Another recorder may then use the folder. After Ctrl-C the
        recorder stays open.
        """
        if self._closed or self._process != os.getpid():
            return
        try:
            self.wait()
        finally:
            if self._pending is None:
                if self._writes:
                    self._writer.shutdown()
                    self._recording.close()
                self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:  # else the loop's own error is the one to see
                raise

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{SCOPE} cannot be copied or pickled, because a folder has one recorder; make the recorder in the process "
            "that trains"
        )

    def _require_usable(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"{SCOPE} was made in process {self._process}, received a call in the forked process {os.getpid()}; "
                "make the recorder in the process that trains"
            )
        if self._closed:
            raise ValueError(f"{SCOPE} is closed; to continue, make another recorder with first_step={self.steps}")

    def _open(self, goes_on: bool) -> _core.Recording:
        """Opens the folder for this recorder alone."""
        if not self.folder.is_dir() and self.folder.exists():
            raise ValueError(f"{SCOPE} needs a folder, received '{self.folder}', which is not a folder")
        require_place(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder.resolve()
        if goes_on:
            close_earlier(place)
        opened = _core.Recording(
            self.folder, *self._recorded.tables, self._recorded.lacks, self._recorded.frozen_digest, self._recorded.tied
        )
        steps = [int(found[1]) for file in self.folder.iterdir() if (found := NAME.fullmatch(file.name))]
        if steps and not goes_on:
            opened.close()
            raise ValueError(
                f"{SCOPE} '{self.folder}' already holds snapshots up to step {max(steps)}; "
                f"choose another folder, or {self._to_continue}"
            )
        self._go_on(opened, [step for step in steps if step <= self.steps])
        later = [step for step in steps if step > self.steps]
        if later:
            warnings.warn(
                f"{SCOPE} '{self.folder}' holds snapshots after step {self.steps}, up to step {max(later)}, "
                "from an earlier training; the recorder overwrites each of these snapshots at the same step",
                stacklevel=3,
            )
        recording[place] = self
        return opened

    def _go_on(self, opened: _core.Recording, steps: list[int]) -> None:
        """Continues the run of the newest snapshot, if the weights belong to that run."""
        if not steps:
            return
        newest = max(steps)
        file = self.folder / f"snapshot_{newest:08d}.h5"
        self._recorded.copy(opened.weights, opened.buffers, opened.counters)
        try:
            goes_on = (newest < self.steps or are_of(opened.weights, file)) and opened.go_on(file, EARLIER_STEP)
        except (RuntimeError, ValueError):  # damaged, which whoever reads the folder hears
            goes_on = False
        if not goes_on:
            warnings.warn(
                f"{SCOPE} the weights do not continue from '{file}', so the recorder starts another run, and "
                "dimred.fit refuses the two runs together; choose another folder, or restore the network before the "
                "recorder is made",
                stacklevel=4,
            )


def close_earlier(folder: Path) -> None:
    """Closes this process's recorder of the folder, for example after a training that failed."""
    if earlier := recording.get(folder.resolve()):
        earlier.close()


def require_place(folder: Path) -> None:
    """Raises ValueError if the folder is a part of a run, whose own snapshots a recorder would replace."""
    parts = (folder, *folder.parents)
    there = next(i for i, part in enumerate(parts) if part.is_dir())
    # The rule is for files that can be written: a file in the folder, or the first part of the path that is not there.
    _core.require_result_place(parts[there - 1] if there else folder / "snapshot.h5", "folder", MARK, [])


def are_of(weights: NDArray[np.float32], file: Path) -> bool:
    """Returns whether each of the weights is the snapshot's, or one is the other's rounding to bfloat16 or float16. Two
    fine-tunings of one base lie nearer to each other than a rounding lies to its weights, so a distance does not tell
    them apart.
    """
    rows = _core.open_files([file], False)
    if rows.columns != len(weights):
        return False
    stored = np.empty(rows.columns, np.float32)
    rows.read(0, stored)
    for begin in range(0, len(stored), PIECE):
        now, was = weights[begin : begin + PIECE], stored[begin : begin + PIECE]
        same = now == was
        for value, other in ((now, was), (was, now)):
            for rounded in roundings(other):
                same |= value == rounded
        if not same.all():
            return False
    return True


def roundings(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the values rounded to bfloat16, which NumPy lacks, and to float16."""
    bits = values.view(np.uint32)
    brief = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    with np.errstate(over="ignore"):
        return brief, values.astype(np.float16).astype(np.float32)


def _rank() -> int:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))
