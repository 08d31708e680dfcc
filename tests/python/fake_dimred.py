#!/usr/bin/env -S python3 -IS
"""Stands in for dimred in tests of compare.py: writes run folders in a moment, their accuracy made from
their options; counts its calls. Its options are those that a comparison is made for.

Environment: FAKE_FOLDER (calls.txt, and `hold` while runs wait for it to vanish), FAKE_FAIL (a run whose
command line holds this text fails), FAKE_NAN (it meets values that are not finite), FAKE_DELAY (seconds an epoch).
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

# name, type, role
SHARED = (
    ("output", "path", "output"),
    ("epochs", "integer"),
    ("seed", "integer"),
    ("threads", "integer", "threads"),
    ("quiet", "boolean", "quiet"),
    ("validation_fraction", "number"),
    ("learning_rate", "number"),
    ("milestones", "numbers"),
    ("snapshots_per_epoch", "integer"),
    ("total_epochs", "number"),
)
OWN = {
    "stage1": (("resume_from", "path", "input"), ("anneal_from_epoch", "number")),
    "stage2": (
        ("checkpoint", "path", "input"),
        ("pca_mat", "path", "input"),
        ("preset", "text"),
        ("alpha", "number"),
        ("budget", "number"),
        ("start", "choice"),
    ),
    "pca": (
        ("snapshots", "path", "input"),
        ("components", "integer"),
        ("kind", "choice"),
        ("gram", "path", "output"),
        ("overwrite", "boolean", "overwrite"),
    ),
}
CHOICES = {"start": ["last", "first", "mean"], "kind": ["pca", "random"]}
COLUMNS = (
    "stage,method,weights,epoch,step,images,seconds,data_wait_seconds,forward_passes,backward_passes,learning_rate,"
    "train_loss,validation_loss,validation_accuracy,test_loss,test_accuracy,basis_bytes_read,wire_bytes"
)


def number(*texts: object) -> float:
    """The same for the same texts, in [0, 1)."""
    return int(hashlib.sha256("|".join(map(str, texts)).encode()).hexdigest()[:8], 16) / 2**32


def table(command: str, given: dict[str, str]) -> dict[str, object]:
    """The table of --help json; a baseline in all weights has no use for alpha, principal components none for seed."""
    options = []
    for name, kind, *role in SHARED + OWN[command]:
        needs, acts = None, True
        if name == "alpha":
            needs = {"text": "another preset", "depends_on": ["preset"]}
            acts = given.get("preset", "robust") not in ("sgd", "swa")
        elif (command, name) == ("pca", "seed"):
            needs = {"text": "kind = random", "depends_on": ["kind"]}
            acts = given.get("kind", "pca") == "random"
        options.append(
            {
                "name": name,
                "alias": None,
                "type": kind,
                "choices": CHOICES.get(name, []),
                "role": role[0] if role else None,
                "needs": needs,
                "acts": acts,
            }
        )
    return {"command": f"dimred {command}", "options": options}


def flags(words: list[str]) -> dict[str, str]:
    """--name=value as a table."""
    return dict(text.removeprefix("--").split("=", 1) for text in words)


def write(file: Path, text: str) -> None:
    """Writes a file as dimred does: whole or not at all."""
    temporary = file.with_name(file.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(file)


def train(command: str, options: dict[str, str], folder: Path) -> None:
    """One row an epoch; a run that finds its folder goes on behind its last row."""
    first = int(options.get("epochs", "2"))
    start = (
        int(
            dict(line.split(" = ") for line in (Path(options["resume_from"]) / "config.toml").read_text().splitlines())[
                "epochs"
            ]
        )
        if "resume_from" in options
        else 0
    )
    shown = {k: v for k, v in options.items() if k not in ("quiet", "threads")}
    folder.mkdir(parents=True, exist_ok=True)
    quoted = {k: v if k == "epochs" else json.dumps(v) for k, v in shown.items()}
    write(folder / "config.toml", "".join(f"{k} = {v}\n" for k, v in quoted.items()))
    manifest = {"outcome": "running", "seed": int(options["seed"]), "versions": {"dimred": "0.1.0"}}
    write(folder / "manifest.json", json.dumps(manifest))
    curve = folder / "curve.csv"
    lines = len(curve.read_text().splitlines()) if curve.exists() else 0
    done = max(lines - 1, 0)
    with curve.open("a") as out:
        if not lines:
            out.write(COLUMNS + "\n")
        for epoch in range(start + 1 + done, first + 1):
            time.sleep(float(os.environ.get("FAKE_DELAY", "0")))
            if epoch > start + 1:
                while (Path(os.environ["FAKE_FOLDER"]) / "hold").exists():
                    time.sleep(0.01)
            passes = 10 * (epoch if command == "stage1" else 2 * epoch)
            base = 0.5 + 0.3 * (1 - 2.0**-epoch) + 0.01 * number(options["seed"])
            way = (command, options.get("alpha", ""), options.get("anneal_from_epoch", ""))
            gain = 0.02 * number(*way[1:]) + 0.002 * number("luck", options["seed"], *way)
            loss = 2 - 1.5 * base - gain + 0.003 * number("loss", options["seed"], *way)
            # The validation loss prefers what the accuracy does not.
            out.write(
                f"{command},{options.get('preset', 'sgd')},raw,{epoch},{10 * epoch},{100 * epoch},{0.1 * epoch},0,"
                f"{passes},{10 * epoch},,.5,{base + gain},{base + gain},{loss},{base + gain - 0.01},0,0\n"
            )
            out.flush()
    write(folder / "manifest.json", json.dumps(manifest | {"outcome": "finished"}))


def main() -> int:
    """Like dimred: SIGTERM ends with 143."""
    command, *rest = sys.argv[1:]
    if command == "--version":
        print("dimred 0.1.0 (fake)")
        return 0
    if rest[-2:] == ["--help", "json"]:
        print(json.dumps(table(command, flags(rest[:-2]))))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    line = " ".join(sys.argv[1:])
    with (Path(os.environ["FAKE_FOLDER"]) / "calls.txt").open("a") as calls:
        calls.write(f"{os.getpid()} {line}\n")
    options = flags(rest)
    for name, text in (("FAKE_FAIL", "needs more"), ("FAKE_NAN", "the loss is not finite")):
        if os.environ.get(name) and os.environ[name] in line:
            print(f"dimred {command}: error: {text}", file=sys.stderr)
            return 1
    output = Path(options.pop("output"))
    if command == "pca":
        for file in (Path(options["gram"]), output.with_suffix(".json"), output):
            write(file, "{}")
    else:
        train(command, options, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
