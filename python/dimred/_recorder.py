"""Weight snapshots of a training loop in Python."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import WeakValueDictionary

from dimred import _core
from dimred._arguments import local_path, require_switch, whole_number
from dimred._recorded import Recorded
from dimred._schedule import SCOPE, Schedule

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

NAME = re.compile(r"snapshot_(\d+)\.h5")
# How far weights of one run may lie from its snapshot, in norms of that: of the same step a rounding to bfloat16, of an
# earlier one less than another network's.
SAME_STEP, EARLIER_STEP = 0.01, 1.0
# This process's recorders by folder: one that goes on with a recording takes its folder over.
recording: WeakValueDictionary[Path, SnapshotRecorder] = WeakValueDictionary()


class SnapshotRecorder:
    """Writes the weights of `model` as snapshots of dimred, which dimred.fit, `dimred pca` and stage 2 read.

        with SnapshotRecorder(model, "snapshots", epochs_of=len(loader), per_epoch=2) as recorder:
            ...
            optimizer.step()
            recorder.step()

    model: a torch module, or a mapping from names to arrays (looked at again at each snapshot: a dict that the loop
        updates).
    every_steps: the number of steps from one snapshot to the next; or epochs_of: steps of an epoch, of which per_epoch
        get one, evenly, the last step among them. Both from epoch `from_epoch` on, counted from 1.
    first_step: steps done before, where a training goes on; `model` then holds the weights of that step. Without it, a
        folder that holds snapshots is refused; with it, later ones are written again when their step comes. A model
        that does not go on from the newest snapshot up to that step begins another run, with a warning: `dimred merge`
        says whose snapshots they are, dimred.fit and stage 2 refuse them together.
    trainable_only: of a module, the parameters that need a gradient (LoRA's, or those of a head), with a warning that
        says so. The snapshots name those that they lack, and carry a digest of them, for which the frozen values are
        read once. A parameter that is thawed later is refused.
    rank: only rank 0 writes; by default torch.distributed's, or that of RANK in the environment.

    step() copies the weights aside before it returns, so that a snapshot holds what they were at the call, as float32;
    a thread writes them durably, whole or not at all. A snapshot that comes while the last one is being written waits
    for it. What a write raised (OSError: a full disk; ValueError: a weight that is not finite) the next step(), or the
    end of the block, raises.

    A folder has one recorder at a time (ValueError), which belongs to the process that made it: a fork's child is
    refused (RuntimeError), and so is a copy (TypeError).
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
        """After each optimiser step."""
        self._require_usable()
        self.steps += 1
        if self._writes and self._schedule.is_due(self.steps):
            self.snapshot()

    def snapshot(self, epoch: int | None = None) -> None:
        """A snapshot now, whatever the step; epoch: which it carries, by default that of the step."""
        self._require_usable()
        carried = self._schedule.epoch(self.steps) if epoch is None else whole_number(SCOPE, "epoch", epoch, 0)
        if not self._writes:
            return
        self.wait()
        self._recorded.copy(self._recording.weights, self._recording.buffers, self._recording.counters)
        path = self.folder / f"snapshot_{self.steps:08d}.h5"
        self._pending = self._writer.submit(self._recording.write, path, carried, self.steps)

    def wait(self) -> None:
        """Waits until the last snapshot is durable; raises what its write raised."""
        if self._pending is None or self._process != os.getpid():
            return
        try:
            self._pending.result()
        except Exception:  # the write's; after Ctrl-C the next wait() says how the write ended
            self._pending = None
            raise
        self._pending = None

    def close(self) -> None:
        """wait(), and the end of the thread; others may then record into the folder. Ctrl-C leaves it open."""
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
            f"{SCOPE} cannot be copied or pickled, as a folder has one recorder; make it in the process that trains"
        )

    def _require_usable(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"{SCOPE} needs the process {self._process} that made it, received a call in process {os.getpid()}, "
                "its fork; make the recorder in the process that trains"
            )
        if self._closed:
            raise ValueError(f"{SCOPE} is closed; to continue, make another recorder with first_step={self.steps}")

    def _open(self, goes_on: bool) -> _core.Recording:
        """The folder, for this recorder alone."""
        if not self.folder.is_dir() and self.folder.exists():
            raise ValueError(f"{SCOPE} needs a folder, received '{self.folder}', which is none")
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder.resolve()
        if goes_on:
            close_earlier(place)
        opened = _core.Recording(
            self.folder, *self._recorded.tables, self._recorded.lacks, self._recorded.frozen_digest
        )
        steps = [int(found[1]) for file in self.folder.iterdir() if (found := NAME.fullmatch(file.name))]
        if steps and not goes_on:
            opened.close()
            raise ValueError(
                f"{SCOPE} '{self.folder}' holds snapshots up to step {max(steps)}: "
                "choose another folder, or give first_step to continue"
            )
        self._go_on(opened, [step for step in steps if step <= self.steps])
        later = [step for step in steps if step > self.steps]
        if later:
            warnings.warn(
                f"{SCOPE} '{self.folder}' holds snapshots of steps after first_step={self.steps}, up to {max(later)}, "
                "which another course of the training left; each counts until its step comes",
                stacklevel=3,
            )
        recording[place] = self
        return opened

    def _go_on(self, opened: _core.Recording, steps: list[int]) -> None:
        """With the run of the newest snapshot, if the weights are of its course."""
        if not steps:
            return
        newest = max(steps)
        file = self.folder / f"snapshot_{newest:08d}.h5"
        self._recorded.copy(opened.weights, opened.buffers, opened.counters)
        try:
            goes_on = opened.go_on(file, SAME_STEP if newest == self.steps else EARLIER_STEP)
        except (RuntimeError, ValueError):  # damaged, which whoever reads the folder hears
            goes_on = False
        if not goes_on:
            warnings.warn(
                f"{SCOPE} '{file}' is not of this network's course, which is recorded as another run: dimred.fit "
                "refuses the two together; choose another folder, or restore the network before the recorder is made",
                stacklevel=4,
            )


def close_earlier(folder: Path) -> None:
    """The recorder that this process has in the folder, such as that of a training that broke off."""
    if earlier := recording.get(folder.resolve()):
        earlier.close()


def _rank() -> int:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))
