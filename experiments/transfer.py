"""Fine-tunes of a pretrained network on 10 or 100 labelled images a class: subspaces against rivals of as many passes, over replicates.

    python experiments/grey_folder.py photographs cifar10_grey
    python experiments/transfer.py experiments/transfer/convnet_fashion.toml --output runs/transfer --base data=cifar10_grey --threads 1

One network is pretrained for all replicates. A replicate draws its labelled images, as many of each class, for training and as many more
for choosing; tunes the whole network, or the last layer, at a constant rate; and goes on from there in every arm for as many passes.
Stopped and started again it goes on where it was; `--rows FILE` keeps a line for each arm of a finished replicate, which is not run
again. Prints, for each number of images, each arm against the rival that held-out images choose, Holm-corrected, and the stop rule.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dimred.runs import read_runs, read_weights
from dimred.runs.snapshots import snapshot_files
from numpy.typing import NDArray
from workbench import readouts, replicates
from workbench.jobs import annealing, pair, train
from workbench.readouts import FASHION_MNIST, Floats, Judge, Samples
from workbench.replicates import Metric, PlanError, Row

RIVALS = ("constant", "mean", "annealed", "annealed_mean", "head", "head_whole")  # no subspace
# From the tuned network: in components of its own snapshots alone; beside an annealed residual; in random directions.
OWN = ("psgd_last", "psgd_mean", "robust_last", "robust_mean", "psgd_residual", "robust_residual", "random_mean")
# From the tuned last layer: in components of the pretraining's snapshots, or random ones; beside a free last layer but for robust.
FREE = ("psgd_pretrained", "psgd_random")
PRETRAINED = ("robust_pretrained", *FREE)
SIZE = {"begin_epochs", "epochs", "window", "batch_size", "learning_rate", "head_rate", "snapshots_per_epoch", "arms"}
CONTROLS = (("psgd_mean", "random_mean"), ("psgd_pretrained", "psgd_random"))  # each with the same in random directions
ALPHA = 0.01  # of the stop rule


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = replicates.read_tables(file, {"title", "question", "base_seed", "base", "tuned", "sizes"})
    if plan["base"].get("snapshots_per_epoch", 1) * plan["base"]["epochs"] < 3:
        raise PlanError(f"{file}: base needs 3 snapshots or more")
    for images, size in plan["sizes"].items():
        where = f"{file}: sizes.{images}"
        if not images.isdecimal() or not 0 < int(images) <= 3000:  # as many more are held out
            raise PlanError(f"{where} needs a number of images a class, from 1 to 3000")
        if wrong := sorted(SIZE ^ set(size)):
            raise PlanError(f"{where} {'needs' if wrong[0] in SIZE else 'has the unknown key'} {wrong[0]}")
        if not 2 <= size["window"] <= size["snapshots_per_epoch"] * min(size["begin_epochs"], size["epochs"]):
            raise PlanError(f"{where}.window needs 2 to all the snapshots of a phase, received {size['window']}")
        arms = {"head_whole", *OWN, *PRETRAINED}
        if wrong := sorted(arms ^ set(size["arms"])):
            raise PlanError(f"{where}.arms {'needs' if wrong[0] in arms else 'has the unknown arm'} {wrong[0]}")
    return plan


def drawn(labels: NDArray[np.uint8], images: int, replicate: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """So many of each class to train on, in no order, and so many others to choose by: a pure function of the numbers."""
    stream = np.random.default_rng([replicate, images])
    some = np.stack([stream.choice(np.flatnonzero(labels == label), 2 * images, replace=False) for label in np.unique(labels)])
    return stream.permutation(some[:, :images].ravel()), some[:, images:].ravel()


def draw_data(source: Path, folder: Path, images: int, replicate: int) -> None:
    """The folder of IDX files that a replicate trains on. Its test part are the held-out images: the trainer sees no other."""
    pixels, labels = (readouts.read_idx(source / f"train-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    for part, chosen in zip(("train", "t10k"), drawn(labels, images, replicate), strict=True):
        readouts.write_idx(folder, part, pixels[chosen], labels[chosen])


def directions(base: Path, head_size: int, count: int, replicate: int, kind: str) -> Floats:
    """[count, M], orthonormal, zero in the last layer, whose classes were others: principal components of the pretraining's
    snapshots, or random."""
    if kind == "random":
        size = len(read_weights(snapshot_files(base)[0])) - head_size
        made = np.linalg.qr(np.random.default_rng(replicate).standard_normal((size, count)))[0].T
    else:
        made = readouts.principal_directions(readouts.read_rows(snapshot_files(base))[:, :-head_size], count)
        made = made / np.linalg.norm(made, axis=1, keepdims=True)
    return np.pad(made.astype(np.float32), ((0, 0), (0, head_size)))


def train_arms(plan: dict[str, Any], size: dict[str, Any], folder: Path, common: dict[str, Any], base: Path, binary: Path) -> Path:
    """The runs of a size, each in the folder of its name; returns the weights that the arms of the tuned last layer begin with."""
    options = {"batch_size": size["batch_size"], "snapshots_per_epoch": size["snapshots_per_epoch"]}
    tuned = {**plan["tuned"], **common, **options, "data": folder / "data"}
    fresh = {"initialize_from": base, "checkpoint_exclude_patterns": "logits", "schedule": "constant", "epochs": size["begin_epochs"]}
    rate, head_rate = size["learning_rate"], size["head_rate"]
    last_layer = {"trainable_include_patterns": "logits"}
    train(binary, "stage1", folder / "whole", {**tuned, **fresh, "learning_rate": rate})
    train(binary, "stage1", folder / "last_layer", {**tuned, **fresh, **last_layer, "learning_rate": head_rate})
    goes_on = {"constant": ("whole", rate, rate, {}), "annealed": ("whole", rate, 0.0, {}),
               "head": ("last_layer", head_rate, 0.0, last_layer)}  # fmt: skip
    for name, (begun, first, end, further) in goes_on.items():
        phase = annealing(size["begin_epochs"], size["epochs"], first, end, size["snapshots_per_epoch"])
        train(binary, "stage1", folder / name, {**tuned, **phase, **further, "resume_from": folder / begun})
    train(binary, "stage1", folder / "head_whole", {**tuned, "schedule": "linear", "epochs": size["epochs"], "snapshot_initial": "true",
          "initialize_from": folder / "last_layer", **size["arms"]["head_whole"]})  # fmt: skip
    start = snapshot_files(folder / "head_whole")[0]  # the last layer, tuned, in the whole network
    of_arms = {**common, "batch_size": size["batch_size"], "budget": size["epochs"]}
    for name in OWN:
        arm = size["arms"][name]
        window = {"start_latest": size["window"]} if arm["start"] == "mean" else {}
        train(binary, "stage2", folder / name, {**of_arms, **window, **arm, "checkpoint": folder / "whole"})
    settings = dict(size["arms"]["robust_pretrained"])
    matrix = folder / "pretrained.npy"
    np.save(matrix, directions(base, head_size_of(folder), settings.pop("components"), common["seed"], "pretrained"))
    train(binary, "stage2", folder / "robust_pretrained", {**of_arms, "checkpoint": start, "pca_mat": matrix, **settings})
    return start


def head_size_of(folder: Path) -> int:
    """The weights of the last layer."""
    return len(readouts.last(folder / "last_layer"))


def weights_of(size: dict[str, Any], folder: Path, base: Path, judge: Judge, samples: Samples, start: Path, arm: str,
               seed: int) -> Floats:  # fmt: skip
    """The result of an arm."""
    if arm in ("constant", "annealed", "head_whole"):
        return readouts.last(folder / arm)
    if arm in ("mean", "annealed_mean"):
        return readouts.mean(readouts.read_rows(snapshot_files(folder / ("constant" if arm == "mean" else "annealed"))[-size["window"] :]))
    if arm == "head":
        return np.concatenate([read_weights(start)[: -head_size_of(folder)], readouts.last(folder / arm)])
    if arm in FREE:
        options = {"batch_size": size["batch_size"], "epochs": size["epochs"], **size["arms"][arm]}
        along = directions(base, head_size_of(folder), options["components"], seed, arm.removeprefix("psgd_"))
        return readouts.tuned_in_directions(judge, read_weights(start), along, samples, options, seed)
    found: Floats = read_weights(folder / arm / "final.h5")
    return found


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[Row]:
    """All of it, into output/replicate_<n>; a row for each number of images and arm."""
    torch.set_num_threads(options.threads)
    binary, common = options.dimred, {"threads": options.threads, "seed": replicate}
    base = options.output / "base"
    train(binary, "stage1", base,
          {**plan["base"], **dict(options.base), "threads": options.threads, "seed": plan["base_seed"], "test_samples": 64})  # fmt: skip
    made = []
    for images, size in plan["sizes"].items():
        folder = options.output / f"replicate_{replicate}" / f"images_{images}"
        draw_data(options.data, folder / "data", int(images), replicate)
        start = train_arms(plan, size, folder, common, base, binary)
        whole = folder / "whole"
        samples, held_out = (readouts.read_samples(folder / "data", part, whole) for part in ("train", "t10k"))
        test = readouts.read_samples(options.data, "t10k", whole)
        judge = Judge(plan["base"]["model"], test)
        for arm in EXPERIMENT.arms:
            began = time.process_time()
            w = weights_of(size, folder, base, judge, samples, start, arm, replicate)
            spent = time.process_time() - began
            if arm not in FREE:
                run = {"mean": "constant", "annealed_mean": "annealed"}.get(arm, arm)
                spent = read_runs([folder / run])[0].costs()["seconds"]
            validation, tested = judge.scores(w, held_out), judge.scores(w, test)
            made.append({"images": int(images), "kind": arm, "validation_loss": validation[0], "validation_accuracy": validation[1],
                         "test_loss": tested[0], "test_accuracy": tested[1], "epochs_of_passes": size["begin_epochs"] + size["epochs"],
                         "seconds": spent, "machine": replicates.machine_of(whole)})  # fmt: skip
    return made


def judged(whole: Sequence[Mapping[str, Row]], metric: Metric) -> tuple[str, list[str]]:
    """The best rival by the held-out metric, and the arms that are better in it on the test set with p < ALPHA after Holm over
    all arms."""
    sign = -1 if metric.name.endswith("loss") else 1
    held_out = metric.name.replace("test", "validation")
    rival = max(RIVALS, key=lambda arm: sign * statistics.fmean(found[arm][held_out] for found in whole))
    others = [(arm, rival) for arm in EXPERIMENT.arms if arm != rival]
    found = zip(others, replicates.paired(whole, others, metric), strict=True)
    return rival, [arm for (arm, _), (d, p) in found if arm not in RIVALS and sign * d.mean > 0 and p < ALPHA]


def report(rows: Sequence[Row]) -> str:
    """For each number of images a table by metric, its rival chosen by the same metric on held-out images; subspaces against random ones;
    and the stop rule."""
    parts = []
    for images in sorted({row["images"] for row in rows}):
        some = [row for row in rows if row["images"] == images]
        whole = replicates.whole_replicates(some, EXPERIMENT.arms)
        if not whole:
            return "no replicate is finished"
        parts.append(f"{images} images a class")
        for metric, chosen_by in zip(EXPERIMENT.metrics, CHOSEN_BY, strict=True):
            parts.append(replicates.table(some, replace(EXPERIMENT, metrics=(metric,), chosen_by=chosen_by)))
        for metric in EXPERIMENT.metrics if len(whole) > 1 else ():
            parts.append(replicates.pairs_table(whole, CONTROLS, metric))
            rival, better = judged(whole, metric)
            parts.append(f"Stop rule, {metric.title}, {images} images a class: {', '.join(better) or 'no subspace'} beats {rival}")
    return "\n\n".join(parts)


CHOSEN_BY = (Metric("validation_accuracy", "validation %"), Metric("validation_loss", "validation loss"))
EXPERIMENT = replicates.Experiment(
    arms=(*RIVALS, *OWN, *PRETRAINED),
    rivals=RIVALS,
    metrics=(Metric("test_accuracy", "test %"), Metric("test_loss", "test loss")),
    read_plan=read_plan,
    run=run_replicate,
    report=report,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    parser = replicates.parser(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, help="folder of the IDX files")
    parser.add_argument("--base", type=pair, nargs="*", action="extend", default=[], metavar="OPTION=VALUE", help="further options of the pretraining")
    return replicates.main(EXPERIMENT, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
