"""Recipes: their options exist, their short versions run (here even shorter) as PyTorch's do, mistakes are named."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import faces
import numpy as np
import pandas as pd
import pytest
import recipe
import recipe_twin
from cli import cli
from comparison.options import Tables
from conftest import REPOSITORY
from dimred_twins.training import CannotFollow, learning_rate, require_followable, train_as
from fashion import few
from PIL import Image
from safetensors.numpy import save_file
from workbench.recipe_steps import RecipeError, Step, command_line

from dimred.runs import read_options

# The recipes proper; the others in that folder are options of a single command.
FILES = sorted(
    file for file in (REPOSITORY / "experiments" / "recipes").glob("*.toml") if file.read_text().count("\n[stage1]")
)
NAMES = [file.stem for file in FILES]
# The short version, for a second or two a step; with ResNet-20 where a large network's rounding would grow by steps.
SMALLER = {
    "mindspore_imagenet": [
        "stage1.image_size=32",
        "stage1.warmup_epochs=0",
        "stage1.batch_size=8",
        "stage1.model=resnet20",
    ],
    "dldr_cifar10": ["stage1.train_samples=0", "stage1.test_samples=0", "stage1.batch_size=8", "stage2.batch_size=16"],
    "estimator_fashion": ["stage1.train_samples=640", "stage1.test_samples=200", "stage1.batch_size=64"],
    "estimator_oct": [
        "backbone.train_samples=64",
        "backbone.test_samples=20",
        "backbone.batch_size=8",
        "stage1.batch_size=8",
        "backbone.learning_rate=0.01",
    ],
    "fastnn_cifar10": [
        "stage1.train_samples=0",
        "stage1.test_samples=0",
        "stage1.batch_size=8",
        "stage1.num_classes=4",
    ],
    "flowers_transfer": """
        backbone.train_samples=0 backbone.test_samples=0 backbone.batch_size=8 scratch.epochs=1
        scratch.warmup_epochs=0 scratch.batch_size=8 stage1.batch_size=8 frozen.epochs=1
        frozen.batch_size=8
    """.split(),
}
ALWAYS = [
    "stage1.epochs=1",
    "stage1.snapshots_per_epoch=4",
    "pca.components=2",
    "stage2.n_component=2",
    "stage2.epochs=1",
]


def image_folder(folder: Path, channels: int) -> Path:
    """Four classes of 40 x 40 JPEGs, each of its own brightness."""
    generator = np.random.default_rng(1)
    for split, count in (("train", 8), ("test", 3)):
        for index, name in enumerate(("a", "b", "c", "d")):
            place = folder / split / name
            place.mkdir(parents=True)
            for i in range(count):
                pixels = generator.normal(40 + 50 * index, 20, (40, 40, channels)).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels.squeeze()).save(place / f"{i}.jpg", quality=90)
    return folder


@pytest.mark.parametrize("short", [False, True], ids=["full", "short"])
@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_every_option_of_a_recipe_exists(file: Path, short: bool, binaries: Path) -> None:
    places = dict.fromkeys(recipe.PLACES, Path("somewhere"))
    if short and file.stem == "estimator_oct":
        places["pretraining_data"] = None
    for place in recipe.PLACES:
        if f"\n{place} = " not in file.read_text().split("\n[")[0]:
            places[place] = None
    read = recipe.read_recipe(file, Path("out"), places, short)
    assert all(read.texts[key] for key in ("title", "source", "cost", "gives"))
    for step in read.steps:
        known = set(Tables(binaries / "dimred").ask(step.command)) | {"fastnn", "config"}
        assert set(step.options) <= known, step.name
        own_rate = {"learning_rate", "fastnn"} & set(step.options) or step.options.get("schedule") == "piecewise"
        # The default rate goes with a batch below 64, and what was published does not.
        assert step.command != "stage1" or step.options.get("batch_size", 64) >= 64 or own_rate, step.name


def test_weights_stand_for_a_backbone() -> None:
    file = next(file for file in FILES if file.stem == "flowers_transfer")
    given = {"data": Path("flowers"), "pretraining_data": None}
    read = recipe.read_recipe(file, Path("out"), given, False, Path("resnet50.pt"))
    assert [step.name for step in read.steps] == ["scratch", "frozen", "stage1", "pca", "stage2"]
    assert all(step.options["initialize_from"].endswith("/resnet50.pt") for step in read.steps[1:3])
    with pytest.raises(RecipeError, match="the recipe does not use --pretraining_data"):
        recipe.read_recipe(file, Path("out"), given | {"pretraining_data": Path("other")}, False, Path("resnet50.pt"))
    with pytest.raises(RecipeError, match="has no backbone"):
        recipe.read_recipe(file.with_stem("dldr_cifar10"), Path("out"), given, False, Path("resnet50.pt"))


def test_converted_weights_bring_their_network(tmp_path: Path, capsys) -> None:
    """The weights are those of scripts/slim_checkpoint.sh; TF-Slim's strides are not those of --model resnet50."""
    file = next(file for file in FILES if file.stem == "flowers_transfer")
    weights = tmp_path / "slim.safetensors"
    save_file(
        {"conv1.weight": np.zeros(1, np.float32)},
        weights,
        {"network": "slim:resnet_v1_50", "preprocessing_name": "vgg"},
    )
    given = {"data": image_folder(tmp_path / "data", 3), "pretraining_data": None}
    *networks, scratch, frozen, stage1, _, stage2 = recipe.read_recipe(
        file, tmp_path / "out", given, True, weights
    ).steps
    assert [step.name for step in networks] == ["network", "network_fixed"] and {step.command for step in networks} == {
        "model"
    }
    assert [step.options for step in networks] == [
        {"name": f"slim:resnet_v1_50{end}", "num_classes": 4} for end in ("", "_fixed")
    ]
    for step, network in ((scratch, "network"), (frozen, "network_fixed"), (stage1, "network")):
        assert (
            step.options["model"] == str(tmp_path / "out" / f"{network}.pt")
            and step.options["preprocessing_name"] == "vgg"
        )
        assert step.made_with(1)["from"] == {network: ""}
    assert frozen.options["checkpoint_exclude_patterns"] == frozen.options["trainable_include_patterns"] == "^logits"
    assert "network" not in str(stage2.options)
    (tmp_path / "one" / "a").mkdir(parents=True)
    assert recipe.main([str(file), "--data", str(tmp_path / "one"), "--backbone", str(weights)]) == 1
    said = "--data: needs a folder with one folder for each class, to write slim:resnet_v1_50"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("file", [file for file in FILES if file.stem in SMALLER])  # dldr_cifar100 is dldr_cifar10's
def test_a_short_version_trains_as_its_twin_and_runs_to_its_end(
    file: Path, binaries: Path, tmp_path: Path, capsys
) -> None:
    places = []
    head = file.read_text().split("\n[")[0]
    if "\ndata = " in head:
        places = ["--data", str(image_folder(tmp_path / "data", 1 if file.stem == "estimator_oct" else 3))]
    if file.stem == "flowers_transfer":
        places += ["--pretraining_data", str(image_folder(tmp_path / "other", 3))]
    trained = [name for name in ("backbone", "scratch", "frozen", "stage1") if f"\n[{name}]" in file.read_text()]
    settings = [*ALWAYS, *SMALLER[file.stem], *(f"{name}.threads=1" for name in (*trained, "stage2"))]
    settings += [f"{name}.precision=float32" for name in trained]
    if file.stem in ("estimator_oct", "flowers_transfer"):
        settings.append("backbone.epochs=1")
        settings.append("backbone.warmup_epochs=0")
    runs = tmp_path / "runs"
    words = cli(file, *places, "--short --output", runs, "--dimred", binaries / "dimred", "--set", *settings)
    assert recipe_twin.main(words) == 0, capsys.readouterr().err
    for name in trained:
        losses = pd.read_csv(tmp_path / "runs" / name / "twin.csv")
        apart = (losses["loss"] - losses["twin_loss"]).abs()
        assert apart[0] < 1e-5, name
        assert apart.max() < 1e-2, name  # the order of float32 sums differs, and training makes more of it
        assert not (tmp_path / "runs" / name / "batches").exists()
    assert recipe.main(words) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert "stage2" in printed.splitlines()[-2]
    assert recipe.main(words) == 0
    assert "\n$ " not in capsys.readouterr().out  # nothing is done twice
    assert recipe.main([*words, "stage1.momentum=0.5"]) == 1
    assert "stage1 was made with other options" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "runs" / trained[0])
    for _ in range(2):
        assert recipe.main(words) == 1
        assert f"was made before {trained[0]}; choose another --output, or remove this one" in capsys.readouterr().err
    assert not (tmp_path / "runs" / trained[0]).exists()


def test_faces_run_through_both_stages(binaries: Path, tmp_path: Path, capsys) -> None:
    """The twin has no margin; tests of the softmax compare it with PyTorch's."""
    assert faces.main([str(tmp_path / "faces"), "--identities=5", "--images=10", "--others=5"]) == 0
    words = cli(
        REPOSITORY / "experiments/recipes/plsc_faces.toml",
        "--short --dimred",
        binaries / "dimred",
        "--set",
        *ALWAYS,
        "stage1.batch_size=9 stage1.warmup_epochs=0 stage1.threads=1 stage2.threads=1",
        data=tmp_path / "faces",
        output=tmp_path / "runs",
    )
    assert recipe_twin.main(words) == 1
    assert "the PyTorch twin does not support margin_loss, received arcface" in capsys.readouterr().err
    assert recipe.main(words) == 0, capsys.readouterr().err
    *_, trained, first, second, _ = capsys.readouterr().out.splitlines()
    assert "stage2" in trained and "verify1" in first and "verify2      60 pairs, accuracy" in second
    report = [
        json.loads((tmp_path / "runs" / name / "verification.json").read_text()) for name in ("verify1", "verify2")
    ]
    assert [Path(verified["weights"]).name for verified in report] == ["stage1", "stage2"]
    assert recipe.main(words) == 0
    assert capsys.readouterr().out.count("# done: ") == 5
    assert read_options(tmp_path / "runs/stage2/config.toml")["margin_loss"] == "arcface"


def test_mistakes_are_named(tmp_path: Path, capsys) -> None:
    def error(text: str, *words: str) -> str:
        file = tmp_path / "r.toml"
        file.write_text(text)
        assert recipe.main([str(file), *words, "--dry_run"]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        return lines[0]

    good = 'title = "t"\n[stage1]\nepochs = 1\n'
    assert "needs a title" in error("[stage1]\n")
    assert "needs a command of stage1, pca, stage2, verify, received train" in error('title = "t"\n[train]\n')
    assert "needs one of here, stage1 in braces ({{ is a brace), received '{stage3}'" in error(
        good + '[pca]\nsnapshots = "{stage3}"\n'
    )
    assert "needs --data: photographs" in error('data = "photographs"\n' + good)
    assert "the recipe does not use --data" in error(good, "--data", "x")
    assert "has no short version" in error(good, "--short")
    assert "STEP one of stage1; received pca.k=3" in error(good, "--set", "stage1.seed=2", "--set", "pca.k=3")
    assert "stage1.epohcs: unknown option of dimred stage1; nearest: epochs" in error(good, "--set", "stage1.epohcs=2")
    assert "[short.stage2]: the recipe has no step [stage2]" in error(good + "[short.stage2]\nepochs = 1\n", "--short")
    assert "in braces ({{ is a brace), received '{stage1.x}'" in error(good + '[pca]\nsnapshots = "{stage1.x}"\n')
    assert "in braces ({{ is a brace), received 'a{1}'" in error(good + 'model = "a{1}"\n')
    assert "r.toml" in error("title = ")


def test_a_step_is_known_by_its_options_and_their_files(tmp_path: Path) -> None:
    other = tmp_path / "hyper.txt"
    other.write_text("a=1")

    def note(ranks: int = 1, **options: object) -> dict:
        return Step("stage1", "stage1", options, tmp_path / "runs/stage1").made_with(ranks)

    first = note(fastnn=str(other), epochs=1)
    assert note(fastnn=str(other), epochs=1, hooks="batches") == first  # the twin's
    assert note(fastnn=str(other), epochs=1, hooks="mine") != first
    assert note(fastnn=str(other), epochs=1, ranks=2) != first
    data = note(data=str(other))
    assert "sha256" not in str(data)
    assert f"3 bytes of {other.stat().st_mtime_ns}" in data["files"].values()
    other.write_text("a=2")
    assert note(fastnn=str(other), epochs=1) != first
    assert note(data=str(other)) != data


def test_what_was_made_from_an_earlier_version_of_a_step_is_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    """Run by run, as the twin does it, or all in one."""
    out = tmp_path / "out"

    def fake_run(words: list[str], env: dict[str, str], check: bool) -> SimpleNamespace:
        command, output = words[1], Path(words[-1 if words[1] == "stage1" else -2].removeprefix("--output="))
        if command == "stage1":
            output.mkdir(parents=True)
            (output / "manifest.json").write_text('{"outcome": "finished"}')
        else:
            for file in (output, output.with_suffix(".json")):
                file.write_text("{}")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", fake_run)
    monkeypatch.setattr(recipe, "require_known_options", lambda *_: None)
    stage1 = Step("stage1", "stage1", {"epochs": 1}, out / "stage1")
    pca = Step("pca", "pca", {"snapshots": str(out / "stage1/snapshots")}, out / "pca.npy")
    options = SimpleNamespace(dimred=Path("dimred"), ranks=None, dry_run=False)

    def run(*steps: Step, ranks: int = 1) -> None:
        recipe.run(recipe.Recipe("t", {}, ranks, list(steps)), options)

    run(stage1, pca)
    run(stage1, pca)
    with pytest.raises(RecipeError, match="stage1 was made with other options"):
        run(stage1, pca, ranks=2)
    shutil.rmtree(out / "stage1")
    for _ in range(2):
        with pytest.raises(RecipeError, match=r"pca\.npy was made before stage1"):
            run(stage1, pca)
    time.sleep(0.01)
    run(stage1)
    for _ in range(2):
        with pytest.raises(RecipeError, match=r"pca\.npy was made before stage1"):
            run(stage1, pca)
    (out / "pca.json").unlink()
    run(stage1, pca)
    run(stage1, pca)
    capsys.readouterr()


def test_a_recipes_own_overwrite_is_taken(tmp_path: Path) -> None:
    for own in ({}, {"overwrite": True}):
        words = command_line(Step("pca", "pca", own, tmp_path / "pca.npy"), 1, Path("dimred"))
        assert sum(word.startswith("--overwrite") for word in words) == 1


def test_a_twin_is_judged_by_every_loss() -> None:
    good = pd.DataFrame({"epoch": [1, 1, 2, 2], "loss": [2.0, 1.8, 1.5, 1.4]})
    good["twin_loss"] = good["loss"] + 1e-4
    row, wrong = recipe_twin.compare("run", good, 0.1)
    assert wrong == []
    assert row[:7] == ["run", "4", "1.9000", "1.9001", "1.4500", "1.4501", "1.0e-04"]
    assert recipe_twin.compare("run", good.assign(twin_loss=good["loss"] + [0, 0, 0.3, 0.3]), 0.1)[1] == [
        "run: the epochs' losses differ by 0.3000, more than 0.1 of 1.9000"
    ]
    assert "the twin's loss does not decrease" in recipe_twin.compare("run", good.assign(twin_loss=2.0), 1)[1][0]
    assert recipe_twin.compare("run", good.assign(twin_loss=[2.0, 1.8, 1.5, math.nan]), 0.1)[1] == [
        "run: the twin's loss is not finite"
    ]


@pytest.mark.parametrize(
    "words",
    [
        "--schedule=cosine --warmup_epochs=1 --end_learning_rate=.01 --start_learning_rate=.02",
        "--schedule=linear --warmup_steps=7",
        "--schedule=step --milestones=2,5 --factor=.3",
        "--schedule=step --milestones=9,33 --milestone_unit=steps",
        "--schedule=piecewise --pieces=3:.2,8:.05",
        "--schedule=exponential --decay_scheme=luong10 --factor=.5 --warmup_steps=9 --warmup_scheme=t2t",
    ],
)
def test_the_twins_rates_are_dimreds(words: str, tmp_path: Path, execute) -> None:
    """The rates of 8 epochs of 5 steps, in all ways that the recipes take and some that they do not."""
    run = tmp_path / "run"
    execute(
        "dimred",
        "stage1 --train_samples=10 --test_samples=10 --batch_size=2 --epochs=8 --model=lenet",
        "--snapshots_per_epoch=0 --log_loss_every_n_iters=1",
        *words.split(),
        "--threads=1 --time_history",
        data=few(),
        output=run,
    )
    options = read_options(run / "config.toml")
    ours = pd.read_csv(run / "curve.csv").query("epoch > 0").groupby("epoch")["learning_rate"].first()
    for epoch, rate in ours.items():  # a row has the rate that the step behind it would have
        assert learning_rate(options, round(epoch) * 5, 5) == pytest.approx(rate, rel=1e-6), epoch


def test_a_twin_refuses_before_any_work(tmp_path: Path, capsys) -> None:
    for option, value in {
        "optimizer": "lars",
        "amp_deny": "linear",
        "gradient_accumulation": "2",
        "schedule": "plsc",
        "model": "inception_v3",
        "precision": "float16",
        "nesterov": "true",
        "margin_loss": "arcface",
    }.items():
        with pytest.raises(CannotFollow, match="the PyTorch twin does not support"):
            require_followable({option: value})
    require_followable({"gradient_accumulation": "1", "nesterov": "false", "anneal_from_epoch": "-1"})
    file = tmp_path / "r.toml"
    file.write_text('title = "t"\nranks = 8\n[stage1]\nepochs = 1\n')
    assert recipe_twin.main([str(file), "--output", str(tmp_path / "out")]) == 1
    assert "needs --ranks 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_twin_refuses_what_it_cannot_follow(execute, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = cli("--train_samples=64 --test_samples=20 --batch_size=32 --hooks=batches --quiet", data=few())
    execute("dimred", "stage1", *small, "--optimizer=lars", "--output", run)
    assert len(list((run / "batches").iterdir())) == 3  # weights and two steps
    with pytest.raises(CannotFollow, match="does not support optimizer lars"):
        train_as(run)
    (run / "batches" / "step_00000001.rank1.safetensors").write_bytes(b"")
    with pytest.raises(CannotFollow, match="by several ranks"):
        train_as(run)
    (run / "batches" / "step_00000001.rank1.safetensors").unlink()
    (run / "batches" / "weights_00000000.safetensors").unlink()
    with pytest.raises(CannotFollow, match="--hooks batches"):
        train_as(run)
