"""Both stages of a network with a margin softmax whose classes are shared out over ranks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, rows
from fashion import few
from ranks import distance, refused, run_ranks, vectors
from safetensors.numpy import load_file

HEAD = ["--margin_loss=arcface", "--margin_scale=16", "--margin_m2=0.2", "--embedding_size=24"]
CLASSES, WIDTH = 10, 24


def small(samples: int = 1500, batch: int = 60, stage: str = "stage1", rate: float = 0.003) -> list[str]:
    """Ten classes are no multiple of three ranks; 301 test samples leave the last batch to some of them."""
    steps = [f"--learning_rate={rate}", "--schedule=constant", "--warmup_epochs=0"] if stage == "stage1" else []
    return cli(
        "--test_samples=301 --threads=1 --precision=float32",
        *steps,
        data=few(),
        train_samples=samples,
        global_batch_size=batch,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory, dimred: Path):
    """Stage 1, and stage 2 from that of one rank, on 1, 2 and 3 ranks; made when first asked for."""
    folder = tmp_path_factory.mktemp("class_sharded")

    def run(stage: str, ranks: int) -> Path:
        output = folder / f"{stage}_{ranks}"
        if not output.exists():
            options = (
                [*HEAD, "--epochs=2", "--snapshots_per_epoch=4"]
                if stage == "stage1"
                else ["--epochs=1", "--n_component=5", "--weight_decay=5e-4", "--checkpoint", run("stage1", 1)]
            )
            done = run_ranks(dimred, [stage, *small(stage=stage), *options, "--output", output], ranks)
            assert done.codes == [0] * ranks, done.errors
        return output

    return run


@pytest.mark.parametrize("ranks", [2, 3])
def test_stage1_is_the_same_on_any_number_of_ranks(ranks: int, runs) -> None:
    """50 steps; a ReLU or a maximum that rounding turns over makes the gradient jump; C++ compares single steps."""
    one, several = vectors(runs("stage1", 1)), vectors(runs("stage1", ranks))
    assert {name: len(values) for name, values in one.items()} == {
        name: len(values) for name, values in several.items()
    }
    for name, bound in {"weights": 1e-2, "momentum": 0.2}.items():  # 0.002 to 0.0075, by the processor
        assert distance(one[name], several[name]) < bound
        assert distance(one[name][-CLASSES * WIDTH :], several[name][-CLASSES * WIDTH :]) < bound
    for before, now in zip(rows(runs("stage1", 1)), rows(runs("stage1", ranks)), strict=True):
        for figure in ("train_loss", "test_loss"):
            assert float(now[figure]) == pytest.approx(float(before[figure]), rel=5e-3)
        assert float(now["test_accuracy"]) == pytest.approx(float(before["test_accuracy"]), abs=0.01)
    assert float(rows(runs("stage1", 1))[-1]["test_accuracy"]) > 0.5  # it learns


def test_files_say_the_whole_whoever_wrote_them(runs) -> None:
    tables = []
    for ranks in (1, 3):
        snapshots = sorted((runs("stage1", ranks) / "snapshots").glob("*.h5"))
        assert len(snapshots) == 8
        with h5py.File(snapshots[-1]) as file:
            table = json.loads(file["layout"][()])
            assert file["weights"].shape == (sum(np.prod(row["shape"], dtype=int) for row in table["parameters"]),)
        assert table["parameters"][-1]["name"] == "head.weight"
        assert table["parameters"][-1]["shape"] == [CLASSES, WIDTH]
        tables.append(table)
    assert tables[0] == tables[1]


def test_stage2_is_the_same_on_any_number_of_ranks(runs) -> None:
    """25 steps: line searches take the same trials unless rounding decides one."""
    one, several = runs("stage2", 1), runs("stage2", 3)
    assert distance(vectors(one)["weights"], vectors(several)["weights"]) < 1e-3
    assert distance(vectors(one)["residual_momentum"], vectors(several)["residual_momentum"]) < 5e-2
    before, after = rows(several)[0], rows(several)[-1]
    assert float(after["test_loss"]) < float(before["test_loss"])
    with h5py.File(one / "final.h5") as first, h5py.File(several / "final.h5") as second:
        assert distance(first["weights"][:], second["weights"][:]) < 1e-3


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_a_run_goes_on_with_another_number_of_ranks(stage: str, runs, tmp_path: Path, dimred: Path) -> None:
    more = HEAD if stage == "stage1" else ["--preset=robust", "--n_component=5", "--checkpoint", runs("stage1", 1)]
    options = [*small(300, stage=stage), *more]
    begun = tmp_path / "begun"
    done = run_ranks(dimred, [stage, *options, "--epochs=1", "--output", begun], 3)
    assert done.codes == [0, 0, 0], done.errors
    ends = {}
    for ranks in (3, 1, 2):
        run = tmp_path / str(ranks)
        shutil.copytree(begun, run)
        done = run_ranks(dimred, [stage, *options, "--epochs=2", "--output", run], ranks)
        assert done.codes == [0] * ranks, done.errors
        assert "continuing at epoch 1" in done.output[0]
        ends[ranks] = vectors(run)["weights"]
    assert distance(ends[3], ends[1]) < 1e-3
    assert distance(ends[3], ends[2]) < 1e-3


def test_the_same_ranks_give_the_same_bits(runs, tmp_path: Path, dimred: Path) -> None:
    again = tmp_path / "again"
    done = run_ranks(dimred, ["stage1", *small(), *HEAD, "--epochs=2", "--snapshots_per_epoch=4", "--output", again], 3)
    assert done.codes == [0, 0, 0], done.errors
    for name, values in vectors(runs("stage1", 3)).items():
        assert values.tobytes() == vectors(again)[name].tobytes()


def test_a_sample_of_the_classes(tmp_path: Path, dimred: Path) -> None:
    """Drawn alike on any number of ranks; with ten classes and sixty samples a batch has nearly all of them."""
    ends = {}
    for ranks in (1, 2):
        run = tmp_path / str(ranks)
        done = run_ranks(
            dimred,
            ["stage1", *small(300, batch=6), *HEAD, "--class_sampling_ratio=0.5", "--epochs=1", "--output", run],
            ranks,
        )
        assert done.codes == [0] * ranks, done.errors
        ends[ranks] = vectors(run)["weights"]
    assert distance(ends[1], ends[2]) < 1e-3


def test_the_embedding_network_alone_is_exported(runs, tmp_path: Path, execute) -> None:
    run = shutil.copytree(runs("stage1", 3), tmp_path / "run")
    execute("dimred", "export", run)
    folder = run / "export" / "1"
    signature = json.loads((folder / "signature.json").read_text())
    assert signature["output"] == {"name": "embeddings", "shape": [None, WIDTH], "type": "float32"}
    assert signature["classes"] == []
    assert "head.weight" not in load_file(folder / "weights.safetensors")
    import export  # of experiments/

    assert max(export.write_forms(folder).values()) < 1e-4


BAD = {
    "stage1 --margin_scale=8": "margin_scale has no effect: it needs margin_loss = arcface, cosface or combined",
    "stage1 --margin_loss=arcface --label_smoothing=0.1": "margin_loss needs label_smoothing = 0, received 0.1",
    "stage1 --margin_loss=arcfase": "arcface",
    "stage1 --margin_loss=cosface --margin_m1=2": "margin_m1 has no effect: it needs margin_loss = combined",
}


@pytest.mark.parametrize("command", BAD)
def test_what_does_not_go_together_is_refused(command: str, tmp_path: Path, dimred: Path) -> None:
    done = run_ranks(dimred, [*command.split(), *small(), "--epochs=1", "--output", tmp_path / "run"], 1)
    refused(done, 2, BAD[command])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--max_gradient_norm=0.5", "--optimizer=lars"])
def test_norms_are_of_all_ranks_rows(option: str, tmp_path: Path, dimred: Path) -> None:
    """Ten steps; by the norm of its own rows alone a rank would make longer ones."""
    ends = {}
    for ranks in (1, 3):
        run = tmp_path / str(ranks)
        options = [*small(600, rate=0.1), *HEAD, option, "--epochs=1"]
        done = run_ranks(dimred, ["stage1", *options, "--output", run], ranks)
        assert done.codes == [0] * ranks, done.errors
        ends[ranks] = vectors(run)
    head = slice(-CLASSES * WIDTH, None)
    for name in ("weights", "momentum"):
        assert distance(ends[1][name][head], ends[3][name][head]) < 1e-3
        assert distance(ends[1][name], ends[3][name]) < 1e-3


def test_a_run_begins_from_other_weights_on_any_number_of_ranks(runs, tmp_path: Path, dimred: Path) -> None:
    """At a rate of 1e-30 the weights stay what they were: bit for bit those of the file, or as drawn."""
    still = [*small(60, rate=1e-30), *HEAD, "--initialize_from", runs("stage1", 1), "--weight_decay=0", "--epochs=1"]
    source, ends = vectors(runs("stage1", 1))["weights"], {}
    for ranks in (1, 3):
        for name, more in {"all": [], "body": ["--checkpoint_exclude_patterns=head.weight"]}.items():
            run = tmp_path / f"{name}_{ranks}"
            done = run_ranks(dimred, ["stage1", *still, *more, "--output", run], ranks)
            assert done.codes == [0] * ranks, done.errors
            ends[name, ranks] = vectors(run)["weights"]
    for ranks in (1, 3):
        assert ends["all", ranks].tobytes() == source.tobytes()
        assert ends["body", ranks][: -CLASSES * WIDTH].tobytes() == source[: -CLASSES * WIDTH].tobytes()
    assert ends["body", 3].tobytes() == ends["body", 1].tobytes()
    assert distance(ends["body", 1][-CLASSES * WIDTH :], source[-CLASSES * WIDTH :]) > 0.1


def test_predict_says_that_there_are_no_classes(runs, dimred: Path, tmp_path: Path) -> None:
    done = run_ranks(dimred, ["predict", runs("stage1", 1), few()], 1)
    assert done.codes == [2]
    assert "a network with margin_loss gives embeddings" in done.errors[0]
