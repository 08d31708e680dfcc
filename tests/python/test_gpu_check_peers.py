"""What the check for GPU machines brings along for machines without numpy, torchvision and scikit-learn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import REPOSITORY
from PIL import Image
from torchvision import models

CHECK = REPOSITORY / "benchmarks" / "device_check"
sys.path.insert(0, str(CHECK))
from packed_images import read_packed  # noqa: E402
from peer_loops import cropped_and_flipped  # noqa: E402
from resnet50 import ResNet50  # noqa: E402
from snapshot_file import create, read, write_snapshots  # noqa: E402


def test_resnet50_is_torchvisions() -> None:
    torch.manual_seed(3)
    theirs = models.get_model("resnet50", weights=None, num_classes=7)
    ours = ResNet50(3, 7)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_packed_images_are_read_as_they_were(tmp_path: Path, execute) -> None:
    generator = np.random.default_rng(5)
    images = generator.integers(0, 256, (4, 6, 5, 3), np.uint8)
    for i, image in enumerate(images):
        place = tmp_path / "data" / "train" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{i}.png")
    (tmp_path / "data" / "test").symlink_to("train")
    execute("dimred", "data", "pack", tmp_path / "data", "--encoding=planes", "--output", tmp_path / "packed")
    found, labels = read_packed(tmp_path / "packed" / "train.packed")
    assert labels.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(found.numpy(), images[[0, 2, 1, 3]].transpose(0, 3, 1, 2))
    execute("dimred", "data", "pack", tmp_path / "data", "--output", tmp_path / "kept")
    with pytest.raises(ValueError, match="needs decoded images of one shape"):
        read_packed(tmp_path / "kept" / "train.packed")


def test_matrices_are_numpys(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    create(tmp_path / "ours.npy", 3, 4).copy_(torch.tensor(matrix))
    np.testing.assert_array_equal(np.load(tmp_path / "ours.npy"), matrix)
    np.save(tmp_path / "theirs.npy", matrix)
    assert torch.equal(read(tmp_path / "theirs.npy"), torch.tensor(matrix))
    np.save(tmp_path / "wide.npy", matrix.astype(np.float64))
    with pytest.raises(ValueError, match="needs to be a float32 matrix in C order"):
        read(tmp_path / "wide.npy")


def test_the_svd_of_torch_gives_the_components(tmp_path: Path) -> None:
    write_snapshots(tmp_path / "w.npy", 9, 200, torch.device("cpu"))
    script = CHECK / "torch_svd.py"
    done = subprocess.run([sys.executable, script, tmp_path / "w.npy", "4", tmp_path / "p.npy"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert json.loads(done.stdout)["seconds"] > 0
    matrix = np.load(tmp_path / "w.npy").astype(np.float64)
    exact = np.linalg.svd(matrix - matrix.mean(0), full_matrices=False)[2][:4]
    basis = np.load(tmp_path / "p.npy")
    np.testing.assert_allclose(np.abs(np.sum(basis * exact, 1)), 1, atol=1e-5)  # float32, gaps of 15 %


def test_crops_hold_what_the_padded_image_holds() -> None:
    torch.manual_seed(0)
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).view(2, 3, 8, 8) + 1
    wide = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for image, cut in zip(wide, cropped_and_flipped(images), strict=True):
        places = [image[:, y : y + 8, x : x + 8] for y in range(9) for x in range(9)]
        assert sum(torch.equal(cut, one) or torch.equal(cut, one.flip(2)) for one in places) >= 1


LEAN = """
import sys
for name in ("numpy", "torchvision", "scipy", "sklearn", "pandas", "safetensors"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = ["cpu"]
import peer_server
peer_server.main()
"""


def test_the_peers_answer_with_torch_alone(tmp_path: Path) -> None:
    asked = [{"what": "machine"},
             {"what": "steps", "name": "resnet20", "side": 32, "classes": 10, "batch": 2, "steps": 1, "half": False,
              "compiled": False},
             {"what": "epoch", "name": "convnet", "data": None, "samples": 8, "shape": [1, 28, 28], "batch": 4,
              "augment": True, "loader": False},
             {"what": "snapshots", "path": str(tmp_path / "w.npy"), "rows": 5, "columns": 9}]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", LEAN, CHECK], input="".join(json.dumps(one) + "\n" for one in asked),
                          capture_output=True, text=True, timeout=200, check=True)  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 4 and not [one for one in answers if "error" in one], answers
    assert np.load(tmp_path / "w.npy").shape == (5, 9)
