"""`dimred model`: networks of timm, torchvision and TF-Slim as modules that train, with as many parameters as there."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from cli import completed
from conftest import REPOSITORY
from models_check import main as models_check
from torch import nn

sys.path.insert(0, str(REPOSITORY / "lib" / "models"))
import library

# (parameters with 1,000 classes unless said, tolerance, source). A published figure in millions has a tolerance.
PARAMETERS = {
    "cifarnet": (4_864 + 102_464 + 1_573_248 + 73_920 + 193 * 1000, 0, "layer by layer, nets/cifarnet.py"),
    "overfeat": (
        23_296 + 409_856 + 1_180_160 + 4_719_616 + 9_438_208 + 113_249_280 + 12_587_008 + 4_097_000,
        0,
        "layer by layer, nets/overfeat.py",
    ),
    "inception_v1": (
        5_607_184 - 7_280 + 1_025_000,
        0,
        "nets/inception_v1_test.py: 5,607,184 with 2 x 7,280 moving statistics; here scales",
    ),
    "inception_v2": (
        10_173_112 - 2 * 9_888 + 1_025_000,
        0,
        "nets/inception_v2_test.py: 10,173,112 with 2 x 9,888 moving statistics",
    ),
    "inception_v4": (42_679_816, 0, "Cadene's pretrained-models.pytorch"),
    "resnet_v1_200": (64_673_832, 0, "torchvision's count of a Bottleneck network [3, 24, 36, 3]"),
    "resnet_v2_101": (44.5e6, 0.01, "slim's resnet_v2_101"),
    "resnet_v2_152": (60.2e6, 0.01, "slim's resnet_v2_152"),
    "resnet_v2_200": (64.7e6, 0.01, "slim's resnet_v2_200"),
    "mobilenet_v1": (4.24e6, 0.01, "nets/mobilenet_v1.md"),
    "mobilenet_v1_075": (2.59e6, 0.01, "nets/mobilenet_v1.md"),
    "mobilenet_v1_050": (1.34e6, 0.01, "nets/mobilenet_v1.md"),
    "mobilenet_v1_025": (0.47e6, 0.01, "nets/mobilenet_v1.md"),
    "mobilenet_v2_140": (6.06e6, 0.02, "nets/mobilenet/README.md"),
    "mobilenet_v2_035": (1.66e6, 0.02, "nets/mobilenet/README.md"),
    "nasnet_cifar": (3.3e6 + 769 * 990, 0.02, "Zoph et al. 2018, NASNet-A (6 @ 768), 10 classes"),
    "nasnet_mobile": (5_289_978, 0, "Cadene's pretrained-models.pytorch"),
    "nasnet_large": (88_753_150, 0, "Cadene's pretrained-models.pytorch"),
    "pnasnet_large": (86_057_668, 0, "Cadene's pretrained-models.pytorch"),
    "pnasnet_mobile": (5.1e6, 0.01, "slim's nets/nasnet/README.md"),
}
NATIVE = {name for name, (_, builder) in library.FASTNN.items() if isinstance(builder, str) and ":" not in builder}


def test_the_tables_name_fastnns_32_networks() -> None:
    assert len(library.FASTNN) == 32 and library.FASTNN.keys() - NATIVE == PARAMETERS.keys()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_many_as_in_the_source(name: str) -> None:
    expected, tolerance, _ = PARAMETERS[name]
    with torch.device("meta"):
        network, _ = library.built(name, 1000, 3)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert abs(count - expected) <= tolerance * expected, count


# The smallest of FastNN's families, and the side of the smallest images. Not here for their seconds of one core:
# overfeat 22, vgg_a 8, vgg_16 7, resnet_v1_101 8, resnet_v2_101 9, nasnet_cifar 22, nasnet_mobile 20, pnasnet_mobile 9,
# pnasnet_large 76.
STEPS = {
    "lenet": 28,
    "cifarnet": 32,
    "alexnet_v2": 63,
    "inception_v1": 32,
    "inception_v2": 32,
    "resnet_v1_50": 32,
    "resnet_v2_50": 32,
    "mobilenet_v1_025": 32,
    "mobilenet_v1_050": 32,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_network_trains_a_step(name: str, tmp_path: Path, execute) -> None:
    model, side = library.FASTNN[name][1], STEPS[name]
    if name not in NATIVE:
        library.write(request(f"fastnn:{name}", tmp_path, classes=4, image_size=side))
        model = tmp_path / "net.pt"
    execute(
        "dimred",
        "stage1 --dataset=mock",
        f"--mock_shape=3,{side},{side}",
        "--num_classes=4 --train_samples=2 --test_samples=2 --batch_size=2 --epochs=1 --threads=1",
        "--snapshots_per_epoch=0",
        model=model,
        output=f"{tmp_path}/run",
    )
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["outcome"] == "finished"


def test_the_table_of_all_networks(capsys) -> None:
    """scripts/models_check.sh trains the 32 at their own size."""
    assert models_check(["lenet"]) == 0
    assert "finished" in capsys.readouterr().out.splitlines()[-1]


def test_the_normalisation_of_slims_inceptions() -> None:
    """A BatchNorm whose scale stays 1."""
    torch.manual_seed(1)
    ours, theirs = library.SlimNorm(5), nn.BatchNorm2d(5, eps=0.001)
    nn.init.normal_(ours.bias)
    theirs.bias.data.copy_(ours.bias)
    for mode in (True, True, False):
        x = torch.randn(4, 5, 3, 3)
        torch.testing.assert_close(ours.train(mode)(x), theirs.train(mode)(x))
    assert torch.equal(ours.running_var, theirs.running_var)


def request(name: str, folder: Path, **others: object) -> dict[str, object]:
    return {
        "name": name,
        "classes": 10,
        "channels": 3,
        "image_size": 0,
        "seed": 1,
        "output": str(folder / "net.pt"),
        **others,
    }


def test_weights_are_those_of_the_seed_and_any_channels_and_classes_go(tmp_path: Path) -> None:
    states = []
    for seed in (7, 7, 8):
        made = library.write(request("fastnn:cifarnet", tmp_path, classes=3, channels=1, seed=seed))
        states.append(torch.jit.load(tmp_path / "net.pt").state_dict())
        assert made["image_size"] == 32 and made["parameters"] == sum(value.numel() for value in states[0].values())
    a, b, c = states
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["0.weight"], c["0.weight"])
    assert a["0.weight"].shape[1] == 1 and a["14.weight"].shape[0] == 3


def test_several_outputs_give_the_logits(tmp_path: Path) -> None:
    library.write(request("torchvision:googlenet", tmp_path, image_size=64))
    assert torch.jit.load(tmp_path / "net.pt")(torch.zeros(2, 3, 64, 64)).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "others", "text"),
    [
        ("overfit", {}, "needs timm:NAME, torchvision:NAME or one of alexnet_v2"),
        ("resnet_v1_50", {}, "resnet_v1_50 is built in: --model resnet50"),
        ("slim:resnet_v1_18", {}, "slim: has resnet_v1_50, .* received resnet_v1_18"),
        ("timm:resnet5", {}, r"timm .* has no model resnet5"),
        ("torchvision:resnet5", {}, "torchvision has no classifier resnet5"),
        ("torchvision:resnet18", {"channels": 1}, "take 3 channels, received --channels 1"),
        ("keras:vgg", {}, "knows the libraries timm, torchvision and slim, received keras"),
        ("cifarnet", {"image_size": 24}, "does not take images of 24 x 24"),
    ],
)
def test_what_cannot_be_written_is_refused(name: str, others: dict[str, object], text: str, tmp_path: Path) -> None:
    with pytest.raises(library.Refused, match=text):
        library.write(request(name, tmp_path, **others))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_so_in_one_line(tmp_path: Path, binaries: Path) -> None:
    environment = {**os.environ, "DIMRED_PYTHON": sys.executable}
    for words, text in (
        (["keras:vgg"], "received keras"),
        (["cifarnet", "--output=net.bin"], "needs an --output that ends in .pt"),
        (["cifarnet", "--output=none/net.pt"], "needs an existing folder"),
    ):
        done = completed([binaries / "dimred", "model", *words], env=environment, cwd=tmp_path)
        assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    without = completed(
        [binaries / "dimred", "model", "cifarnet"], env={**environment, "DIMRED_PYTHON": "no-python"}, cwd=tmp_path
    )
    assert list(tmp_path.iterdir()) == []
    assert (
        without.returncode == 1
        and "needs a Python with torch ($DIMRED_PYTHON, a clone's .venv, else python3)" in without.stderr
    )


def test_a_file_has_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        library.write(request("cifarnet", tmp_path))
    finally:
        os.umask(before)
    assert next(tmp_path.iterdir()).stat().st_mode & 0o777 == 0o640


def test_fastnns_names_mean_the_same_to_dimred_import(tmp_path: Path, binaries: Path) -> None:
    for name, (_, builder) in library.FASTNN.items():
        (tmp_path / "hyper.txt").write_text(f"model_name={name}\n")
        done = completed([binaries / "dimred", "import", "hyper.txt"], cwd=tmp_path)
        said = rf"model = {builder}\b" if name in NATIVE else f"dimred model {name} "
        assert re.search(said, done.stdout), (said, done.stdout)


def test_fastnns_file_takes_the_module_where_it_lies(tmp_path: Path, binaries: Path) -> None:
    (tmp_path / "hyper.txt").write_text("model_name=cifarnet\ndataset_name=cifar10\nnum_classes=4\n")
    words = [binaries / "dimred", "import", "hyper.txt"]
    before = completed(words, cwd=tmp_path)
    assert (
        "needs the file cifarnet.pt in this folder; `dimred model cifarnet --num_classes 4` writes this file"
        in before.stdout + before.stderr
    )
    (tmp_path / "cifarnet.pt").touch()
    after = completed(words, cwd=tmp_path)
    assert "model = cifarnet.pt" in after.stdout.replace('"', ""), after.stdout
