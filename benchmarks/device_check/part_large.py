"""ResNet-50 in bfloat16: stage 1 against PyTorch, eager and compiled; a step of stage 2 against one of stage 1."""

from __future__ import annotations

import statistics
from pathlib import Path

from .check import Check, epoch_seconds, in_turns, require_disk, rows_of
from .figures import Figure, at_least, at_most, ratios
from .processes import Failed, Stopped

PARAMETERS = 25_557_032
# An option of this name: steps are captured, and the bar is torch.compile's own time.
GRAPHS = ("cuda_graphs", "cuda_graph", "graphs")


def options_of(check: Check, steps: int) -> dict[str, object]:
    """What both stages are told: images drawn at random, nothing else in the way."""
    sizes = check.sizes
    tuned: dict[str, object] = {"cudnn_autotune": "true"} if check.on_device else {}  # as the peers
    return tuned | {"dataset": "mock", "mock_shape": f"3,{sizes.side},{sizes.side}", "num_classes": sizes.large_classes,
            "train_samples": sizes.large_batch * steps, "test_samples": 16, "batch_size": sizes.large_batch,
            "model": sizes.large, "precision": "bfloat16", "memory_format": "channels_last"}  # fmt: skip


def stage1_step(check: Check) -> dict[str, float]:
    """Seconds a step in the second epoch."""
    run = check.folder("large")
    steps = check.sizes.large_steps
    check.train("stage1", run, **options_of(check, steps), epochs=2, snapshots_per_epoch=0, checkpoint_every=1000,
                learning_rate=0.001, quiet="true")  # fmt: skip
    seconds, compute = epoch_seconds(run)
    return {"dimred": seconds / steps, "dimred, without waits for data": compute / steps}


def peer_step(check: Check, compiled: bool) -> float:
    """Seconds a step of PyTorch."""
    sizes = check.sizes
    return check.peers.seconds_of("steps", check.left(), name=sizes.large, side=sizes.side, classes=sizes.large_classes,
                                  batch=sizes.large_batch, steps=sizes.large_steps, half=True,
                                  compiled=compiled)  # fmt: skip


def stage1(check: Check) -> None:
    """Batches of the peers lie on the device; ours come through the loader."""
    peers = {"PyTorch eager": False, "torch.compile": True}

    def one_round(turn: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for name in in_turns(["dimred", *peers], turn):
            if name == "dimred":
                found |= stage1_step(check)
            elif name in peers:
                try:
                    found[name] = peer_step(check, peers[name])
                except (Failed, Stopped) as error:
                    check.leave_out(name, str(error))
                    del peers[name]
        return found

    rounds = check.rounds(one_round)
    steps = [r["dimred"] for r in rounds]
    graphs = any(name in check.options for name in GRAPHS)
    bars = {"PyTorch eager": at_least(1.0), "torch.compile": at_least(1.0 if graphs else 0.95)}
    note = "" if graphs else "this build has no option for CUDA graphs: the bar is that without them"
    title = f"{check.sizes.large}, batch {check.sizes.large_batch}"
    for name, bar in bars.items():
        told = ratios(rounds, name, "dimred")
        check.add(Figure(f"{title}, stage 1: {name} / ours", told, "x", bar, rounds, note if bar.bound < 1 else ""))
        check.add(Figure(f"the same without our waits for data: {name} / ours",
                         ratios(rounds, name, "dimred, without waits for data"), "x"))  # fmt: skip
    check.add(Figure("our stage 1", [check.sizes.large_batch / s for s in steps], "images/s"))


def stage2_step(check: Check, start: Path, matrix: Path) -> tuple[float, str]:
    """Mean seconds of the later half of the steps, each of one trial, and how many trials were accepted."""
    run = check.folder("large2")
    steps = check.sizes.large_steps
    check.train("stage2", run, **options_of(check, 2 * steps), epochs=1, checkpoint=start, pca_mat=matrix, trials=1,
                recalibrate_batchnorm="false", time_history="true", quiet="true")  # fmt: skip
    told = rows_of(run / "steps.csv")[steps:]
    accepted = sum(row["outcome"] == "accepted" for row in told)
    times = [float(row["seconds"]) for row in rows_of(run / "step_times.csv")[steps:]]
    return statistics.fmean(times), f"{accepted} of {len(told)} trials were accepted"


def stage2(check: Check) -> None:
    """A step with one trial against stage 1's; what algebra takes of it."""
    sizes = check.sizes
    if sizes.large == "resnet50":
        require_disk(check.scratch, 4.0 * PARAMETERS * (sizes.components + 6))
    start, first = check.folder("large_start"), check.folder("large_first")
    check.train("stage1", start, **options_of(check, 1), epochs=1, snapshots_per_epoch=1, learning_rate=0.001,
                quiet="true")  # fmt: skip
    check.train("stage2", first, **options_of(check, 1), epochs=1, checkpoint=start, basis="random",
                n_component=sizes.components, trials=1, recalibrate_batchnorm="false", quiet="true")  # fmt: skip
    notes: list[str] = []

    def one_round(turn: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for name in in_turns(["stage 1", "stage 2"], turn):
            if name == "stage 1":
                found[name] = stage1_step(check)["dimred"]
            else:
                found[name], note = stage2_step(check, start, first / "pca_mat.npy")
                notes.append(note)
        return found

    rounds = check.rounds(one_round)
    title = f"{sizes.large}, batch {sizes.large_batch}"
    check.add(Figure(f"{title}: a step of stage 2 / of stage 1", ratios(rounds, "stage 2", "stage 1"), "x", at_most(1.45),
                     rounds, notes[-1]))  # fmt: skip
    if "algebra" in check.shared:
        algebra = statistics.median(check.shared["algebra"])
        check.add(Figure(f"{title}: stage 2's algebra of a step", [100 * algebra / r["stage 1"] for r in rounds], "%",
                         at_most(2)))  # fmt: skip
    else:
        check.leave_out("stage 2's algebra of a step", "the part `algebra` has no figure for it")
    for folder in ("large_first", "large_start"):
        check.folder(folder)
