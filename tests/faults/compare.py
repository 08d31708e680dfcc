"""What a run folder holds, apart from its times, so that two runs compare bit by bit."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

TIMES = ("seconds", "data_wait_seconds")  # what two equal runs may differ in
OF_TIMES = (*TIMES, "curve")  # curve.csv's length and digest depend on how its times are written
WHOLE_FILES = ("steps.csv", "final.h5", "pca_mat.npy", "pca_mat.json")
STATE_NAME = re.compile(r"state_\d{8,}")
SNAPSHOT_NAME = re.compile(r"snapshot_\d{8,}\.h5")

Content = dict[str, Any]


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in OF_TIMES}
    return value


def state_content(folder: Path) -> Content:
    """A state's files; state.json without times, without the digest over them, and without the list of snapshots, which
    follows --keep_snapshots."""
    content: Content = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix != ".json"}
    text = folder / "state.json"
    header = json.loads(text.read_text()) if text.exists() else {}
    content["state.json"] = without_times({key: header.get(key) for key in ("files", "scalars")})
    if content["state.json"]["scalars"]:
        content["state.json"]["scalars"].pop("snapshots", None)
    return content


def curve_rows(run: Path) -> list[dict[str, str]]:
    with (run / "curve.csv").open(newline="", errors="surrogateescape") as stream:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(stream)]


def states(run: Path) -> list[Path]:
    found = [path for path in (run / "checkpoints").glob("state_*") if STATE_NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def snapshots(run: Path) -> list[Path]:
    found = [path for path in (run / "snapshots").glob("*.h5") if SNAPSHOT_NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def step_of(path: Path) -> int:
    return int(path.stem.split("_")[1])


def content(run: Path) -> Content:
    """All that an uninterrupted run of the same command must have, too."""
    found: Content = {name: (run / name).read_bytes() for name in WHOLE_FILES if (run / name).exists()}
    if (run / "curve.csv").exists():
        found["curve.csv"] = curve_rows(run)
    if (run / "config.toml").exists():
        lines = (run / "config.toml").read_text(errors="surrogateescape").splitlines()
        found["config.toml"] = [line for line in lines if not line.startswith(("output = ", "# Written by"))]
    for state in states(run)[-1:]:
        found[state.name] = state_content(state)
    for snapshot in snapshots(run):
        found[snapshot.name] = snapshot.read_bytes()
    return found


def differences(expected: Content, found: Content) -> list[str]:
    """Names of what is missing, too much, or different."""
    return [name for name in sorted(expected.keys() | found.keys()) if expected.get(name) != found.get(name)]


def complete_files(run: Path) -> Content:
    """Every state, snapshot and matrix under its final name."""
    found: Content = {state.name: state_content(state) for state in states(run)}
    found |= {snapshot.name: snapshot.read_bytes() for snapshot in snapshots(run)}
    found |= {name: (run / name).read_bytes() for name in WHOLE_FILES[1:] if (run / name).exists()}
    return found


def incomplete(everything: Content, run: Path) -> list[str]:
    """Files under their final names that are not, bit by bit, what an undisturbed run writes."""
    return [name for name, value in complete_files(run).items() if everything.get(name) != value]


def leftovers(run: Path) -> list[str]:
    """Temporary files where no later save would remove them."""
    return sorted(path.name for path in run.glob("*.tmp"))


def newest_step(run: Path) -> int | None:
    found = states(run)
    return step_of(found[-1]) if found else None


def progress(run: Path) -> int:
    """The last step that the run has told of: a curve row or a snapshot."""
    steps = [step_of(path) for path in snapshots(run)]
    curve = run / "curve.csv"
    if curve.exists():
        # The last line may be cut off; its step is then unknown.
        lines = curve.read_text(errors="surrogateescape").split("\n")[1:-1]
        steps += [int(line.split(",")[4]) for line in lines if line.count(",") > 4]
    return max(steps, default=0)
