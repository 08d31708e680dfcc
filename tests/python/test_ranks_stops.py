"""Several ranks that are stopped, killed, restarted by a launcher, or do not fit together: all say why."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from cli import cli, rows
from ranks import PATIENCE, SMALL, ended, refused, run_ranks, started

# Every stop waits for the first epoch. A sign of life may take as long as by default, but where one has to be missed:
# other tests beside these may take the cores for seconds.
FEW = [
    *(option for option in SMALL if "train_samples" not in option and "heartbeat" not in option),
    "--train_samples=900",
]
LONG = ["stage1", *FEW, "--epochs=1000"]
SOON = "--heartbeat_timeout=4"  # where a rank has to be missed


def wait_for_training(run: Path, processes: list[subprocess.Popen]) -> None:
    """Waits until a first epoch is in the curve."""
    deadline = time.monotonic() + PATIENCE
    while not (run / "curve.csv").exists() or len(rows(run)) < 1:
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.02)


@pytest.mark.parametrize(("stop", "code", "later"), [(signal.SIGUSR1, 143, 2), (signal.SIGINT, 130, 3)])
def test_a_signal_to_one_rank_stops_all_with_the_step_saved(
    stop, code: int, later: int, tmp_path: Path, dimred: Path
) -> None:
    run = tmp_path / "run"
    with started(dimred, [*LONG, "--output", run], 3) as processes:
        wait_for_training(run, processes)
        processes[1].send_signal(stop)
        done = ended(processes)
    assert done.codes == [code] * 3, done.errors
    assert "stopped by a signal" in done.output[0]
    step = sorted((run / "checkpoints").iterdir())[-1].name
    before = rows(run)
    done = run_ranks(
        dimred, ["stage1", *FEW, f"--epochs={len(before) + 1}", "--total_epochs=1000", "--output", run], later
    )
    assert done.codes == [0] * later, done.errors
    assert f"step {int(step.split('_')[1])} of" in done.output[0]
    assert rows(run)[: len(before)] == before
    if later == 3:  # every epoch sends the same, also the one that was stopped and taken up
        sent = [0, *(int(row["wire_bytes"]) for row in rows(run))]
        assert len({after - since for since, after in pairwise(sent)}) == 1, sent


def test_a_signal_to_one_rank_stops_the_evaluation_of_all(tmp_path: Path, dimred: Path) -> None:
    """It would go on for many seconds, and there is no step before or after it."""
    small = ["--model=resnet56", "--precision=float32", "--train_samples=60", "--global_batch_size=60", "--threads=1"]
    done = run_ranks(dimred, ["stage1", *small, "--test_samples=10", "--epochs=1", "--output", tmp_path / "start"], 1)
    assert done.codes == [0], done.errors
    long = cli("stage2 --preset=sgd --epochs=0 --test_samples=10000 --threads=1", checkpoint=tmp_path / "start")
    with started(dimred, [*long, "--output", tmp_path / "run"], 2) as processes:
        while not (tmp_path / "run" / "curve.csv").exists():
            assert all(process.poll() is None for process in processes), ended(processes)
            time.sleep(0.02)
        time.sleep(0.5)
        processes[1].send_signal(signal.SIGTERM)
        done = ended(processes)
    assert done.codes == [143] * 2, done.errors
    assert "stopped by a signal" in done.output[0]
    assert len(rows(tmp_path / "run")) == 0


def test_a_second_interrupt_leaves_at_once(tmp_path: Path, dimred: Path) -> None:
    """The first would wait for the end of a step of many seconds."""
    run = tmp_path / "run"
    slow = cli("stage1 --model=resnet56 --batch_size=4000 --train_samples=4000 --test_samples=100 --threads=1")
    with started(dimred, [*slow, "--output", run], 1) as (process,):
        while not (run / "curve.csv").exists():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(2)  # before the step begins, the run would save where it stands
        process.send_signal(signal.SIGINT)
        time.sleep(0.8)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=3) == 130
    assert not (run / "checkpoints").exists()


def test_mpirun_and_srun_are_found(tmp_path: Path, dimred: Path) -> None:
    """Launchers are found by their own variables alone; the two ranks share a machine."""
    for launcher, variables in {
        "mpirun": [
            "OMPI_COMM_WORLD_RANK={}",
            "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_COMM_WORLD_LOCAL_RANK={}",
            "OMPI_COMM_WORLD_LOCAL_SIZE=2",
            f"PMIX_NAMESPACE={os.getpid()}",
        ],
        "srun": [
            "SLURM_PROCID={}",
            "SLURM_STEP_NUM_TASKS=2",
            "SLURM_LOCALID={}",
            f"SLURM_JOB_ID={os.getpid()}",
            "SLURM_STEP_NODELIST=localhost",
            "SLURM_STEP_TASKS_PER_NODE=2",
        ],
    }.items():
        command = [dimred, "stage1", *FEW, "--epochs=1", "--output", tmp_path / launcher]
        processes = [
            subprocess.Popen(
                ["env", *(v.format(rank) for v in variables), *map(str, command)],
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank in range(2)
        ]
        assert ended(processes).codes == [0, 0]
        assert '"ranks": 2' in (tmp_path / launcher / "manifest.json").read_text()


@pytest.mark.parametrize(("stop", "dead"), [(signal.SIGKILL, 2), (signal.SIGSTOP, 0)])
def test_a_dead_or_stopped_rank_ends_all_and_is_named(stop, dead: int, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "run"
    with started(dimred, [*LONG, SOON, "--output", run], 3) as processes:
        wait_for_training(run, processes)
        processes[dead].send_signal(stop)
        since = time.monotonic()
        others = ended([process for rank, process in enumerate(processes) if rank != dead])
        assert time.monotonic() - since < 10
        # It is ended with the others: a launcher would wait for it, and going on it would write.
        assert processes[dead].wait(timeout=PATIENCE) == -signal.SIGKILL
    assert others.codes == [1, 1]
    said = [line for text in others.errors for line in text.splitlines()]
    assert len(said) == 1, said
    assert said[0].startswith(f"dimred stage1: error: rank {dead} "), said


def wait_for_state(run: Path, process: subprocess.Popen) -> None:
    """Waits until there is something to resume from, which follows an epoch's row in the curve."""
    while not any(run.glob("checkpoints/state_*/state.json")):
        assert process.poll() is None, ended([process])
        time.sleep(0.02)


def torchrun_after(stop: signal.Signals, run: Path, restarts: int, *command: object) -> tuple[int, str, str]:
    """Exit code, output and errors of torchrun with two ranks, one of which gets the signal once it trains."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=2", "--standalone"]
    words = [*launcher, f"--max-restarts={restarts}", *command, SOON, "--output", run]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as torchrun:
        wait_for_training(run, [torchrun])
        wait_for_state(run, torchrun)
        victim = subprocess.run(["pgrep", "-n", "-f", str(run)], capture_output=True, text=True, check=True)
        os.kill(int(victim.stdout), stop)
        output, errors = torchrun.communicate(timeout=PATIENCE)
    return torchrun.returncode, output, errors


def test_torchruns_restart_goes_on_after_a_crash(tmp_path: Path, dimred: Path) -> None:
    """torchrun kills the others and starts all again; the run resumes and comes to its end."""
    run = tmp_path / "run"
    code, output, errors = torchrun_after(signal.SIGKILL, run, 1, dimred, "stage1", *FEW, "--epochs=10")
    assert code == 0, errors
    assert "continuing at epoch" in output
    assert len(rows(run)) == 10


def test_torchruns_restart_after_a_preemption_ends_at_once(tmp_path: Path, dimred: Path) -> None:
    """A rank that saved and left with 143 is a failure to torchrun; what it starts again must not train."""
    run = tmp_path / "run"
    code, output, _ = torchrun_after(signal.SIGTERM, run, 2, dimred, *LONG)
    assert code != 0
    assert "a signal has stopped this run, so this restart trains nothing" in output
    epochs = len(rows(run))
    done = run_ranks(dimred, ["stage1", *FEW, f"--epochs={epochs + 1}", "--total_epochs=1000", "--output", run], 2)
    assert done.codes == [0, 0], done.errors  # a start of its own goes on
    assert len(rows(run)) == epochs + 1


def test_a_world_that_does_not_fit_the_batch(tmp_path: Path, dimred: Path) -> None:
    done = run_ranks(dimred, ["stage1", "--global_batch_size=64", "--output", tmp_path / "run"], 3)
    refused(done, 2, "global_batch_size needs to be a multiple of the 3 ranks, received 64")
    done = run_ranks(dimred, ["stage1", "--global_batch_size=64", "--batch_size=30", "--output", tmp_path / "run"], 2)
    refused(done, 2, "batch_size x ranks = 60, received 64")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("first", "second"), [("seed=1", "seed=2"), ("model=convnet", "model=resnet20"), ("momentum=0.9", "momentum=0.8")]
)
def test_ranks_that_disagree(first: str, second: str, tmp_path: Path, dimred: Path) -> None:
    common = ["stage1", *FEW, "--output", tmp_path / "run"]
    done = run_ranks(dimred, [[*common, f"--{first}"], [*common, f"--{second}"]], 2)
    key, value = first.split("=")
    refused(done, 2, f"ranks disagree in {key}: rank 0 has ", "rank 1 has ", value)
    assert not (tmp_path / "run").exists()


def test_a_rank_alone_with_bad_arguments_is_heard(tmp_path: Path, dimred: Path) -> None:
    common = ["stage1", *FEW, "--output", tmp_path / "run"]
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
        arguments = ["stage1", *FEW, "--output", tmp_path / "run", "--rendezvous_timeout=1"]
        with started(dimred, arguments, 2, port) as processes:
            done = ended(processes)
    assert all(code == 1 for code in done.codes)
    assert done.errors[0].count("\n") == 1
    assert f"127.0.0.1:{port}: the port is in use" in done.errors[0]


def test_a_rank_that_never_comes(tmp_path: Path, dimred: Path) -> None:
    arguments = ["stage1", *FEW, "--output", tmp_path / "run", "--rendezvous_timeout=2"]
    with started(dimred, arguments, 2, WORLD_SIZE="3") as processes:
        done = ended(processes)
    refused(done, 1, "needs all 3 ranks at ", "within 2 s, but these ranks have not come: 2")
    assert not (tmp_path / "run").exists()


def test_an_error_of_rank_0_alone_ends_all(tmp_path: Path, dimred: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    done = run_ranks(dimred, ["stage1", *FEW, "--output", tmp_path / "run"], 3)
    refused(done, 2, "holds files, but no run of dimred")
