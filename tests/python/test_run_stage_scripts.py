"""scripts/run_stage_1.sh and run_stage_2.sh: how many ranks they start, with which options, and how long a schedule."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli import cli, completed
from conftest import REPOSITORY
from fashion import few
from PIL import Image

LAUNCHER = "scripts/local_ranks.py"
NO_LENGTH = json.dumps({"options": [{"name": "end_learning_rate", "value": 0, "acts": False}]})
LAUNCHED = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "CUDA_VISIBLE_DEVICES")


@pytest.fixture
def answers(tmp_path: Path):
    """The scripts in a repository whose programs print their arguments; of the schedule's length $ASKED decides."""
    shutil.copytree(REPOSITORY / "scripts", tmp_path / "scripts")
    says = 'echo "$(basename "$0") $*"'
    gpus = "printf 'GPU 0: A (UUID: GPU-a)\\nGPU 1: B (UUID: GPU-b)\\nGPU 2: C (UUID: GPU-c)\\n'"
    answer = f"""[ -z "${{ASKED:-}}" ] || exec "$ASKED" "$@"; echo '{NO_LENGTH}'; exit"""
    asked = f"""case "$*" in *"--help json") {answer} ;; esac"""
    chosen = f"""case "$1" in *schedule_length.py) exec {sys.executable} "$@" ;; esac"""
    texts = {"build/bin/dimred": f"{asked}\n{says}", ".venv/bin/python": f"{chosen}\n{says}", "tools/nvidia-smi": gpus}
    for program, text in texts.items():
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / program).chmod(0o755)

    def call(script: str, *arguments: str, gpus: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in LAUNCHED} | variables
        environment["PATH"] = f"{tmp_path / 'tools'}:{environment['PATH']}" if gpus else "/usr/bin:/bin"
        return completed([tmp_path / "scripts" / script, *arguments], env=environment)

    return call


def test_one_rank_is_the_program_itself(answers) -> None:
    assert (
        answers("run_stage_1.sh", "DATA", "--epochs", "2").stdout
        == "dimred stage1 --data DATA --output runs/stage1 --epochs 2\n"
    )
    assert answers("run_stage_1.sh", "default", "--ranks", "1", "--output=o").stdout == "dimred stage1 --output=o\n"
    said = answers("run_stage_2.sh", "DATA", "RUN", "P.npy", "--boost", "boost.json", "--ranks=1")
    assert (
        said.stdout
        == "dimred stage2 --checkpoint RUN --data DATA --pca_mat P.npy --output runs/stage2 --boost boost.json\n"
    )


def test_default_data_are_refused_for_a_run_on_other_data(answers, tmp_path: Path) -> None:
    for name, data in (("own", "/data/own"), ("fashion", ""), ("named", "/usr/share/datasets/fashion-mnist")):
        (tmp_path / name / "checkpoints" / "state_1").mkdir(parents=True)
        (tmp_path / name / "config.toml").write_text(f'data = "{data}"\ndataset = "auto"\n')
    for checkpoint in (tmp_path / "own", tmp_path / "own" / "final.h5", tmp_path / "own" / "checkpoints" / "state_1"):
        done = answers("run_stage_2.sh", "default", str(checkpoint))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"is Fashion-MNIST, but {checkpoint} was trained on /data/own; give DATA as /data/own" in done.stderr
    for checkpoint in (tmp_path / "fashion", tmp_path / "named", tmp_path / "no run"):
        done = answers("run_stage_2.sh", "default", str(checkpoint))
        assert done.stdout == f"dimred stage2 --checkpoint {checkpoint} --output runs/stage2\n"


def test_several_ranks_are_started_by_torchrun(answers) -> None:
    for ranks in (["--ranks", "4"], ["--ranks=4"]):
        [line] = answers("run_stage_1.sh", "DATA", *ranks, "--epochs=2").stdout.splitlines()
        assert f"{LAUNCHER} 4 " in line and line.endswith(
            "bin/dimred stage1 --data DATA --output runs/stage1 --epochs=2"
        )


@pytest.fixture
def launched(tmp_path: Path):
    """scripts/local_ranks.py on two ranks of a program of this text."""
    program = tmp_path / "program"

    def start(text: str) -> subprocess.Popen[str]:
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
        command = [sys.executable, REPOSITORY / "scripts" / "local_ranks.py", "2", program, "stage1"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def test_options_are_checked_before_ranks_start(launched) -> None:
    process = launched('echo "$@"; [ "${*: -1}" != --check_options ] || exit 2')
    assert process.communicate(timeout=60) == ("stage1 --check_options\n", "")
    assert process.returncode == 2


def test_ranks_say_what_they_say_and_no_more(launched) -> None:
    process = launched(
        '[ "${*: -1}" != --check_options ] || exit 0; [ "$RANK" = 0 ] || { echo "error: so it is" >&2; exit 3; }; '
        "sleep 9"
    )
    assert process.communicate(timeout=60) == ("2 ranks on this machine, by torchrun\n", "error: so it is\n")
    assert process.returncode == 3


def test_an_interrupt_is_passed_on_and_ends_in_130(launched) -> None:
    process = launched("""[ "${*: -1}" != --check_options ] || exit 0
        trap 'echo stopped; exit 130' INT TERM; echo ready; for ((;;)); do sleep 0.1; done""")
    assert [process.stdout.readline() for _ in range(3)][1:] == ["ready\n", "ready\n"]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("stopped\nstopped\n", "")
    assert process.returncode == 130


def test_each_cuda_device_has_a_rank(answers) -> None:
    said = answers("run_stage_1.sh", "DATA", gpus=True).stdout
    assert f"{LAUNCHER} 3 " in said and said.endswith("--output runs/stage1 --device cuda\n")
    assert f"{LAUNCHER} 2 " in answers("run_stage_1.sh", "DATA", gpus=True, CUDA_VISIBLE_DEVICES="0,2").stdout
    for wrong in ("", "junk,1", "7"):
        assert answers("run_stage_1.sh", "DATA", gpus=True, CUDA_VISIBLE_DEVICES=wrong).stdout.startswith(
            "dimred stage1 "
        )
    assert answers("run_stage_1.sh", "DATA", CUDA_VISIBLE_DEVICES="0,1").stdout.startswith(
        "dimred stage1 "
    )  # no device at all
    assert (
        f"{LAUNCHER} 2 " in answers("run_stage_1.sh", "DATA", gpus=True, CUDA_VISIBLE_DEVICES="0,GPU-b,junk,1").stdout
    )
    assert f"{LAUNCHER} 3 " in answers("run_stage_1.sh", "DATA", "--device", "cuda", gpus=True).stdout
    for ranks in (1, 3, 4):  # NCCL takes no two ranks of one device
        said = answers("run_stage_1.sh", "DATA", f"--ranks={ranks}", gpus=True).stdout
        assert said.endswith("--device cuda\n") == (ranks <= 3)
    for options in (["--device=cpu"], ["--device", "cuda:1"], ["--config", "mine.toml"]):
        said = answers("run_stage_1.sh", "DATA", *options, gpus=True).stdout
        assert said.startswith("dimred stage1 ") and "--device cuda\n" not in said
    assert answers("run_stage_1.sh", "DATA", gpus=True, WORLD_SIZE="2").stdout.startswith("dimred stage1 ")


@pytest.mark.parametrize("ranks", ["0", "two", "-1", "", "1e3"])
def test_other_numbers_of_ranks_are_refused(ranks: str, answers) -> None:
    done = answers("run_stage_2.sh", "DATA", "RUN", f"--ranks={ranks}")
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1
    assert "run_stage_2.sh: error: --ranks needs a number in [1, 9999]" in done.stderr


def test_a_rank_starts_no_ranks(answers) -> None:
    done = answers("run_stage_1.sh", "DATA", "--ranks=2", SLURM_STEP_NUM_TASKS="4")
    assert done.returncode == 2 and "no launcher around it" in done.stderr


@pytest.fixture
def lengths(answers, binaries: Path):
    """The lines that run_stage_1.sh says before it starts the program, and the program's --total_epochs."""

    def call(*options: object, **variables: str) -> tuple[list[str], str]:
        words = map(str, options)
        done = answers("run_stage_1.sh", "DATA", *words, ASKED=str(binaries / "dimred"), **variables)
        assert done.returncode == 0, done.stderr
        *lines, command = done.stdout.splitlines()
        assert command.startswith("dimred stage1 --data DATA ")
        return lines, command.partition(" --total_epochs ")[2]

    return call


@pytest.mark.parametrize(("epochs", "total"), [(70, "90"), (20, "26"), (18, "24"), (90, "116"), (1, "2")])
def test_a_new_run_stops_at_70_of_90_parts_of_its_schedule(epochs: int, total: str, lengths, tmp_path: Path) -> None:
    [line], given = lengths("--epochs", epochs, "--output", tmp_path / "new")
    assert given == total
    stops = f"the schedule has {total} epochs, and training stops after {epochs}, while the learning rate is still high"
    assert stops in line
    assert f"--total_epochs {epochs} lets the rate fall" in line


def test_a_file_of_options_counts_as_the_options_themselves(lengths, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text("epochs = 7\nmomentum = 0.9\n")
    (tmp_path / "long.toml").write_text("epochs = 7\ntotal_epochs = 90.0\n")
    here = ["--output", tmp_path / "new", "--config"]
    assert lengths(*here, tmp_path / "short.toml")[1] == "9"
    assert lengths(*here, tmp_path / "short.toml", "--epochs=14")[1] == "18"
    assert lengths(*here, tmp_path / "long.toml") == ([], "")


@pytest.mark.parametrize(
    "option",
    cli(
        "--total_steps=100 --schedule=constant --anneal_from_epoch=18 --help --fastnn=hyper_parameters",
        "--find_learning_rate=rates.csv",
    ),
)
def test_schedules_that_somebody_has_chosen_are_left_alone(option: str, lengths, tmp_path: Path) -> None:
    assert lengths("--epochs=20", "--output", tmp_path / "new", option) == ([], "")


def test_a_given_length_is_the_length(answers, binaries: Path) -> None:
    for given in (["--total_epochs", "20"], ["--total-epochs=0"]):
        said = answers("run_stage_1.sh", "DATA", "--epochs=20", *given, ASKED=str(binaries / "dimred")).stdout
        assert said == f"dimred stage1 --data DATA --output runs/stage1 --epochs=20 {' '.join(given)}\n"


def test_the_length_is_said_once_and_not_by_quiet_runs(lengths, tmp_path: Path) -> None:
    new = ["--epochs=20", "--output", tmp_path / "new"]
    assert lengths(*new, "--quiet") == ([], "26")
    assert lengths(*new, RANK="1", WORLD_SIZE="2") == ([], "26")
    assert len(lengths(*new, RANK="0", WORLD_SIZE="2")[0]) == 1


def test_an_output_elsewhere_is_told_how_to_keep_its_rate(lengths) -> None:
    [line], given = lengths("--epochs=20", "--output=s3://bucket/run")
    assert given == "" and "--total_epochs 26 keeps the rate high" in line


@pytest.mark.parametrize(("epochs", "kept"), [(20, "26"), (24, "26"), (26, ""), (30, "")])
def test_a_run_that_is_there_keeps_its_schedule(epochs: int, kept: str, lengths, tmp_path: Path) -> None:
    run, state = tmp_path / "run", tmp_path / "run" / "checkpoints" / "state_000018"
    state.mkdir(parents=True)
    (run / "config.toml").write_text("epochs = 20\ntotal_epochs = 26.0\n")
    lines = [f"{run} keeps its schedule of 26 epochs"] if kept else []
    assert lengths(f"--epochs={epochs}", "--output", run) == (lines, kept)
    for source in (run, state):  # continued in another folder
        assert lengths(f"--epochs={epochs}", "--output", tmp_path / "new", "--resume_from", source) == (lines, kept)


def test_a_file_above_a_new_output_is_no_run_of_it(lengths, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("of another program")
    assert lengths("--epochs=20", "--output", tmp_path / "runs" / "new")[1] == "26"


def test_what_the_program_refuses_is_said_by_it(answers, binaries: Path) -> None:
    done = answers("run_stage_1.sh", "DATA", "--epochs=2x", ASKED=str(binaries / "dimred"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dimred stage1: error: --epochs: needs a whole number >= 1, received 2x\n"


def test_the_same_command_resumes_a_run_of_the_longer_schedule(desk: Path, tmp_path: Path) -> None:
    small = ["--train_samples=128", "--test_samples=64", "--threads=1", "--output", tmp_path / "run"]

    def call(epochs: int) -> subprocess.CompletedProcess[str]:
        command = [desk / "scripts" / "run_stage_1.sh", few(), *small, f"--epochs={epochs}"]
        return completed(command)

    assert "rate 0.03333" in call(2).stdout  # 0.1 (1 - 2 / 3)
    assert "finished already, at epoch 2" in call(2).stdout
    assert "rate 0 " in call(3).stdout
    beyond = call(4)
    assert (
        beyond.returncode == 2
        and "has total_epochs = 3, received 4; the schedule of this run ends with the rate 0" in beyond.stderr
    )


def test_photographs_get_a_network_that_was_made_for_them(tmp_path: Path, desk: Path) -> None:
    generator = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (tmp_path / "photographs" / label).mkdir(parents=True)
        for i in range(2):
            pixels = generator.integers(0, 255, (40 + 3 * i, 60 - 2 * i, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photographs" / label / f"{i}.jpg")
    command = cli(
        desk / "scripts" / "run_stage_1.sh",
        tmp_path / "photographs",
        "--global_batch_size=4 --threads=1 --snapshots_per_epoch=0",
        output=tmp_path / "run",
    )
    done = completed([*command, "--ranks=2"])
    assert done.returncode == 0, done.stderr
    assert "2 ranks on this machine" in done.stdout
    assert (
        "the images differ in size, so this run uses --model resnet18 --preprocessing_name imagenet --image_size 224, "
        "the usual settings of resnet18" in done.stdout
    )
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["ranks"] == 2
    assert 'model = "resnet18"' in (tmp_path / "run" / "config.toml").read_text()
    again = completed(command)
    assert again.returncode == 0 and "finished already, at epoch 1" in again.stdout, again.stderr
