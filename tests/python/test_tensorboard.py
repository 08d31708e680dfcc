"""TensorBoard's own readers on the event files that the trainers write."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from cli import cli
from fashion import few
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginAccumulator
from tensorboard.util import tensor_util

SMALL = cli(
    "--train_samples=300 --test_samples=100 --batch_size=50 --threads=1 --seed=3",
    "--validation_fraction=0.2 --tensorboard=true",
    data=few(),
)


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every tag."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def read_as_the_server(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The same through the reader of TensorBoard's server."""
    events = PluginAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


def of_csv(file: Path, every: int = 1) -> dict[str, list[tuple[int, float]]]:
    """What the events of a CSV have to say: its numbers, as float32."""
    expected: dict[str, list[tuple[int, float]]] = {}
    images = seconds = 0.0
    with file.open(newline="") as stream:
        for row in csv.DictReader(stream):
            prefix = row.get("weights", "step")
            step = int(row.pop("step"))
            values = {k: float(v) for k, v in row.items() if re.fullmatch(r"[-+.\de]+|-?nan|-?inf", v)}
            if "images" in values:
                done, time = values["images"] - images, values["seconds"] - seconds
                images, seconds = values["images"], values["seconds"]
                if done > 0 and time > 0:
                    values["images_per_second"] = done / time
            if step % every == 0:
                for column, value in values.items():
                    expected.setdefault(f"{prefix}/{column}", []).append((step, float(np.float32(value))))
    return expected


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute) -> Path:
    """A stage-1 run in three starts, of which the second was turned back by its curve, as a kill would."""
    run = tmp_path_factory.mktemp("tensorboard") / "one"
    options = ["stage1", *SMALL, "--snapshots_per_epoch=2", "--total_epochs=4", "--keep_checkpoints=9", "--output", run]
    execute("dimred", *options, "--epochs=1")
    execute("dimred", *options, "--epochs=3")
    newest = sorted((run / "checkpoints").iterdir())[-1]
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()  # the third epoch is done again
    execute("dimred", *options, "--epochs=4")
    return run


def test_the_curve_of_a_resumed_run_reads_back(run: Path) -> None:
    expected = of_csv(run / "curve.csv")
    assert [step for step, _ in expected["raw/test_accuracy"]] == [5, 10, 15, 20]
    assert {
        "raw/train_loss",
        "raw/validation_loss",
        "raw/learning_rate",
        "raw/seconds",
        "raw/forward_passes",
        "raw/images_per_second",
    } <= expected.keys()
    assert read(run) == expected
    assert read_as_the_server(run) == expected
    assert len(list(run.glob("events.out.tfevents.*"))) == 3


def test_a_tensorboard_that_looks_on_forgets_what_a_resume_repeats(run: Path, tmp_path: Path) -> None:
    """The accumulator has seen epochs 1 to 3 when the run goes on behind epoch 2."""
    files = sorted(run.glob("events.out.tfevents.*"))
    rows = (run / "curve.csv").read_text().splitlines()
    assert len(rows) == 5
    looking = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    (tmp_path / files[0].name).write_bytes(files[0].read_bytes())
    # As the second start had left it before it was cut: a row too many.
    (tmp_path / files[1].name).write_bytes(files[1].read_bytes() + last_record(files[2]))
    looking.Reload()
    assert len(looking.Scalars("raw/test_loss")) == 3
    (tmp_path / files[2].name).write_bytes(files[2].read_bytes())
    looking.Reload()
    assert [event.step for event in looking.Scalars("raw/test_loss")] == [5, 10, 15, 20]


def last_record(file: Path) -> bytes:
    """The last TFRecord of a file."""
    data, place, last = file.read_bytes(), 0, b""
    while place < len(data):
        size = int.from_bytes(data[place : place + 8], "little") + 16
        last = data[place : place + size]
        place += size
    return last


def test_stage2_writes_its_steps_too(run: Path, tmp_path: Path, execute, fails) -> None:
    options = cli(
        "stage2 --preset=robust --n_component=3 --batch_size=50 --threads=1", checkpoint=run, output=tmp_path / "two"
    )
    assert "tensorboard_steps has no effect: it needs tensorboard" in fails(2, *options, "--tensorboard_steps=2")
    execute("dimred", *options, "--epochs=1", "--tensorboard=true", "--tensorboard_steps=2")
    steps = read(tmp_path / "two" / "steps")
    assert steps == of_csv(tmp_path / "two" / "steps.csv", every=2)
    assert [step for step, _ in steps["step/loss"]] == [2, 4]
    # Other steps from now on, and the earlier ones are written again.
    execute("dimred", *options, "--epochs=2", "--tensorboard=true", "--tensorboard_steps=3")
    assert read(tmp_path / "two") == of_csv(tmp_path / "two" / "curve.csv")
    assert read(tmp_path / "two" / "steps") == of_csv(tmp_path / "two" / "steps.csv", every=3)
