"""What a run does beside training: times, traces, an averaged copy, statistics, hooks by name, the same bits."""

from __future__ import annotations

import itertools
import json
import re
import resource
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, rows, rows_in
from compared_runs import newest_state
from fashion import few
from ranks import run_ranks

BASE = cli("--train_samples=320 --test_samples=100 --batch_size=32 --threads=1 --total_epochs=2", data=few())
TEN = [*BASE, "--epochs=1"]  # ten steps
FIVE = ["--train_samples=160", *BASE[1:], "--model=resnet20", "--epochs=1"]  # with BatchNorm
STEPS = 10


def step_times(run: Path) -> list[dict[str, float]]:
    return [{key: float(value) for key, value in row.items()} for row in rows_in(run / "step_times.csv")]


def traced(run: Path) -> dict[str, list[dict]]:
    """The complete events of each trace file, by its name."""
    found = {}
    for file in sorted(run.glob("trace_*")):
        events = json.loads(file.read_text())["traceEvents"]
        found[file.name] = [event for event in events if event["ph"] == "X"]
    return found


def values(file: Path) -> dict[str, np.ndarray]:
    with h5py.File(file) as h5:
        return {name: h5[name][:].astype(np.float64) for name in ("weights", "buffers")}


def test_step_times_go_on_where_the_state_stands(tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    options = [*BASE, "--epochs=2", "--time_history", "--output", run]
    execute("dimred", "stage1", *options, "--stop_at_step=14")
    first = (run / "step_times.csv").read_text()
    with (run / "step_times.csv").open("a") as file:  # steps of a process that was killed before its next state
        file.write("15,9.0,9.0,9.0\n")
    said = execute("dimred", "stage1", *options)
    assert (run / "step_times.csv").read_text().startswith(first)
    times = step_times(run)
    assert [row["step"] for row in times] == [*range(1, 2 * STEPS + 1)]
    for row in times:
        assert 0 <= row["data_wait_seconds"] <= row["seconds"] < 9
        assert row["images_per_second"] * row["seconds"] == pytest.approx(32, rel=0.02)  # six decimals of seconds
    total = float(rows_in(run / "curve.csv")[-1]["seconds"])
    assert 0.5 * total < sum(row["seconds"] for row in times) <= total + 0.001  # saves and hooks are the rest
    assert "duration of a step: median " in said


def test_the_summary_is_the_curves(tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    said = execute("dimred", "stage1", *TEN, "--output", run).splitlines()[-1]
    assert said.startswith("10 steps, 320 images in ")
    last = rows_in(run / "curve.csv")[-1]
    total, compute = (int(found.replace(",", "")) for found in re.findall(r"([\d,]+) (?:images/s|compute)", said))
    seconds, waited = float(last["seconds"]), float(last["data_wait_seconds"])
    found = re.search(r"images in ([\d.]+) (m?s): ", said)
    shown = float(found[1]) / (1000 if found[2] == "ms" else 1)
    assert seconds - 0.01 <= shown < seconds + 1  # the last state is saved after the row
    assert total == pytest.approx(320 / shown, rel=0.006 / shown + 0.002)  # two decimals are shown
    assert compute == pytest.approx(320 / (shown - waited), rel=0.008 / (shown - waited) + 0.002)
    memory = json.loads((run / "manifest.json").read_text())["details"]["peak_memory_bytes"]
    assert memory["device"] == 0
    assert 1e8 < memory["process"] < 1e10  # loading torch alone takes more than 100 MB
    shown = float(re.search(r"peak memory ([\d.]+) MB", said)[1])
    assert shown * 1e6 == pytest.approx(memory["process"], rel=0.02)


def test_traces_are_chromes_and_bounded(tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    options = [*BASE, "--epochs=2", "--profile_every_n_iters=4", "--output", run]
    execute("dimred", "stage1", *options, "--stop_at_step=10")
    assert list(traced(run)) == [f"trace_{step:08}.json" for step in (4, 8)]
    for events in traced(run).values():
        assert all(event["name"] and event["dur"] >= 0 for event in events)
        names = [event["name"] for event in events]
        for ours in ("step", "wait for data", "forward", "backward", "optimizer step"):
            assert names.count(ours) == 1, ours
        assert {"aten::convolution", "aten::addmm"} <= set(names)
        spans = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in events}
        inner = [spans[name] for name in ("wait for data", "forward", "backward", "optimizer step")]
        begin, end = spans["step"]
        assert begin <= inner[0][0] and inner[-1][1] <= end
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(inner))
        assert any(name.startswith("autograd::engine") for name in names)
    said = execute("dimred", "stage1", *BASE, "--epochs=2", "--profile_every_n_iters=1", "--output", run)
    assert "the profiler has recorded 10 traces and records no more" in said
    assert list(traced(run)) == [f"trace_{step:08}.json" for step in (4, 8, *range(11, 19))]


def test_a_trace_that_a_full_disk_cuts_gets_no_name(tmp_path: Path, binaries: Path) -> None:
    """A limit of a file's size stands for the disk. torch notices it, but not in what it writes last."""
    options = [*TEN, "--profile_every_n_iters=4", "--stop_at_step=5"]

    def trace(run: Path, limit: int) -> tuple[int, str]:
        done = subprocess.run(
            [binaries / "dimred", "stage1", *options, "--output", run],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            restore_signals=False,  # SIGXFSZ stays ignored, so that writes fail
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        return done.returncode, done.stderr

    assert trace(tmp_path / "whole", resource.RLIM_INFINITY)[0] == 0
    size = (tmp_path / "whole" / "trace_00000004.json").stat().st_size  # the next one's is some bytes off
    for missing in (size // 2, 2000, 1000, 500):
        run = tmp_path / str(missing)
        code, said = trace(run, size - missing)
        assert code == 1
        assert f"cannot write all of {run / 'trace_00000004.json'}; is the disk full?" in said
        assert list(run.glob("trace_*")) == []


def test_a_lost_curve_names_the_way_on(tmp_path: Path, execute, fails) -> None:
    run = tmp_path / "run"
    words = [*BASE, "--epochs=2", "--output", run]
    execute("dimred", "stage1", *words, "--stop_at_step=10")
    curve = (run / "curve.csv").read_bytes()
    for left in (None, curve[:-5], b"x" * len(curve)):  # gone, short, another
        (run / "curve.csv").unlink()
        if left is not None:
            (run / "curve.csv").write_bytes(left)
        said = fails(1, "stage1", *words)
        assert f"restore the file, or continue in another --output (for stage1 with --resume_from {run})" in said
        (run / "curve.csv").write_bytes(curve)
    execute("dimred", "stage1", *words)
    (run / "curve.csv").unlink()  # of a run that has ended, from which no other goes on
    said = fails(1, "stage1", *words)
    assert "restore the file" in said and "--resume_from" not in said


def test_other_lost_tables_name_the_way_on(tmp_path: Path, execute, fails) -> None:
    """The curve of stage 2, and the tables of steps beside it."""
    run, boost = tmp_path / "run", tmp_path / "boost"
    execute("dimred", "stage1", *TEN, "--snapshots_per_epoch=4", "--output", run)
    words = ["stage2", "--checkpoint", run, "--snapshots", run, *BASE[:4], BASE[-1], "--n_component=2"]
    words += ["--method=psgd", "--alpha_schedule=constant", "--time_history", "--output", boost]
    execute("dimred", *words, "--epochs=1")
    for name in ("curve.csv", "steps.csv", "step_times.csv"):
        table = (boost / name).read_bytes()
        for left in (None, table[:-5]):
            (boost / name).unlink(missing_ok=True)
            if left is not None:
                (boost / name).write_bytes(left)
            said = fails(1, *words, "--epochs=2")
            assert (
                f"{boost / name} is shorter than when the resume state was saved: needs at least {len(table)} bytes"
                in said
            )
            assert "restore the file, or continue in another --output" in said
        (boost / name).write_bytes(table)
    execute("dimred", *words, "--epochs=2")


def test_stage2_has_the_same_hooks(tmp_path: Path, execute, fails) -> None:
    run, boost = tmp_path / "run", tmp_path / "boost"
    execute("dimred", "stage1", *TEN, "--snapshots_per_epoch=8", "--output", run)
    said = execute(
        "dimred",
        "stage2 --n_component=4 --epochs=1 --batch_size=64 --threads=1 --time_history",
        "--profile_every_n_iters=3 --hooks=batches",
        checkpoint=run,
        output=boost,
    )
    assert [row["step"] for row in step_times(boost)] == [1, 2, 3, 4, 5]
    (events,) = traced(boost).values()
    assert [event["name"] for event in events].count("backward") == 1
    assert len(list((boost / "batches").glob("step_*.safetensors"))) == 5
    assert said.splitlines()[-1].startswith("5 steps, 320 images in ")
    error = fails(2, "stage2 --n_component=4 --hooks=bacthes", checkpoint=run, output=tmp_path / "other")
    assert "hooks needs names among batches, received bacthes; did you mean batches?" in error


def mean_of(points: list[dict[str, np.ndarray]], decay: float, warmup: bool) -> dict[str, np.ndarray]:
    mean = dict(points[0])
    for n, point in enumerate(points[1:], start=1):
        d = min(decay, (1 + n) / (10 + n)) if warmup else decay
        mean = {name: d * value + (1 - d) * point[name] for name, value in mean.items()}
    return mean


@pytest.fixture(scope="module")
def every_step(tmp_path_factory, execute) -> list[dict[str, np.ndarray]]:
    """Weights at the start, and weights and running statistics after each of five steps, with BatchNorm."""
    folder = tmp_path_factory.mktemp("steps")
    execute("dimred", "stage1", *FIVE, "--snapshots_per_epoch=5", "--output", folder / "all")
    # A step of 1e-30 leaves float32 weights where they were drawn; statistics are drawn as 0 and 1.
    execute(
        "dimred",
        "stage1",
        *FIVE,
        "--snapshots_per_epoch=5 --stop_at_step=1 --schedule=constant --learning_rate=1e-30",
        output=folder / "none",
    )
    (start,) = (folder / "none/snapshots").glob("*.h5")
    first = values(start)
    after = [values(file) for file in sorted((folder / "all/snapshots").glob("*.h5"))]
    assert len(after) == 5
    return [{"weights": first["weights"]}, *after]


@pytest.mark.parametrize(("decay", "warmup"), [(0.25, True), (0.9, False)])
def test_the_mean_follows_its_formula(decay: float, warmup: bool, every_step, tmp_path: Path, execute) -> None:
    """Against float64; five float32 updates round by 5 x 2^-24 of the largest value. With the warm-up the limit of
    0.25 is reached at update 2."""
    run = tmp_path / "run"
    execute("dimred", "stage1", *FIVE, f"--ema_decay={decay}", f"--ema_warmup={str(warmup).lower()}", "--output", run)
    found = values(run / "ema.h5")
    expected = mean_of(every_step, decay, warmup)["weights"]
    assert np.abs(found["weights"] - expected).max() < 1e-6 * np.abs(expected).max()
    raw = every_step[-1]["weights"]
    assert np.abs(found["weights"] - raw).max() > 1e-3 * np.abs(raw).max()  # and is no copy
    # Running means start at 0 and variances at 1.
    from_0, from_1 = (
        mean_of([{"buffers": np.full_like(found["buffers"], x)}, *every_step[1:]], decay, warmup)["buffers"]
        for x in (0.0, 1.0)
    )
    nearest = np.minimum(np.abs(found["buffers"] - from_0), np.abs(found["buffers"] - from_1))
    assert nearest.max() < 1e-6 * np.abs(from_1).max()


def test_the_mean_has_rows_a_file_and_resumes_bitwise(tmp_path: Path, execute) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*FIVE[:-1], "--epochs=2", "--ema_decay=0.9", "--time_history", "--hooks=batches"]
    execute("dimred", "stage1", *options, "--output", whole)
    execute("dimred", "stage1", *options, "--stop_at_step=7", "--output", parts)
    assert (parts / "ema.h5").exists()
    execute("dimred", "stage1", *options, "--output", parts)
    assert newest_state(parts) == newest_state(whole)
    assert {"ema_weights.f32", "ema_buffers.f32"} <= newest_state(whole).keys()
    assert (parts / "ema.h5").read_bytes() == (whole / "ema.h5").read_bytes()
    by_weights = {kind: [row for row in rows(whole) if row["weights"] == kind] for kind in ("raw", "ema")}
    assert [row["epoch"] for row in by_weights["ema"]] == [row["epoch"] for row in by_weights["raw"]] == ["1", "2"]
    assert [row["epoch"] for row in rows(parts) if row["weights"] == "ema"] == ["1", "1.4", "2"]
    last = by_weights["ema"][-1]
    assert last["train_loss"] == ""
    said = execute("dimred", "evaluate", whole / "ema.h5", "--threads=1")
    assert f"loss {float(last['test_loss']):.4f}" in said
    assert f"accuracy {100 * float(last['test_accuracy']):.2f} %" in said
    assert last["test_loss"] != by_weights["raw"][-1]["test_loss"]
    # The mean leaves the training alone, and another run takes it over.
    plain = tmp_path / "plain"
    execute("dimred", "stage1", *FIVE[:-1], "--epochs=2", "--output", plain)
    assert newest_state(plain).items() <= newest_state(whole).items()
    longer = [option for option in FIVE if "epochs" not in option] + ["--total_epochs=4", "--epochs=3"]
    on = [*longer, "--stop_at_step=11", "--ema_decay=0.9", "--ema_warmup=false", "--resume_from"]
    for before, mean in (
        (whole, "ema_weights.f32"),
        (plain, "weights.f32"),
    ):  # one more step from the mean, or the weights
        after = tmp_path / f"after_{before.name}"
        execute("dimred", "stage1", *on, before, "--output", after)
        state = newest_state(after)
        start, end = (np.frombuffer(data, np.float32) for data in (newest_state(before)[mean], state["weights.f32"]))
        expected = 0.9 * start.astype(np.float64) + 0.1 * end
        assert np.abs(np.frombuffer(state["ema_weights.f32"], np.float32) - expected).max() < 1e-6


def test_ranks_share_hooks(tmp_path: Path, dimred: Path) -> None:
    """One mean whatever the number of ranks, as near as the weights are; the trace is of the rank asked for."""
    options = cli(
        "stage1",
        *TEN[:2],
        "--global_batch_size=32 --threads=1 --epochs=1 --learning_rate=0.02 --ema_decay=0.9",
        "--time_history",
    )
    runs = {}
    for ranks in (1, 2):
        runs[ranks] = tmp_path / str(ranks)
        done = run_ranks(
            dimred,
            [*options, "--profile_every_n_iters=5", f"--profile_at_task={ranks - 1}", "--output", runs[ranks]],
            ranks,
        )
        assert done.codes == [0] * ranks, done.errors
        assert done.errors == [""] * ranks
    one, two = (values(run / "ema.h5")["weights"] for run in runs.values())
    assert np.linalg.norm(one - two) < 1e-5 * np.linalg.norm(one)
    assert [len(step_times(run)) for run in runs.values()] == [STEPS, STEPS]
    assert list(traced(runs[2])) == ["trace_00000005.json", "trace_00000010.json"]
    assert json.loads((runs[2] / "trace_00000005.json").read_text())["traceEvents"]
    refusal = run_ranks(dimred, [*options, "--profile_every_n_iters=5", "--profile_at_task=2", "--output", runs[2]], 2)
    assert refusal.codes == [2, 2]
    assert "profile_at_task needs one of the 2 ranks, counted from 0, received 2" in refusal.errors[0]


def test_the_learning_rate_finder_leaves_one_table(tmp_path: Path, execute, fails) -> None:
    table, again = tmp_path / "rates.csv", tmp_path / "again.csv"
    options = [*BASE[:4], BASE[5], "--steps=40", "--start_rate=1e-4"]
    said = execute("dimred", "stage1", f"--find_learning_rate={table}", *options)
    execute("dimred", "stage1", f"--find_learning_rate={again}", *options)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["again.csv", "rates.csv"]
    assert table.read_bytes() == again.read_bytes()
    step, rate, loss, smoothed = np.loadtxt(table, delimiter=",", skiprows=1, unpack=True)
    assert step.tolist() == [*range(1, len(step) + 1)]
    assert np.allclose(rate, 1e-4 * 1e5 ** ((step - 1) / 39), rtol=1e-8)
    mean, expected = 0.0, []  # as fastai's AvgSmoothLoss
    for i, x in enumerate(loss, start=1):
        mean = 0.98 * mean + 0.02 * x
        expected.append(mean / (1 - 0.98**i))
    assert np.allclose(smoothed, expected, rtol=1e-7)
    rates, losses = rate[4:-5], smoothed[4:-5]
    steepest = rates[(np.diff(losses) / np.diff(np.log(rates))).argmin()]
    assert (
        f"learning_rate: try {steepest:g} (where the loss falls fastest) or {rates[losses.argmin()] / 10:g} (a tenth"
        in said
    )
    assert loss[:10].mean() == pytest.approx(2.3, abs=0.3)  # chance, before anything is learnt
    grown = smoothed > 4 * np.minimum.accumulate(smoothed)
    assert grown.tolist() == [False] * (len(step) - 1) + [True]
    error = fails(2, "stage1", f"--find_learning_rate={table}", *options)
    assert "exists already; choose another --find_learning_rate or give --overwrite" in error
    assert "end_rate" in fails(2, "stage1", "--find_learning_rate=x.csv", "--start_rate=20")
    assert "--output: unknown option" in fails(2, "stage1", "--find_learning_rate=x.csv", "--output=run")


def test_deterministic_runs_have_the_same_bits(tmp_path: Path, execute, fails) -> None:
    options = ["--train_samples=96", *TEN[1:3], "--total_epochs=2", "--deterministic"]
    for name in ("one", "two"):
        execute("dimred", "stage1", *options, "--threads=2", "--epochs=1", "--output", tmp_path / name)
    assert newest_state(tmp_path / "one") == newest_state(tmp_path / "two")
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    error = fails(2, "stage1", *options, "--epochs=1", "--output", tmp_path / "three")
    assert "deterministic needs threads >= 1, because sums depend on the number of threads, received 0" in error
    error = fails(2, "stage1", *options, "--threads=1", "--epochs=2", "--output", tmp_path / "one")
    assert "the run has threads = 2, received 1" in error
    execute("dimred", "stage1", *options, "--threads=2", "--epochs=2", "--output", tmp_path / "one")


def test_model_statistics_add_up(tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    said = execute("dimred", "stage1", *TEN, "--print_model_statistics", "--output", run)
    header, *lines = said[said.index("layer ") :].splitlines()
    assert header.split() == ["layer", "kind", "weight", "output", "parameters", "multiply-adds"]
    layers = lines[: next(i for i, line in enumerate(lines) if " parameters, " in line)]
    counts = [int(re.split(r"  +", line.strip())[4].replace(",", "")) for line in layers]
    total = json.loads((run / "manifest.json").read_text())["parameters"]
    assert sum(counts) == total
    assert f"{total:,} parameters, " in said
    silent = execute("dimred", "stage1", *TEN, "--output", tmp_path / "silent")
    assert "multiply-adds" not in silent
    assert newest_state(tmp_path / "silent") == newest_state(run)
