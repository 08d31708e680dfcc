"""scripts/models_check.sh: a row for each of FastNN's networks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "lib" / "models"))
from library import FASTNN  # noqa: E402

DIMRED = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build")) / "bin" / "dimred"
ROW = "{:22} {:24} {:>6} {:>12}  {}"


def call(*words: object) -> str:
    """Standard output; RuntimeError with the last line of what went wrong."""
    environment = {**os.environ, "DIMRED_PYTHON": sys.executable}
    done = subprocess.run([DIMRED, *map(str, words)], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def row(name: str, folder: Path) -> tuple[str, str, str]:
    """Where the network is from, its parameters, and its loss before a step."""
    side, builder = FASTNN[name]
    native = isinstance(builder, str) and ":" not in builder
    model: str | Path = str(builder)
    if native:
        report = call("inspect", "--model", model, "--classes", 1001)
        parameters = re.search(r"parameters M\s+([\d,]+)", report)[1]  # type: ignore[index]
    else:
        model = folder / f"{name}.pt"
        report = call("model", name, "--num_classes", 1001, "--output", model)
        parameters = re.search(r": (\d+) parameters", report)[1]  # type: ignore[index]
    call(
        "stage1",
        "--dataset",
        "mock",
        "--mock_shape",
        f"3,{side},{side}",
        "--num_classes",
        1001,
        "--train_samples",
        2,
        "--test_samples",
        2,
        "--batch_size",
        2,
        "--epochs",
        1,
        "--snapshots_per_epoch",
        0,
        "--learning_rate",
        1e-4,
        "--model",
        model,
        "--output",
        folder / name,
    )
    manifest = json.loads((folder / name / "manifest.json").read_text())
    return (
        "built in" if native else builder if isinstance(builder, str) else "models/library.py",
        parameters,
        str(manifest["outcome"]),
    )


def main(names: list[str]) -> int:
    """The exit code."""
    failed = 0
    print(ROW.format("FastNN", "from", "images", "parameters", "one step"))
    for name in names or list(FASTNN):
        with tempfile.TemporaryDirectory() as folder:
            try:
                origin, parameters, status = row(name, Path(folder))
                print(ROW.format(name, origin, FASTNN[name][0], parameters, status), flush=True)
            except RuntimeError as error:
                failed = 1
                print(ROW.format(name, "", FASTNN[name][0], "", f"failed: {error}"), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
