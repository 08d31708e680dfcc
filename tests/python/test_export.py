"""Exports as other programs read them (torch, onnxruntime), and predictions of image files."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cli import cli, completed, rows_in
from conftest import REPOSITORY
from dimred_twins import build
from fashion import fashion, few
from PIL import Image
from safetensors.torch import load_file
from torch import nn

IMAGES = 40
SMALL = cli(
    "--train_samples=1000 --epochs=1 --batch_size=50 --threads=1 --learning_rate=0.05", test_samples=IMAGES, data=few()
)


class Own(nn.Module):
    """A network that dimred has no name for; its constant buffer is no running statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(1, 4, 5, 3), nn.BatchNorm2d(4), nn.Linear(4 * 8 * 8, 10)
        self.register_buffer("shift", torch.linspace(-1, 1, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        return self.fc(torch.relu(self.norm(self.conv(images))).flatten(1)) + self.shift


def forms(folder: Path) -> subprocess.CompletedProcess:
    """scripts/export.sh, with this Python."""
    command = [sys.executable, REPOSITORY / "experiments" / "export.py", folder]
    return completed(command)


@pytest.fixture(scope="module", params=["resnet20", "torchscript"])
def exported(request, tmp_path_factory, execute) -> Path:
    """RUN/export/1 of a short run, with all forms; of resnet20 with another eps of BatchNorm."""
    folder = tmp_path_factory.mktemp(request.param)
    model = request.param
    if model == "torchscript":
        torch.manual_seed(1)
        model = folder / "own.pt"
        torch.jit.script(Own()).save(model)
    eps = ["--batch_norm_eps=0.2"] if model == "resnet20" else []
    execute("dimred", "stage1", *SMALL, *eps, "--model", model, "--output", folder / "run")
    execute("dimred", "export", folder / "run")
    done = forms(folder / "run" / "export" / "1")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    return folder / "run" / "export" / "1"


# What does not depend on the network.
once = pytest.mark.parametrize("exported", ["resnet20"], indirect=True)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """The test images of SMALL as PNG files, in order by name."""
    folder = tmp_path_factory.mktemp("pictures")
    for i, image in enumerate(fashion("test", IMAGES)[0]):
        Image.fromarray(image[0].numpy().astype(np.uint8)).save(folder / f"{i:03}.png")
    return folder


def guesses(path: Path) -> np.ndarray:
    """Probabilities [images, classes] of a CSV with all classes, in the order of the images."""
    found: dict[str, np.ndarray] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault(row["image"], np.zeros(10))[int(row["label"])] = float(row["probability"])
    return np.stack(list(found.values()))


def twin(folder: Path) -> nn.Module:
    """Python's own network with state_dict.pt."""
    signature = json.loads((folder / "signature.json").read_text())
    name = signature["network"]
    net = Own() if name == "torchscript" else build(name, 1, 28, 28, 10)
    for module in net.modules():
        if name == "resnet20" and isinstance(module, nn.BatchNorm2d):
            module.eps = 0.2
    net.load_state_dict(torch.load(folder / "state_dict.pt", weights_only=True))
    return net.eval()


def prepared(folder: Path) -> torch.Tensor:
    """The test images as signature.json says."""
    preparing = json.loads((folder / "signature.json").read_text())["preprocessing"]
    assert preparing["crop"] is None and not preparing["standardise"]
    return (fashion("test", IMAGES)[0] / 255 - preparing["mean"][0]) / preparing["deviation"][0]


def test_signature_says_what_a_reader_needs(exported: Path) -> None:
    signature = json.loads((exported / "signature.json").read_text())
    assert signature["input"]["shape"] == [None, 1, 28, 28]
    assert signature["output"]["shape"] == [None, 10]
    assert len(signature["classes"]) == 10
    last = rows_in(exported.parents[1] / "curve.csv")[-1]
    assert signature["source"]["test_accuracy"] == pytest.approx(float(last["test_accuracy"]), abs=1e-9)
    assert signature["source"]["run"] == str(exported.parents[1])


def test_weights_and_buffers_are_the_networks(exported: Path) -> None:
    weights, net = load_file(exported / "weights.safetensors"), twin(exported)
    assert weights.keys() == net.state_dict().keys()
    for name, value in net.state_dict().items():
        assert torch.equal(weights[name], value) and weights[name].dtype == value.dtype, name
    state = sorted((exported.parents[1] / "checkpoints").iterdir())[-1]
    flat = torch.cat([parameter.detach().flatten() for parameter in net.parameters()]).numpy()
    assert np.array_equal(flat, np.fromfile(state / "weights.f32", np.float32))


def test_all_forms_give_the_same_logits(exported: Path) -> None:
    import onnxruntime

    images = prepared(exported)
    with torch.no_grad():
        expected = twin(exported)(images).numpy()
        scripted = torch.jit.load(exported / "model.pt").eval()(images).numpy()
    session = onnxruntime.InferenceSession(exported / "model.onnx", providers=["CPUExecutionProvider"])
    for logits in (scripted, session.run(["logits"], {"images": images.numpy()})[0]):
        assert np.abs(logits - expected).max() < 1e-5 * max(1, np.abs(expected).max())


def test_predictions_are_pytorchs_softmax_and_evaluations_argmax(
    exported: Path, pictures: Path, tmp_path: Path, execute
) -> None:
    report = execute("dimred", "predict", exported, pictures, "--top", 10, "--csv", tmp_path / "a.csv")
    assert len(report.splitlines()) == IMAGES
    with torch.no_grad():
        expected = torch.softmax(twin(exported)(prepared(exported)).double(), 1).numpy()
    ours = guesses(tmp_path / "a.csv")
    assert np.abs(ours - expected).max() < 1e-5
    right = (ours.argmax(1) == fashion("test", IMAGES)[1].numpy()).mean()
    signature = json.loads((exported / "signature.json").read_text())
    assert right == pytest.approx(signature["source"]["test_accuracy"], abs=1e-9)
    execute("dimred", "predict", exported.parents[1], f"{pictures}/*.png", "--k=10", "--csv", tmp_path / "b.csv")
    assert np.abs(guesses(tmp_path / "b.csv") - ours).max() < 1e-5


@once
def test_versions_are_numbered_and_whole(exported: Path, tmp_path: Path, execute, fails) -> None:
    run, output = exported.parents[1], tmp_path / "versions"
    (output / "7").mkdir(parents=True)
    (output / "7" / "signature.json").write_text("{}")
    (output / "2020").mkdir()
    (output / "1999.png").write_text("a photograph")
    for _ in range(2):
        execute("dimred", "export", run, "--output", output, "--score=false")
    assert sorted(path.name for path in output.iterdir()) == ["1999.png", "2020", "7", "8", "9"]
    assert (output / "8" / "weights.safetensors").read_bytes() == (exported / "weights.safetensors").read_bytes()
    assert "no such file" in fails(2, "export", tmp_path / "nothing")


def test_evaluate_reads_the_exported_weights(exported: Path, execute) -> None:
    options = [
        "--model",
        exported / "module.pt"
        if (exported / "module.pt").exists()
        else json.loads((exported / "signature.json").read_text())["network"],
    ]
    options += [] if (exported / "module.pt").exists() else ["--batch_norm_eps=0.2"]
    options += [SMALL[0], *SMALL[-2:]]  # its data: the file says nothing of it
    report = execute("dimred", "evaluate", exported / "weights.safetensors", "--threads=1", *options)
    expected = execute("dimred", "evaluate", exported.parents[1], "--threads=1")
    assert report.splitlines()[-1] == expected.splitlines()[-1]


@once
def test_unusable_images_are_named_and_counted(exported: Path, pictures: Path, tmp_path: Path, binaries) -> None:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes((pictures / "000.png").read_bytes()[:90])
    Image.new("L", (20, 28)).save(tmp_path / "narrow.png")
    Image.new("L", (28, 28)).save(tmp_path / "form.webp")
    Image.new("L", (28, 28)).save(tmp_path / "short.jpe", "JPEG")
    (tmp_path / "gone.jpg").symlink_to("nothing.jpg")
    (tmp_path / "labels.txt").write_text("no image, and not named as one")
    command = [binaries / "dimred", "predict", exported, tmp_path, pictures / "003.png"]
    done = completed(command)
    assert done.returncode == 1
    short, whole = done.stdout.splitlines()
    assert "short.jpe" in short and "003.png" in whole
    lines = done.stderr.splitlines()
    assert len(lines) == 6 and lines[-1].endswith("5 of 7 images failed")
    assert "cut.png" in lines[0] and "form.webp: needs a JPEG or PNG file" in lines[1]
    assert "gone.jpg: No such file" in lines[2]
    assert "needs an image of 28 x 28, received 28 x 20" in lines[3]
    assert "needs a JPEG or PNG file" in lines[4]
    gone = completed([binaries / "dimred", "predict", exported, tmp_path / "gone.jpg"])
    assert gone.returncode == 1 and "1 of 1 images failed" in gone.stderr


@once
def test_bad_requests_are_refused(exported: Path, pictures: Path, tmp_path: Path, fails) -> None:
    assert "needs a run or an export, then images" in fails(2, "predict", exported)
    assert "leave out --pad" in fails(2, "predict", exported, pictures, "--pad=2")
    assert "received nothing.png" in fails(2, "predict", exported, "nothing.png")
    assert ">= 1" in fails(2, "predict", exported, pictures, "--top=0")


def changed(exported: Path, folder: Path, **values: object) -> Path:
    """A copy of the export with other values in its signature, and without the forms."""
    folder.mkdir()
    for file in exported.iterdir():
        if file.name not in ("state_dict.pt", "model.pt", "model.onnx"):
            (folder / file.name).write_bytes(file.read_bytes())
    signature = json.loads((folder / "signature.json").read_text()) | values
    (folder / "signature.json").write_text(json.dumps(signature))
    return folder


@once
def test_an_export_that_is_not_whole_is_refused_by_name(
    exported: Path, pictures: Path, tmp_path: Path, execute, fails
) -> None:
    assert "yes, digests verified" in execute("dimred", "inspect", exported)
    for name in ("weights.safetensors", "reference.safetensors"):
        folder = changed(exported, tmp_path / name)
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        for words in (["predict", folder, pictures], ["inspect", folder]):
            assert f"{folder / name} is missing, damaged or changed" in fails(1, *words)
    folder = changed(exported, tmp_path / "values", source={})
    assert "signature.json is damaged or was changed" in fails(1, "predict", folder, pictures)
    (folder / "reference.safetensors").unlink()
    assert "signature.json is damaged or was changed" in fails(1, "inspect", folder)


@once
def test_a_signature_without_a_key_is_refused_by_the_key(exported: Path, pictures: Path, tmp_path: Path, fails) -> None:
    folder = tmp_path / "empty"
    shutil.copytree(exported, folder)
    whole = json.loads((folder / "signature.json").read_text())
    no_shape, no_mean = json.loads(json.dumps(whole)), json.loads(json.dumps(whole))
    no_shape["input"]["shape"] = [None, 1]
    del no_mean["preprocessing"]["mean"]
    for text, said in (
        ({}, 'the key "format" is missing'),
        ([], 'the key "format" is missing'),
        (whole | {"classes": 3}, 'the value of "classes" has the wrong type number'),
        (no_shape, 'the list "shape" has no entry 3'),
        (no_mean, 'the key "mean" is missing'),
    ):
        (folder / "signature.json").write_text(json.dumps(text))
        assert f"signature.json is damaged: {said}" in fails(1, "predict", folder, pictures)


@once
def test_a_damaged_format_does_not_switch_the_digests_off(
    exported: Path, pictures: Path, tmp_path: Path, fails
) -> None:
    shutil.copytree(exported, tmp_path / "1")
    file = tmp_path / "1" / "signature.json"
    file.write_text(file.read_text().replace('"format": 2', '"format": 1'))
    for command in (["inspect", file.parent], ["predict", file.parent, pictures]):
        assert "digest" in fails(1, *command)


@once
def test_a_network_without_a_twin_is_refused_by_name(exported: Path, tmp_path: Path) -> None:
    folder = changed(exported, tmp_path / "1", network="perceptron")
    done = forms(folder)
    assert done.returncode == 2 and "perceptron has no PyTorch twin" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "model.onnx").exists()


@once
def test_a_rewritten_export_is_no_export(exported: Path, tmp_path: Path, execute) -> None:
    """Its signature seals files that the result does not have."""
    folder = changed(exported, tmp_path / "1")
    for verb in ("convert", "merge"):
        said = execute("dimred", verb, folder, "--output", tmp_path / verb)
        (line,) = (line for line in said.splitlines() if "not copied" in line)
        assert "reference.safetensors" in line and "signature.json" in line
        assert not (tmp_path / verb / "signature.json").exists()


@once
def test_logits_that_differ_are_refused(exported: Path, tmp_path: Path) -> None:
    """Weights that are not those of the reference."""
    folder = changed(exported, tmp_path / "1")
    weights = bytearray((folder / "weights.safetensors").read_bytes())
    weights[-1] ^= 0x80  # the sign of the last value
    weights[-5] ^= 0x80
    (folder / "weights.safetensors").write_bytes(weights)
    done = forms(folder)
    assert done.returncode == 2 and "other logits than the C++ network" in done.stderr
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith("module")) == [
        "reference.safetensors",
        "signature.json",
        "weights.safetensors",
    ]
