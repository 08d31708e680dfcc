"""`dimred import`, and stage 1 from FastNN's hyper-parameter file as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli import rows_in

# The seed documents' example, its misspelt first key included.
EXAMPLE = """enable_paisora=True
batch_size=128
use_fp16=True
dataset_name=flowers
dataset_dir=oss://pai-online-beijing.oss-cn-beijing-internal.aliyuncs.com/fastnn-data/flowers/
model_name=inception_resnet_v2
optimizer=sgd
num_classes=5
job_name=worker
"""

# The same kind of file for what is at hand: a network of ours is named by a flag.
RUNNABLE = """enable_paisoar=True
batch_size=64
use_fp16=False
dataset_name=mnist
dataset_dir=/usr/share/datasets/fashion-mnist
optimizer=rmsprop
learning_rate=0.01
decay_scheme=luong5
warmup_steps=3
stop_at_step=20
log_loss_every_n_iters=5
max_gradient_norm=5.0
"""


def test_every_line_of_the_seeds_example_is_answered(tmp_path: Path, execute, fails) -> None:
    file = tmp_path / "hyper.txt"
    file.write_text(EXAMPLE)
    shown = execute("dimred", "import", file).splitlines()
    for line in EXAMPLE.splitlines():
        key = line.split("=")[0]
        assert any(row.strip().startswith(key + "=") for row in shown), key
    file.write_text(EXAMPLE.replace("oss://", "odps://"))
    error = fails(2, "import", file)
    assert "hyper.txt:5:1: dataset_dir=odps://" in error
    assert "only from hdfs, s3, gs, oss and http; copy the files to a folder; instead: --data" in error


def test_what_is_mapped_becomes_a_config_file(tmp_path: Path, execute, fails) -> None:
    file, config = tmp_path / "hyper.txt", tmp_path / "ours.toml"
    file.write_text(RUNNABLE)
    shown = execute("dimred", "import", file, "--output", config).splitlines()
    for line in RUNNABLE.splitlines():
        key = line.split("=")[0]
        assert any(row.strip().startswith(key + "=") for row in shown), key
    assert "warmup_scheme = t2t" in " ".join(shown)
    written = config.read_text()
    assert 'schedule = "exponential"' in written
    assert "total_steps = 20" in written
    config.write_text("mine")
    assert "exists already" in fails(2, "import", file, "--output", config)
    assert config.read_text() == "mine"
    execute("dimred", "import", file, "--output", config, "--overwrite")
    assert config.read_text() == written


def test_a_boost_dictionary_says_what_mindspore_ignores(tmp_path: Path, execute) -> None:
    file = tmp_path / "boost.json"
    file.write_text(json.dumps({"common": {"device_num": 8}, "dim_reduce": {"n_component": 32, "rho": 0.55}}))
    shown = execute("dimred", "import", file)
    assert shown.count("MindSpore ignores this key, because the right name is device_number") == 1
    assert "n_component = 32" in shown
    assert "rho = 0.55" in shown


def test_stage1_runs_a_fastnn_file_as_it_is(tmp_path: Path, execute) -> None:
    file, run = tmp_path / "hyper.txt", tmp_path / "run"
    file.write_text(RUNNABLE)
    said = execute(
        "dimred",
        "stage1 --model=convnet --preprocessing_name=none --train_samples=960 --test_samples=200",
        "--threads=1",
        fastnn=file,
        output=run,
    )
    assert "enable_paisoar=True: no effect" in said
    assert [line.split()[1] for line in said.splitlines() if line.startswith("step ")] == ["5", "10", "15", "20"]
    rows = rows_in(run / "curve.csv")
    assert [row["step"] for row in rows] == ["15", "20"]
    assert rows[-1]["method"] == "rmsprop"
    assert float(rows[-1]["epoch"]) == pytest.approx(1 + 5 / 15, abs=1e-3)
    config = (run / "config.toml").read_text()
    for line in ('optimizer = "rmsprop"', "max_gradient_norm = 5.0", 'warmup_scheme = "t2t"', "opt_epsilon = 1.0"):
        assert line in config
    assert "fastnn =" not in config


def test_a_fastnn_file_and_a_config_file_exclude_each_other(tmp_path: Path, fails) -> None:
    (tmp_path / "hyper.txt").write_text("batch_size=32\n")
    (tmp_path / "ours.toml").write_text("batch_size = 32\n")
    error = fails(2, "stage1", "--fastnn", tmp_path / "hyper.txt", "--config", tmp_path / "ours.toml")
    assert "needs either --config or a file of another system, received both" in error


def test_stage1_refuses_what_the_file_cannot_have(tmp_path: Path, fails) -> None:
    (tmp_path / "hyper.txt").write_text(EXAMPLE.replace("oss://", "odps://"))
    error = fails(2, "stage1", "--fastnn", tmp_path / "hyper.txt", "--output", tmp_path / "run")
    assert "dataset_dir=odps://" in error
    assert not (tmp_path / "run").exists()
