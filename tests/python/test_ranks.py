"""Both stages on several ranks of this machine: results, resume on another number, failures."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ranks import PATIENCE, ended, run_ranks, started

SMALL = ["--train_samples=3000", "--test_samples=301", "--global_batch_size=60", "--threads=1",
         "--learning_rate=0.02", "--snapshots_per_epoch=8", "--heartbeat_timeout=2"]  # fmt: skip
TIMES = ("seconds", "data_wait_seconds")
LONG = ["stage1", *SMALL, "--epochs=1000"]


def rows(run: Path) -> list[dict[str, str]]:
    """curve.csv without its times."""
    with (run / "curve.csv").open(newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(stream)]


def vectors(run: Path) -> dict[str, np.ndarray]:
    """The newest resume state's float vectors."""
    state = sorted((run / "checkpoints").iterdir())[-1]
    return {file.stem: np.fromfile(file, np.float32) for file in state.glob("*.f32")}


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Relative."""
    return float(np.linalg.norm(one.astype(np.float64) - other) / np.linalg.norm(one))


@pytest.fixture(scope="module")
def dimred(binaries: Path) -> Path:
    """The command."""
    return binaries / "dimred"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, dimred: Path):
    """Stage 1 and stage 2 on 1, 2 and 3 ranks with the same global batch; made when first asked for."""
    folder = tmp_path_factory.mktemp("ranks")

    def run(stage: str, ranks: int) -> Path:
        output = folder / f"{stage}_{ranks}"
        if not output.exists():
            options = ["--epochs=1"]
            if stage == "stage2":
                options = ["--epochs=1", "--n_component=5", "--checkpoint", run("stage1", 1)]
            small = [option for option in SMALL if stage == "stage1" or "learning" not in option and "snap" not in option]
            done = run_ranks(dimred, [stage, *small, *options, "--output", output], ranks)
            assert done.codes == [0] * ranks, done.errors
            assert done.output[1:] == [""] * (ranks - 1)
        return output

    return run


@pytest.mark.parametrize("ranks", [2, 3])
def test_stage1_is_the_same_on_any_number_of_ranks(ranks: int, runs) -> None:
    """50 steps without BatchNorm: sums in another order alone. (A ReLU or a maximum that rounding turns
    over is a jump in the gradient; at this learning rate none does.)"""
    one, several = vectors(runs("stage1", 1)), vectors(runs("stage1", ranks))
    assert distance(one["weights"], several["weights"]) < 1e-5
    for before, now in zip(rows(runs("stage1", 1)), rows(runs("stage1", ranks)), strict=True):
        assert float(now["train_loss"]) == pytest.approx(float(before["train_loss"]), rel=1e-5)
        assert now["images"] == before["images"]
        assert now["test_accuracy"] == before["test_accuracy"]
        assert int(now["wire_bytes"]) > 0


@pytest.mark.parametrize("ranks", [3])
def test_stage2_is_the_same_on_any_number_of_ranks(ranks: int, runs) -> None:
    """50 steps: line searches take the same trials unless rounding decides one."""
    one, several = runs("stage2", 1), runs("stage2", ranks)
    assert np.abs(np.load(one / "pca_mat.npy") - np.load(several / "pca_mat.npy")).max() < 1e-6
    weights = [vectors(run)["weights"] for run in (one, several)]
    assert distance(*weights) < 1e-3


def test_the_same_ranks_give_the_same_bits(runs, tmp_path: Path, dimred: Path) -> None:
    first = runs("stage1", 3)
    again = tmp_path / "again"
    assert run_ranks(dimred, ["stage1", *SMALL, "--epochs=1", "--output", again], 3).codes == [0, 0, 0]
    assert {k: v.tobytes() for k, v in vectors(first).items()} == {k: v.tobytes() for k, v in vectors(again).items()}
    assert rows(first) == rows(again)


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_a_run_goes_on_with_another_number_of_ranks(stage: str, runs, tmp_path: Path, dimred: Path) -> None:
    """An epoch by 3 ranks, then 14 steps by 1, 2 or again 3 of them."""
    few = [option for option in SMALL if "samples" not in option] + ["--train_samples=840", "--test_samples=100"]
    options = [stage, *few, "--total_epochs=2"] if stage == "stage1" else [
        stage, "--global_batch_size=60", "--threads=1", "--n_component=5", "--checkpoint", runs("stage1", 1)]  # fmt: skip
    begun = tmp_path / "begun"
    assert run_ranks(dimred, [*options, "--epochs=1", "--output", begun], 3).codes == [0, 0, 0]
    ends = {}
    for ranks in (1, 2, 3):
        run = tmp_path / str(ranks)
        shutil.copytree(begun, run)
        done = run_ranks(dimred, [*options, "--epochs=2", "--output", run], ranks)
        assert done.codes == [0] * ranks, done.errors
        assert "continuing at epoch 1" in done.output[0]
        ends[ranks] = vectors(run)
    for ranks in (1, 2):
        for name in ("weights", "momentum" if stage == "stage1" else "residual_momentum"):
            assert distance(ends[3][name], ends[ranks][name]) < (1e-3 if name == "weights" else 5e-2)


@pytest.mark.parametrize("policy", ["averaged", "rank0", "synchronized"])
def test_batchnorm_policies(policy: str, tmp_path: Path, dimred: Path) -> None:
    """Synchronised statistics make BatchNorm independent of the ranks; 101 samples leave the last batch
    of 1 to one rank."""
    small = ["--train_samples=101", "--test_samples=50", "--global_batch_size=20", "--threads=1", "--model=resnet20",
             "--learning_rate=0.01", "--epochs=1", f"--batchnorm_statistics={policy}"]  # fmt: skip
    for ranks in (1, 2):
        done = run_ranks(dimred, ["stage1", *small, "--output", tmp_path / str(ranks)], ranks)
        assert done.codes == [0] * ranks, done.errors
    one, two = vectors(tmp_path / "1"), vectors(tmp_path / "2")
    apart = distance(one["buffers"], two["buffers"])
    assert apart < 5e-3 if policy == "synchronized" else 5e-3 < apart < 0.5


def test_gradient_accumulation_changes_only_rounding(runs, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "run"
    done = run_ranks(dimred, ["stage1", *SMALL, "--epochs=1", "--gradient_accumulation=4", "--output", run], 2)
    assert done.codes == [0, 0], done.errors
    assert distance(vectors(runs("stage1", 1))["weights"], vectors(run)["weights"]) < 1e-5


def wait_for_training(run: Path, processes: list[subprocess.Popen]) -> None:
    """Until a first epoch is in the curve."""
    deadline = time.monotonic() + PATIENCE
    while not (run / "curve.csv").exists() or len(rows(run)) < 1:
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.02)


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGUSR1, 143), (signal.SIGINT, 130)])
def test_a_signal_to_one_rank_stops_all_with_the_step_saved(stop, code: int, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "run"
    with started(dimred, [*LONG, "--output", run], 3) as processes:
        wait_for_training(run, processes)
        processes[1].send_signal(stop)
        done = ended(processes)
    assert done.codes == [code] * 3, done.errors
    assert "stopped by a signal" in done.output[0]
    step = sorted((run / "checkpoints").iterdir())[-1].name
    before = rows(run)
    done = run_ranks(dimred, ["stage1", *SMALL, f"--epochs={len(before) + 1}", "--total_epochs=1000", "--output", run], 2)
    assert done.codes == [0, 0], done.errors
    assert f"step {int(step.split('_')[1])} of" in done.output[0]
    assert rows(run)[: len(before)] == before


def test_a_second_interrupt_leaves_at_once(tmp_path: Path, dimred: Path) -> None:
    """The first would wait for the end of a step of many seconds."""
    run = tmp_path / "run"
    slow = ["stage1", "--model=resnet56", "--batch_size=4000", "--train_samples=4000", "--test_samples=100", "--threads=1"]
    with started(dimred, [*slow, "--output", run], 1) as (process,):
        while not (run / "curve.csv").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.8)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=1) == 130
    assert not (run / "checkpoints").exists()


def test_mpirun_and_srun_are_found(tmp_path: Path, dimred: Path) -> None:
    """By their own variables alone; the two ranks share a machine."""
    for launcher, variables in {
        "mpirun": ["OMPI_COMM_WORLD_RANK={}", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK={}",
                   "OMPI_COMM_WORLD_LOCAL_SIZE=2", f"PMIX_NAMESPACE={os.getpid()}"],
        "srun": ["SLURM_PROCID={}", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID={}", f"SLURM_JOB_ID={os.getpid()}",
                 "SLURM_STEP_NODELIST=localhost", "SLURM_STEP_TASKS_PER_NODE=2"],
    }.items():  # fmt: skip
        command = [dimred, "stage1", *SMALL, "--epochs=1", "--output", tmp_path / launcher]
        processes = [
            subprocess.Popen(["env", *(v.format(rank) for v in variables), *map(str, command)], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(2)
        ]  # fmt: skip
        assert ended(processes).codes == [0, 0]
        assert '"ranks": 2' in (tmp_path / launcher / "manifest.json").read_text()


@pytest.mark.parametrize(("stop", "dead"), [(signal.SIGKILL, 2), (signal.SIGSTOP, 0)])
def test_a_dead_or_stopped_rank_ends_all_and_is_named(stop, dead: int, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "run"
    with started(dimred, [*LONG, "--output", run], 3) as processes:
        wait_for_training(run, processes)
        processes[dead].send_signal(stop)
        since = time.monotonic()
        others = ended([process for rank, process in enumerate(processes) if rank != dead])
        assert time.monotonic() - since < 10
    assert others.codes == [1, 1]
    said = [line for text in others.errors for line in text.splitlines()]
    assert len(said) == 1, said
    assert said[0].startswith(f"dimred stage1: error: rank {dead} "), said


def test_torchruns_restart_goes_on_after_a_crash(tmp_path: Path, dimred: Path) -> None:
    """torchrun kills the others and starts all anew; the run resumes and comes to its end."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=2", "--standalone",
               "--max-restarts=1", str(dimred), "stage1", *SMALL, "--epochs=8", "--output", str(run)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as torchrun:
        wait_for_training(run, [torchrun])
        victim = subprocess.run(["pgrep", "-n", "-f", str(run)], capture_output=True, text=True, check=True)
        os.kill(int(victim.stdout), signal.SIGKILL)
        output, errors = torchrun.communicate(timeout=PATIENCE)
    assert torchrun.returncode == 0, errors
    assert "continuing at epoch" in output
    assert len(rows(run)) == 8


def test_torchruns_restart_after_a_preemption_ends_at_once(tmp_path: Path, dimred: Path) -> None:
    """A rank that saved and left with 143 is a failure to torchrun; what it starts anew must not train."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=2", "--standalone",
               "--max-restarts=3", str(dimred), *LONG, "--output", str(run)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as torchrun:
        wait_for_training(run, [torchrun])
        victim = subprocess.run(["pgrep", "-n", "-f", str(run)], capture_output=True, text=True, check=True)
        os.kill(int(victim.stdout), signal.SIGTERM)
        output, _ = torchrun.communicate(timeout=PATIENCE)
    assert torchrun.returncode != 0
    assert "stopped by a signal before this restart" in output
    epochs = len(rows(run))
    done = run_ranks(dimred, ["stage1", *SMALL, f"--epochs={epochs + 1}", "--total_epochs=1000", "--output", run], 2)
    assert done.codes == [0, 0], done.errors  # a start of its own goes on
    assert len(rows(run)) == epochs + 1


def refused(done, code: int, *texts: str) -> None:
    """Every rank leaves with the code, rank 0 alone says why, in one line."""
    assert done.codes == [code] * len(done.codes), done
    lines = [text.splitlines() for text in done.errors]
    assert len(lines[0]) == 1, done.errors
    assert lines[1:] == [[]] * (len(lines) - 1), done.errors
    for text in texts:
        assert text in lines[0][0]


def test_a_world_that_does_not_fit_the_batch(tmp_path: Path, dimred: Path) -> None:
    done = run_ranks(dimred, ["stage1", "--global_batch_size=64", "--output", tmp_path / "run"], 3)
    refused(done, 2, "global_batch_size needs a multiple of the 3 ranks, received 64")
    done = run_ranks(dimred, ["stage1", "--global_batch_size=64", "--batch_size=30", "--output", tmp_path / "run"], 2)
    refused(done, 2, "batch_size x ranks = 60, received 64")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("first", "second"), [("seed=1", "seed=2"), ("model=convnet", "model=resnet20"),
                                               ("momentum=0.9", "momentum=0.8")])  # fmt: skip
def test_ranks_that_disagree(first: str, second: str, tmp_path: Path, dimred: Path) -> None:
    common = ["stage1", *SMALL, "--output", tmp_path / "run"]
    done = run_ranks(dimred, [[*common, f"--{first}"], [*common, f"--{second}"]], 2)
    key, value = first.split("=")
    refused(done, 2, f"ranks disagree in {key}: rank 0 has ", "rank 1 has ", value)
    assert not (tmp_path / "run").exists()


def test_a_rank_alone_with_bad_arguments_is_heard(tmp_path: Path, dimred: Path) -> None:
    common = ["stage1", *SMALL, "--output", tmp_path / "run"]
    done = run_ranks(dimred, [common, [*common, "--momentom=0.8"]], 2)
    assert done.codes == [1, 2]
    assert "rank 1: " in done.errors[0]
    assert "did you mean --momentum?" in done.errors[0]
    assert done.errors[1] == ""


def test_a_port_in_use(tmp_path: Path, dimred: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["stage1", *SMALL, "--output", tmp_path / "run", "--rendezvous_timeout=3"]
        with started(dimred, arguments, 2, port) as processes:
            done = ended(processes)
    assert all(code == 1 for code in done.codes)
    assert done.errors[0].count("\n") == 1
    assert f"127.0.0.1:{port}: the port is in use" in done.errors[0]


def test_a_rank_that_never_comes(tmp_path: Path, dimred: Path) -> None:
    arguments = ["stage1", *SMALL, "--output", tmp_path / "run", "--rendezvous_timeout=2"]
    with started(dimred, arguments, 2, WORLD_SIZE="3") as processes:
        done = ended(processes)
    refused(done, 1, "of 3 ranks these have not come", "within 2 s: 2")
    assert not (tmp_path / "run").exists()


def test_an_error_of_rank_0_alone_ends_all(tmp_path: Path, dimred: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    done = run_ranks(dimred, ["stage1", *SMALL, "--output", tmp_path / "run"], 3)
    refused(done, 2, "holds files that are not a run of ours")


def test_pca_of_several_ranks(runs, tmp_path: Path, dimred: Path) -> None:
    """One matrix of three processes; every rank reads its own columns."""
    snapshots = runs("stage1", 1) / "snapshots"
    for ranks in (1, 3):
        done = run_ranks(dimred, ["pca", snapshots, "--components=5", "--output", tmp_path / f"p{ranks}.npy"], ranks)
        assert done.codes == [0] * ranks, done.errors
        assert done.output[1:] == [""] * (ranks - 1)
    assert np.abs(np.load(tmp_path / "p1.npy") - np.load(tmp_path / "p3.npy")).max() < 1e-6
    done = run_ranks(dimred, ["pca", snapshots, "--components=99", "--output", tmp_path / "q.npy"], 3)
    refused(done, 2, "n - 1 >= k")
    assert not list(tmp_path.glob("q.*"))


def test_evaluate_is_spread_over_ranks(runs, dimred: Path) -> None:
    """301 samples on 3 ranks, none dropped or counted twice."""
    printed = [run_ranks(dimred, ["evaluate", runs("stage1", 1), "--threads=1"], ranks) for ranks in (1, 3)]
    assert printed[0].output[0] == printed[1].output[0]
    assert "(301 samples)" in printed[1].output[0]


def test_ranks_with_another_matrix(runs, tmp_path: Path, dimred: Path) -> None:
    """Each host may have its own file of that name."""
    basis = np.load(runs("stage2", 1) / "pca_mat.npy")
    for rank, matrix in enumerate((basis, basis[::-1])):
        (tmp_path / str(rank)).mkdir()
        np.save(tmp_path / str(rank) / "p.npy", matrix)
    common = ["stage2", "--global_batch_size=60", "--n_component=5", "--checkpoint", runs("stage1", 1), "--epochs=1",
              "--output", tmp_path / "run", "--pca_mat=/proc/self/cwd/p.npy"]  # fmt: skip
    with started(dimred, common, 2, folders=[tmp_path / "0", tmp_path / "1"]) as processes:
        done = ended(processes)
    refused(done, 2, "ranks disagree in the projection matrix: ")
