"""Our image pipeline against torchvision's DataLoader with as many worker processes, in turns.

    python experiments/benchmarks/image_peers.py build/bin/image_rate --photos FOLDER --folder FOLDER --json images.json

photos: JPEG files -> random area of 224 x 224, flip, normalised -> batches of 64. folder: CIFAR-like
files of one size -> pad-crop, flip, normalised -> batches of 128; the first epoch starts with the files,
ours keeps what it has decoded. Both folders hold class folders (or train/ with them). Rates are images a
second of the wall clock; the peer's include starting its workers in the first epoch only
(persistent_workers). Each of our runs is followed by one of the peer's; ratios are within that pair. And what part of a
ResNet-20 step's time dimred waits for these small files, in the first epoch and in later ones.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import processor

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "runs" / "benchmark" / "python"
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WAIT_EPOCHS = 3
Row = dict[str, Any]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="image_rate")
    parser.add_argument("--photos", type=Path, help="photographs of any size")
    parser.add_argument("--folder", type=Path, help="many small images of one size")
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20, help="epochs in which memory is measured")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="folder of the installed torchvision")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def install(folder: Path) -> None:
    """Puts the pinned peer into a folder of its own."""
    if not (folder / "torchvision").exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, "-r", str(REPOSITORY / "requirements" / "images.txt")], check=True)
    sys.path.insert(0, str(folder))


def classes_of(folder: Path) -> Path:
    """The folder that holds the class folders."""
    return folder / "train" if (folder / "train").is_dir() else folder


def ours(program: Path, *words: object) -> Row:
    """The figures of image_rate."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def peer_epochs(folder: Path, transform: Any, batch: int, workers: int, epochs: int) -> list[float]:
    """Seconds of each epoch of a shuffled DataLoader; the first from opening the folder on."""
    torch = importlib.import_module("torch")
    datasets = importlib.import_module("torchvision.datasets")
    begin = time.perf_counter()
    loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(folder, transform),
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
    )
    seconds = []
    for _ in range(epochs):
        for _images, _labels in loader:
            pass
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    return seconds


def transform_of(crop: str, size: int, **options: Any) -> Any:
    """The usual recipe for training: a crop of torchvision's, flip, normalised."""
    transforms = importlib.import_module("torchvision.transforms")
    return transforms.Compose(
        [
            getattr(transforms, crop)(size, **options),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, DEVIATION),
        ]
    )


def photos(options: argparse.Namespace) -> Row:
    """Rates of the second epoch, when the files are in the page cache and the workers have started."""
    folder = classes_of(options.photos)
    rows = []
    for _ in range(options.repeat):
        alone = ours(options.program, "decode", folder, 224)
        one = ours(options.program, "photos", folder, 224, 64, options.workers, 3)
        images = one["images"]
        peer = min(peer_epochs(folder, transform_of("RandomResizedCrop", 224), 64, options.workers, 3)[1:])
        mine = min(one["epoch_seconds"][1:])
        single = images / alone["seconds"]
        rows.append(
            {
                "ours": images / mine,
                "peer": images / peer,
                "ratio": peer / mine,
                "single_thread": single,
                "of_cores_times_single": images / mine / (options.workers * single),
                "stages_us": [one[key] for key in ("read_us", "decode_us", "transform_us")],
            }
        )
    memory = ours(options.program, "photos", folder, 224, 64, options.workers, options.epochs)["resident_megabytes"]
    return {"runs": rows, "megabytes_after_epoch": memory}


def small(options: argparse.Namespace) -> Row:
    """The first epoch with everything before it, and the later ones."""
    folder = classes_of(options.folder)
    for file in folder.rglob("*.*"):
        file.read_bytes()  # so that the first of ours does not wait for the disk alone
    rows = []
    for _ in range(options.repeat):
        one = ours(options.program, "folder", folder, 128, options.workers, 3)
        images = one["images"]
        first = one["open_seconds"] + one["epoch_seconds"][0]
        peer = peer_epochs(folder, transform_of("RandomCrop", 32, padding=4), 128, options.workers, 2)
        rows.append(
            {
                "ours_first": images / first,
                "peer_first": images / peer[0],
                "ratio_first": peer[0] / first,
                "ours_later": images / min(one["epoch_seconds"][1:]),
                "peer_later": images / peer[1],
                "ratio_later": peer[1] / min(one["epoch_seconds"][1:]),
            }
        )
    return {"runs": rows, "resnet20_waits": resnet20_waits(options)}


def resnet20_waits(options: argparse.Namespace) -> Row:
    """Seconds that steps waited for data, over all seconds, by epoch of a training run on the whole folder."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "--model=resnet20",
            "--pad=4",
            "--flip",
            "--batch_size=128",
            f"--epochs={WAIT_EPOCHS}",
            "--precision=auto",
            "--snapshots_per_epoch=0",
            f"--threads={options.workers}",
            "--test_samples=1000",
        ]
        subprocess.run(
            [options.dimred, "stage1", f"--data={options.folder}", *words, f"--output={folder}/run", "--quiet"],
            check=True,
        )
        rows = list(csv.DictReader(Path(folder, "run/curve.csv").read_text().splitlines()))
    totals = [(float(row["data_wait_seconds"]), float(row["seconds"])) for row in rows if row["weights"] == "raw"]
    before = [(0.0, 0.0), *totals[:-1]]
    return {
        "epochs": [(wait - waited) / (now - then) for (wait, now), (waited, then) in zip(totals, before, strict=True)]
    }


def show(name: str, rows: list[Row]) -> None:
    """Median and range of each number."""
    print(f"\n{name}")
    for key in (key for key, value in rows[0].items() if isinstance(value, float)):
        values = [row[key] for row in rows]
        print(f"  {key:24} {statistics.median(values):12.2f}   [{min(values):.2f}, {max(values):.2f}]")


def main() -> None:
    """Measures what folders were given for."""
    options = parse()
    install(options.packages)
    result: Row = {"processor": processor(), "workers": options.workers, "load_before": os.getloadavg()}
    if options.photos:
        result["photos"] = photos(options)
        show("photographs -> 224 x 224, images/s", result["photos"]["runs"])
        memory = result["photos"]["megabytes_after_epoch"]
        print(f"  resident megabytes after epoch 2 and {len(memory)}: {memory[1]:.1f}, {memory[-1]:.1f}")
    if options.folder:
        result["folder"] = small(options)
        show("small files, images/s", result["folder"]["runs"])
        waits = ", ".join(f"{100 * part:.3f} %" for part in result["folder"]["resnet20_waits"]["epochs"])
        print(f"  part of a ResNet-20 epoch that waits for data, by epoch: {waits}")
    result["load_after"] = os.getloadavg()
    print(f"  load averages before and after: {result['load_before'][0]:.1f}, {result['load_after'][0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
