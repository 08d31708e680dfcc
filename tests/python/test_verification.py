"""dimred verify against the published procedure in NumPy, and networks' embeddings against PyTorch's."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import report
import torch
import xxhash
from dimred_twins import build
from fashion import few, fashion
from PIL import Image
from reference.verification import verify
from run_folders import row, write_run
from torch import nn

IMAGES = 60


def told(folder: Path) -> dict:
    """verification.json."""
    return json.loads((folder / "verification.json").read_text())


@pytest.mark.parametrize(("pairs", "noise", "flip"), [(600, 0.9, True), (403, 1.5, False), (100, 0.3, True)])
def test_equals_the_published_procedure(execute, tmp_path: Path, pairs: int, noise: float, flip: bool) -> None:
    random = np.random.default_rng(pairs)
    same = random.random(pairs) < 0.5
    faces = random.normal(size=(pairs, 2, 16))
    faces[same, 1] = faces[same, 0]
    embeddings = 3 * (faces + noise * random.normal(size=faces.shape)).reshape(2 * pairs, 16)
    flipped = embeddings + 0.4 * random.normal(size=embeddings.shape)
    file = tmp_path / "problem.json"
    file.write_text(json.dumps({
        "embeddings": embeddings.tolist(), "flipped": flipped.tolist() if flip else [], "same": same.tolist()}))  # fmt: skip
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


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute) -> Path:
    """A short run and its export/1."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    execute("dimred", "stage1", "--data", few(), "--train_samples=600", f"--test_samples={IMAGES}", "--epochs=1",
            "--batch_size=50", "--threads=1", "--output", folder)  # fmt: skip
    execute("dimred", "export", folder)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[list[Path], torch.Tensor, np.ndarray, np.ndarray]:
    """PNG files, their pixels, pairs of their numbers, and which are of one class; both kinds in every tenth."""
    folder = tmp_path_factory.mktemp("pictures")
    images, labels = fashion("test", IMAGES)
    files = []
    for i, image in enumerate(images):
        files.append(folder / f"{i:02}.png")
        Image.fromarray(image[0].numpy().astype(np.uint8)).save(files[-1])
    random, labels = np.random.default_rng(1), np.asarray(labels)
    pairs = []
    for number in range(80):
        while True:
            a, b = random.integers(0, IMAGES, 2)
            if a != b and (labels[a] == labels[b]) == (number % 2 == 0):
                break
        pairs.append((a, b))
    return files, images, np.array(pairs), np.arange(80) % 2 == 0


@pytest.fixture(scope="module")
def listed(pictures, tmp_path_factory) -> Path:
    """The pairs as a list with all that its form allows."""
    files, _, pairs, same = pictures
    lines = []
    for i, ((a, b), kind) in enumerate(zip(pairs, same, strict=True)):
        between = "\t" if i % 3 == 0 else "  "
        lines.append(between.join([os.path.relpath(files[a], files[0].parent.parent), str(files[b]), str(int(kind))]))
    path = files[0].parent.parent / "pairs.txt"
    path.write_text("\n\n".join(lines) + "\r\n")
    return path


def embedded(run: Path, images: torch.Tensor, whole: bool) -> np.ndarray:
    """By PyTorch, from the export's weights: what goes into the last layer, or what comes out."""
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


def python_2(images: list[bytes], same: list[bool]) -> bytes:
    """What Python 2's cPickle writes at protocol 2: texts by SHORT_BINSTRING and BINSTRING, memoised."""
    out = io.BytesIO()
    out.write(b"\x80\x02]q\x00(")
    for i, image in enumerate(images):
        out.write(b"U" + bytes([len(image)]) if len(image) < 256 else b"T" + struct.pack("<i", len(image)))
        out.write(image + b"r" + struct.pack("<I", i + 1))
    out.write(b"e]r\xff\xff\x00\x00(" + b"".join(b"\x88" if kind else b"\x89" for kind in same) + b"e\x86.")
    assert pickle.loads(out.getvalue(), encoding="bytes") == (images, same)
    return out.getvalue()


def test_a_runs_embeddings_are_what_its_last_layer_takes_in(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    said = execute("dimred", "verify", run, "--pairs", listed, "--threads=1")
    ours = told(run)
    assert "80 pairs (40 the same), embeddings of 64 with the flipped image's" in said
    assert f"accuracy  {ours['accuracy']:.5f} +- {ours['accuracy_deviation']:.5f} over 10 folds" in said
    theirs = expected(run, pictures)
    close(ours, theirs)
    with (run / "roc.csv").open(newline="") as stream:
        roc = np.array([[float(cell) for cell in line.values()] for line in csv.DictReader(stream)])
    assert roc.shape == (400, 3)
    assert np.abs(roc[:, 1] - theirs["tpr"]).mean() < 1e-3 and np.abs(roc[:, 2] - theirs["fpr"]).mean() < 1e-3
    execute("dimred", "verify", run, "--pairs", listed, "--with_flipped=false", "--threads=1", "--output", tmp_path)
    assert told(tmp_path)["xnorm"] != ours["xnorm"] and told(tmp_path)["with_flipped"] is False


def test_every_form_of_pickle_holds_the_same(execute, pictures, listed: Path, tmp_path: Path) -> None:
    files, _, pairs, same = pictures
    images, kinds = [files[i].read_bytes() for i in pairs.flatten()], [bool(kind) for kind in same]
    images[5] = b"large" * 30_000  # more than a frame
    forms = [python_2(images, kinds), *(pickle.dumps((images, kinds), protocol) for protocol in (3, 4, 5)),
             pickle.dumps([tuple(images), list(map(int, kinds))])]  # fmt: skip
    for number, form in enumerate(forms):
        (tmp_path / f"{number}.bin").write_bytes(form)
    for line in execute("verify_tool", "--pairs", *(tmp_path / f"{i}.bin" for i in range(len(forms)))).splitlines():
        found = json.loads(line)
        assert found["images"] == [xxhash.xxh3_128_hexdigest(image) for image in images]
        assert found["pairs"] == [[2 * i, 2 * i + 1, kind] for i, kind in enumerate(kinds)]
    found = json.loads(execute("verify_tool", "--pairs", listed))
    digests = [xxhash.xxh3_128_hexdigest(file.read_bytes()) for file in files]
    assert [[found["images"][a], found["images"][b], kind] for a, b, kind in found["pairs"]] == [
        [digests[a], digests[b], kind] for (a, b), kind in zip(pairs, kinds, strict=True)
    ]


def test_a_pickles_images_give_what_the_lists_give(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    files, _, pairs, same = pictures
    path = tmp_path / "pairs.bin"
    path.write_bytes(python_2([files[i].read_bytes() for i in pairs.flatten()], [bool(kind) for kind in same]))
    for name, form in (("bin", path), ("list", listed)):
        execute("dimred", "verify", run / "export" / "1", "--pairs", form, "--threads=1", "--output", tmp_path / name)
    a, b = told(tmp_path / "bin"), told(tmp_path / "list")
    assert {k: v for k, v in a.items() if k != "pairs_file"} == {k: v for k, v in b.items() if k != "pairs_file"}
    close(a, expected(run, pictures))


def test_a_modules_whole_output_is_its_embedding(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    net = build("convnet", 1, 28, 28, 10)
    net.load_state_dict(load_file(run / "export" / "1" / "weights.safetensors"))
    torch.jit.script(Embedder(net)).save(tmp_path / "net.pt")
    execute("dimred", "stage1", "--data", few(), "--train_samples=600", f"--test_samples={IMAGES}", "--epochs=1",
            "--learning_rate=1e-30", "--weight_decay=0", "--model", tmp_path / "net.pt", "--threads=1", "--output", tmp_path / "run")  # fmt: skip
    said = execute("dimred", "verify", tmp_path / "run", "--pairs", listed, "--threads=1")
    assert "embeddings of 10 with" in said
    close(told(tmp_path / "run"), expected(run, pictures, whole=True))


def test_a_module_may_give_embeddings_of_any_size(execute, run: Path, pictures, listed: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    net = build("convnet", 1, 28, 28, 10)
    net.load_state_dict(load_file(run / "export" / "1" / "weights.safetensors"))
    net.fc2 = nn.Identity()
    torch.jit.script(Embedder(net)).save(tmp_path / "net.pt")
    torch.save(Embedder(net).state_dict(), tmp_path / "state.pt")
    said = execute("dimred", "verify", tmp_path / "state.pt", "--model", tmp_path / "net.pt", "--pairs", listed, "--data", few(),
                   "--train_samples=600", f"--test_samples={IMAGES}", "--threads=1", "--output", tmp_path / "out")  # fmt: skip
    assert "embeddings of 64 with" in said
    close(told(tmp_path / "out"), expected(run, pictures))


def test_a_run_in_bfloat16_is_verified_in_float32(execute, pictures, listed: Path, tmp_path: Path) -> None:
    words = ("--data", few(), "--train_samples=600", f"--test_samples={IMAGES}", "--epochs=1", "--threads=1")
    execute("dimred", "stage1", *words, "--precision=auto", "--output", tmp_path / "probe")
    if 'precision = "bfloat16"' not in (tmp_path / "probe" / "config.toml").read_text():
        pytest.skip("no native bfloat16 on this processor")
    execute("dimred", "stage1", *words, "--precision=bfloat16", "--amp_deny=linear", "--output", tmp_path / "run")
    (tmp_path / "options.toml").write_text('precision = "bfloat16"\n')
    plain, explicit, other = (told_of(execute, tmp_path, listed, *words)
                              for words in ((), ("--precision=float32",), ("--config", tmp_path / "options.toml")))  # fmt: skip
    assert plain == explicit
    assert plain["xnorm"] != other["xnorm"]


def told_of(execute, folder: Path, listed: Path, *words: object) -> dict:
    """verification.json of folder/run."""
    execute("dimred", "verify", folder / "run", "--pairs", listed, "--threads=1", *words)
    return told(folder / "run")


class Command:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def lines_of(pictures) -> list[str]:
    """A good list."""
    files, _, pairs, same = pictures
    return [f"{files[a]} {files[b]} {int(kind)}" for (a, b), kind in zip(pairs, same, strict=True)]


def test_lists_and_pickles_that_do_not_fit(execute, pictures, tmp_path: Path) -> None:
    files, good, mark = pictures[0], lines_of(pictures), tmp_path / "ran"
    images = [files[0].read_bytes()] * 3
    code = pickle.dumps(([b""], [Command(mark)]))
    cases = [
        ("a.txt", f"{good[0]}\n{files[0]} {files[1]} 2\n".encode(), 'a.txt:2: needs "path_a path_b 0" or 1, received '),
        ("b.txt", f"{files[0]} 1\n".encode(), ':1: needs "path_a'),
        ("c.txt", f"{good[0]} 1\n".encode(), ':1: needs "path_a'),
        ("d.txt", f"{good[0]}\n\n{files[0]} nothing.png 1\n".encode(), ":3: no such file: "),
        ("code.bin", code, "asks for posix.system, which plain values do not need; refused, nothing of it was run"),
        ("odd.bin", pickle.dumps((images, [True])), "needs two images for each pair, received 3 and 1 pairs"),
        ("kinds.bin", pickle.dumps((images, [2.0])), "needs a pickle of two lists"),
        ("two.bin", pickle.dumps((images[:2], [2])), "needs a pickle of two lists"),
        ("numpy.bin", pickle.dumps((images[:2], [np.True_])), "asks for numpy"),
        ("latin.bin", pickle.dumps((images[:2], [True]), 2), "asks for _codecs.encode"),
        ("empty.bin", pickle.dumps(([b"", b"a"], [True])), "image 0 is empty"),
        ("cut.bin", pickle.dumps((images, [True]))[:-40], "is cut off"),
    ]
    for name, content, _ in cases:
        (tmp_path / name).write_bytes(content)
    answers = execute("verify_tool", "--pairs", *(tmp_path / name for name, *_ in cases)).splitlines()
    for answer, (name, _, text) in zip(answers, cases, strict=True):
        refused = json.loads(answer)["refused"]
        assert text in refused and name in refused, answer
    assert not mark.exists()


def test_refuses_in_one_line(fails, run: Path, pictures, tmp_path: Path) -> None:
    export, good, path = run / "export" / "1", lines_of(pictures), tmp_path / "pairs.txt"

    def refused(code: int, lines: list[str], *options: object) -> str:
        path.write_text("\n".join(lines))
        return fails(code, "verify", export, "--pairs", path, "--threads=1", *options)

    out = ["--output", tmp_path / "out"]
    by_kind = sorted(good, key=lambda line: -int(line[-1]))
    assert "none that differ among pairs 1 to 4; mix the list" in refused(2, by_kind[:40], *out)
    assert "needs at least 10 pairs, received 9" in refused(2, good[:9], *out)
    path.write_text("\n".join(by_kind[:40]))  # before the network's data are read
    assert "mix the list" in fails(2, "verify", run, "--pairs", path, "--data", tmp_path / "nowhere", *out)
    (tmp_path / "broken.png").write_bytes(pictures[0][0].read_bytes()[:60])
    assert "broken.png: " in refused(1, [*good, f"broken.png {pictures[0][0]} 1"], *out)
    assert not (tmp_path / "out").exists()
    assert "needs --output FOLDER beside an export" in refused(2, good)
    assert "--pad has no place" in refused(2, good, "--pad=2", *out)
    assert "needs a run or an export, and pairs" in fails(2, "verify", export)


def test_report_draws_the_curves_of_verified_runs(tmp_path: Path, capsys) -> None:
    runs = [write_run(tmp_path / name, [row(1, 0.5)]) for name in ("one", "two")]
    page = tmp_path / "report.html"
    assert report.main([*map(str, runs), "--output", str(page)]) == 0
    assert "Verification" not in page.read_text()
    figures = {"accuracy": 0.9712, "accuracy_deviation": 0.004, "tar": 0.88, "tar_deviation": 0.01, "far": 0.001,
               "xnorm": 21.5, "pairs": 6000, "pairs_file": "/data/lfw.bin"}  # fmt: skip
    (runs[0] / "verification.json").write_text(json.dumps(figures))
    lines = [f"{t},{1 - 1 / (1 + t):.3f},{t / 4:.3f}" for t in np.arange(0, 4, 0.01)]
    (runs[0] / "roc.csv").write_text("\n".join(["threshold,true_positive_rate,false_positive_rate", *lines]))
    assert report.main([*map(str, runs), "--output", str(page)]) == 0
    html = page.read_text()
    for text in ("<h2>Verification</h2>", "lfw.bin", "97.12 ± 0.40", "88.00 ± 1.00", "6,000", 'aria-label="ROC"'):
        assert text in html, text
    capsys.readouterr()
    (runs[0] / "verification.json").write_text("{}")
    assert report.main([*map(str, runs), "--output", str(page)]) == 2
    assert "verification.json is damaged: it has no accuracy" in capsys.readouterr().err
