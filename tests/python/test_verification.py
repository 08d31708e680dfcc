"""dimred verify against the published procedure in NumPy, and networks' embeddings against PyTorch's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from cli import rows_in
from dimred_twins import build
from reference.verification import verify
from torch import nn
from verified_pairs import DATA, listed, pictures, python_2, report, run  # noqa: F401  fixtures


@pytest.mark.parametrize(("pairs", "noise", "flip"), [(600, 0.9, True), (403, 1.5, False), (100, 0.3, True)])
def test_equals_the_published_procedure(execute, tmp_path: Path, pairs: int, noise: float, flip: bool) -> None:
    random = np.random.default_rng(pairs)
    same = random.random(pairs) < 0.5
    faces = random.normal(size=(pairs, 2, 16))
    faces[same, 1] = faces[same, 0]
    embeddings = 3 * (faces + noise * random.normal(size=faces.shape)).reshape(2 * pairs, 16)
    flipped = embeddings + 0.4 * random.normal(size=embeddings.shape)
    file = tmp_path / "problem.json"
    file.write_text(
        json.dumps(
            {"embeddings": embeddings.tolist(), "flipped": flipped.tolist() if flip else [], "same": same.tolist()}
        )
    )
    ours = json.loads(execute("verify_tool", file))
    for key, value in verify(embeddings, flipped if flip else None, same).items():
        np.testing.assert_allclose(ours[key], value, rtol=0, atol=1e-12, err_msg=key)
    assert 0.5 < ours["accuracy"] <= 1 and ours["folds"][0][2] > 0


class Embedder(nn.Module):
    """Images to embeddings, as people keep them without the last layer."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[batch, 10]: of this one the logits themselves."""
        return self.whole(images)


def embedded(run: Path, images: torch.Tensor, whole: bool) -> np.ndarray:
    """PyTorch's values from the export's weights: what goes into the last layer, or what comes out."""
    from safetensors.torch import load_file

    signature = json.loads((run / "export" / "1" / "signature.json").read_text())
    net = build("convnet", 1, 28, 28, 10).eval()
    net.load_state_dict(load_file(run / "export" / "1" / "weights.safetensors"))
    if not whole:
        net.fc2 = nn.Identity()
    ready = (images / 255 - signature["preprocessing"]["mean"][0]) / signature["preprocessing"]["deviation"][0]
    with torch.no_grad():
        return net(ready).double().numpy()


def expected(run: Path, pictures, whole: bool = False) -> dict:
    """The reference's answer for a network's embeddings of these images, and of them flipped."""
    _, images, pairs, same = pictures
    plain, flipped = (embedded(run, x, whole)[pairs.flatten()] for x in (images, images.flip(3)))
    return verify(plain, flipped, same)


def close(ours: dict, theirs: dict) -> None:
    """Up to float32's rounding of the embeddings, which may move one pair of 8 across a threshold."""
    assert ours["xnorm"] == pytest.approx(theirs["xnorm"], rel=1e-5)
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=1 / 80)
    assert ours["tar"] == pytest.approx(theirs["tar"], abs=1 / 40)
    found = np.array([fold["accuracy"] for fold in ours["folds"]])
    assert np.abs(found - theirs["folds"][:, 1]).max() <= 1 / 8


def test_a_runs_embeddings_are_what_its_last_layer_takes_in(
    execute, run: Path, pictures, listed: Path, tmp_path: Path
) -> None:
    said = execute("dimred", "verify", run, "--pairs", listed, "--threads=1")
    ours = report(run)
    assert "80 pairs (40 the same), embeddings of 64 values, with the embedding of the flipped image" in said
    assert f"accuracy  {ours['accuracy']:.5f} +- {ours['accuracy_deviation']:.5f} over 10 folds" in said
    theirs = expected(run, pictures)
    close(ours, theirs)
    roc = np.array([[float(cell) for cell in line.values()] for line in rows_in(run / "roc.csv")])
    assert roc.shape == (400, 3)
    assert np.abs(roc[:, 1] - theirs["tpr"]).mean() < 1e-3 and np.abs(roc[:, 2] - theirs["fpr"]).mean() < 1e-3
    execute("dimred", "verify", run, "--pairs", listed, "--with_flipped=false", "--threads=1", "--output", tmp_path)
    assert report(tmp_path)["xnorm"] != ours["xnorm"] and report(tmp_path)["with_flipped"] is False


def test_a_pickles_images_give_what_the_lists_give(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    files, _, pairs, same = pictures
    path = tmp_path / "pairs.bin"
    path.write_bytes(python_2([files[i].read_bytes() for i in pairs.flatten()], [bool(kind) for kind in same]))
    for name, form in (("bin", path), ("list", listed)):
        execute("dimred", "verify", run / "export" / "1", "--pairs", form, "--threads=1", "--output", tmp_path / name)
    a, b = report(tmp_path / "bin"), report(tmp_path / "list")
    assert {k: v for k, v in a.items() if k != "pairs_file"} == {k: v for k, v in b.items() if k != "pairs_file"}
    close(a, expected(run, pictures))


def test_a_modules_whole_output_is_its_embedding(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    net = build("convnet", 1, 28, 28, 10)
    net.load_state_dict(load_file(run / "export" / "1" / "weights.safetensors"))
    torch.jit.script(Embedder(net)).save(tmp_path / "net.pt")
    words = ("--epochs=1", "--learning_rate=1e-30", "--weight_decay=0", "--threads=1")
    execute("dimred", "stage1", *DATA, *words, "--model", tmp_path / "net.pt", "--output", tmp_path / "run")
    said = execute("dimred", "verify", tmp_path / "run", "--pairs", listed, "--threads=1")
    assert "embeddings of 10 values, with the" in said
    close(report(tmp_path / "run"), expected(run, pictures, whole=True))


def test_a_module_may_give_embeddings_of_any_size(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    net = build("convnet", 1, 28, 28, 10)
    net.load_state_dict(load_file(run / "export" / "1" / "weights.safetensors"))
    net.fc2 = nn.Identity()
    torch.jit.script(Embedder(net)).save(tmp_path / "net.pt")
    torch.save(Embedder(net).state_dict(), tmp_path / "state.pt")
    said = execute(
        "dimred",
        "verify",
        tmp_path / "state.pt",
        *DATA,
        "--threads=1",
        model=tmp_path / "net.pt",
        pairs=listed,
        output=tmp_path / "out",
    )
    assert "embeddings of 64 values, with the" in said
    close(report(tmp_path / "out"), expected(run, pictures))


def test_a_run_in_bfloat16_is_verified_in_float32(execute, pictures, listed: Path, tmp_path: Path) -> None:
    words = (*DATA, "--epochs=1", "--threads=1")
    execute("dimred", "stage1", *words, "--precision=auto", "--output", tmp_path / "probe")
    if 'precision = "bfloat16"' not in (tmp_path / "probe" / "config.toml").read_text():
        pytest.skip("no native bfloat16 on this processor")
    execute("dimred", "stage1", *words, "--precision=bfloat16", "--amp_deny=linear", "--output", tmp_path / "run")
    (tmp_path / "options.toml").write_text('precision = "bfloat16"\n')
    plain, explicit, other = (
        told_of(execute, tmp_path, listed, *words)
        for words in ((), ("--precision=float32",), ("--config", tmp_path / "options.toml"))
    )
    assert plain == explicit
    assert plain["xnorm"] != other["xnorm"]


def test_no_output_replaces_the_pairs(fails, run: Path, listed: Path) -> None:
    pairs = listed.with_name("verification.json")
    pairs.write_text(listed.read_text())
    said = fails(2, "verify", run, "--pairs", pairs, "--threads=1", "--output", pairs.parent)
    assert "verification.json is an input of this command; choose another --output" in said
    assert pairs.read_text() == listed.read_text()


def told_of(execute, folder: Path, listed: Path, *words: object) -> dict:
    """verification.json of folder/run."""
    execute("dimred", "verify", folder / "run", "--pairs", listed, "--threads=1", *words)
    return report(folder / "run")
