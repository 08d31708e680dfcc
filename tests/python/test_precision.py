"""Mixed precision of both stages: loss scales, operator lists, what is refused, and what a run says of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli import cli, rows
from compared_runs import newest_state
from fashion import few

BASE = ["--train_samples=320", "--test_samples=100", "--batch_size=32", "--threads=1", f"--data={few()}"]
STAGE1 = [*BASE, "--epochs=2", "--snapshots_per_epoch=4", "--learning_rate=0.02"]
STAGE2 = ["--epochs=1", "--n_component=5", "--threads=1"]


def weights(run: Path) -> bytes:
    """The newest state's."""
    return (sorted((run / "checkpoints").iterdir())[-1] / "weights.f32").read_bytes()


def scale_of(run: Path) -> dict[str, object]:
    """What manifest.json says of the loss scale."""
    return json.loads((run / "manifest.json").read_text())["loss_scale"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory, execute) -> tuple[Path, Path]:
    """Both stages without a loss scale."""
    one, two = (tmp_path_factory.mktemp("plain") / name for name in ("one", "two"))
    execute("dimred", "stage1", *STAGE1, "--output", one)
    execute("dimred", "stage2", *STAGE2, "--checkpoint", one, "--output", two)
    return one, two


def test_a_loss_scale_changes_no_bit_and_is_counted(plain, tmp_path: Path, execute) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    said = execute("dimred", "stage1", *STAGE1, "--loss_scale=1024", "--max_gradient_norm=1e9", "--output", one)
    assert "loss scale 1024, 0 steps skipped because of overflow so far" in said
    assert weights(one) == weights(plain[0])
    assert scale_of(one)["value"] == 1024
    assert "loss_scale" not in json.loads((plain[0] / "manifest.json").read_text())
    said = execute("dimred", "stage2", *STAGE2, "--checkpoint", one, "--output", two)
    assert "loss scale 1024, 0 steps skipped" in said  # taken over from stage 1's run
    assert weights(two) == weights(plain[1])


def test_a_scale_that_moves_resumes_bitwise_in_both_stages(plain, tmp_path: Path, execute) -> None:
    moving = ["--use_dynamic_loss_scaling", "--incr_every_n_steps=3", "--init_loss_scaling=8"]
    for stage, options, at in (("stage1", STAGE1, plain[0]), ("stage2", [*STAGE2, "--checkpoint", plain[0]], plain[1])):
        run = tmp_path / stage
        execute("dimred", stage, *options, *moving, "--output", run)
        assert weights(run) == weights(at)
        steps = int(rows(run)[-1]["step"])
        assert scale_of(run)["value"] == 8 * 2.0 ** (steps // 3)
    parts = tmp_path / "parts"
    for end in (["--stop_at_step=13"], []):
        execute("dimred", "stage1", *STAGE1, *moving, *end, "--output", parts)
    assert newest_state(parts) == newest_state(tmp_path / "stage1")
    assert scale_of(parts) == scale_of(tmp_path / "stage1")


def test_operators_may_be_named_in_a_file_and_reach_stage_2(plain, tmp_path: Path, execute) -> None:
    execute("dimred", "stage1", *BASE, "--epochs=1", "--precision=auto", "--output", tmp_path / "probe")
    if 'precision = "bfloat16"' not in (tmp_path / "probe" / "config.toml").read_text():
        pytest.skip("no native bfloat16 on this processor")
    one, two = tmp_path / "one", tmp_path / "two"
    (tmp_path / "lists.toml").write_text('precision = "bfloat16"\ncustom_black_list = "conv2d, linear"\n')
    execute("dimred", "stage1", *STAGE1, "--config", tmp_path / "lists.toml", "--output", one)
    assert weights(one) == weights(plain[0])  # nothing else runs in bfloat16 there
    execute("dimred", "stage2", *STAGE2, "--checkpoint", one, "--output", two)
    assert 'amp_deny = "conv2d, linear"' in (two / "config.toml").read_text()
    assert weights(two) == weights(plain[1])
    said = execute("dimred", "evaluate", two, "--precision=float32")
    assert "amp_deny is ignored, because float32 does not use this list" in said


REFUSED = {
    "--precision=bfloat16 --amp_allow=conv2": "received conv2; did you mean conv2d?",
    "--amp_deny=conv2d": "amp_deny has no effect: it needs precision other than float32",
    "--precision=float16": "float16 needs a CUDA device",
    "--loss_scale=0": "--loss_scale: needs a number in (0, ",
    "--loss_scale=8 --use_dynamic_loss_scaling": "received both, with loss_scale = 8",
    "--decr_ratio=1": "--decr_ratio: needs a number in (0, 1)",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_is_refused(options: str, tmp_path: Path, fails) -> None:
    report = fails(2, "stage1", *STAGE1, *options.split(), "--output", tmp_path / "run")
    if "bfloat16 is not native" in report:
        pytest.skip("no native bfloat16 on this processor")
    assert REFUSED[options] in report
    assert not (tmp_path / "run").exists()


def test_the_benchmark_runs(tmp_path: Path, binaries: Path, monkeypatch) -> None:
    """A few steps of ResNet-20; its figures are not judged."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "experiments" / "benchmarks")
    import precision_step

    monkeypatch.setattr(precision_step, "PRECISIONS", ("float32", "float32"))
    monkeypatch.setitem(precision_step.CASES, "resnet20", precision_step.Case("resnet20", 8, 4, 2))
    report = tmp_path / "told.json"
    assert (
        precision_step.main(
            cli("--cases resnet20 --rounds=1 --warm_up=1 --threads=1 --dimred", binaries / "dimred", json=report)
        )
        == 0
    )
    seconds = json.loads(report.read_text())["cases"]["resnet20"]["seconds_a_step"]["float32"]
    assert len(seconds) == 2 and np.min(seconds) > 0
