"""TorchScript modules through both stages: PyTorch's numbers, resume, ranks, and what is refused.

A step trains the whole set as one batch, so that the order of samples does not matter to PyTorch's loop here.
Dropout is off where another random stream would be compared; that its masks are ours is tested in tests/models.
"""

from __future__ import annotations

import json
import math
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from cli import cli, completed, rows, rows_in
from fashion import fashion, few
from PIL import Image
from ranks import run_ranks
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector

SAMPLES, STEPS, RATE = 250, 6, 0.05
PLAIN = cli(
    "--test_samples=100 --schedule=constant --momentum=0.9 --weight_decay=0 --threads=1",
    "--snapshots_per_epoch=1 --memory_format=contiguous",
    train_samples=SAMPLES,
    global_batch_size=SAMPLES,
    learning_rate=RATE,
    data=few(),
)
DROPPED = cli("--train_samples=500 --test_samples=100 --batch_size=50 --threads=1 --snapshots_per_epoch=3", data=few())


class Net(nn.Module):
    """Both kinds of layer that differ between the modes; smooth, so that rounding makes no jumps."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, 2),
            nn.BatchNorm2d(6, momentum=0.2),
            nn.Tanh(),
            nn.Conv2d(6, 8, 3, 2),
            nn.BatchNorm2d(8),
            nn.Tanh(),
        )
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(8 * 6 * 6, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        return self.fc(self.dropout(torch.flatten(self.features(images), 1)))


class Viewing(nn.Module):
    """Wants contiguous memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3, 2), nn.Linear(4 * 13 * 13, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        return self.fc(self.conv(images).view(images.shape[0], -1))


def network(dropout: float = 0.0) -> Net:
    """Drawn by one seed, with running statistics away from their initial values."""
    torch.manual_seed(5)
    net = Net(dropout)
    for norm in (net.features[1], net.features[4]):
        nn.init.normal_(norm.running_mean, std=0.1)
    return net


def newest(run: Path) -> dict[str, np.ndarray]:
    """Weights, buffers and counters of the newest state."""
    state = sorted((run / "checkpoints").iterdir())[-1]
    kinds = {".f32": np.float32, ".i64": np.int64}
    return {file.stem: np.fromfile(file, kinds[file.suffix]) for file in state.iterdir() if file.suffix in kinds}


def trained_by_pytorch(net: Net, run: Path, train: bool) -> tuple[list[float], np.ndarray, np.ndarray]:
    """Losses of all steps, weights and float buffers after SGD on what the run trained on."""
    manifest = json.loads((run / "manifest.json").read_text())
    images, labels = fashion("train", SAMPLES)
    images = (images / 255 - manifest["mean"][0]) / manifest["deviation"][0]
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=0.9)
    net.train(train)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    buffers = [buffer.flatten() for buffer in net.buffers() if buffer.is_floating_point()]
    return losses, parameters_to_vector(net.parameters()).detach().numpy(), torch.cat(buffers).numpy()


@pytest.mark.parametrize("how", ["scripted", "traced"])
def test_steps_are_pytorchs(how: str, tmp_path: Path, execute) -> None:
    """A traced module keeps the mode it was traced in: fixed statistics, no dropout."""
    net, run, file = network(), tmp_path / "run", tmp_path / "net.pt"
    if how == "scripted":
        torch.jit.script(net).save(file)
    else:
        torch.jit.trace(net.eval(), torch.zeros(2, 1, 28, 28)).save(file)
    execute("dimred", "stage1", *PLAIN, f"--epochs={STEPS}", "--model", file, "--output", run)
    losses, weights, buffers = trained_by_pytorch(net, run, train=how == "scripted")
    ours = newest(run)
    np.testing.assert_allclose([float(row["train_loss"]) for row in rows(run)], losses, rtol=1e-5)
    assert losses[-1] < 0.98 * losses[0]
    assert np.abs(ours["weights"] - weights).max() < 1e-5
    assert np.abs(ours["buffers"] - buffers).max() < 1e-5
    assert ours["counters"].tolist() == ([STEPS, STEPS] if how == "scripted" else [0, 0])


class Moving(nn.Module):
    """Has a state that moves in training: as an attribute, in a buffer that is replaced, or in one that is changed."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.count, self.fc = how, 0, nn.Linear(784, 10)
        self.scales, self.names = [torch.ones(2), torch.full((1,), torch.nan)], {"a": torch.zeros(1)}  # never move
        self.register_buffer("mean", torch.zeros(784))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        x = images.flatten(1)
        if self.training:
            if self.how == "list":
                self.scales[0] = self.scales[0] + 1
            elif self.how == "attribute":
                self.count += 1
            elif self.how == "replaced":
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            else:
                self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
        return self.fc(x - self.mean)


def test_buffers_of_its_own_are_no_global_statistics(tmp_path: Path, execute, binaries) -> None:
    """They are saved and averaged over ranks; the statistics of the global batch know BatchNorm's alone."""
    torch.jit.script(Moving("changed")).save(tmp_path / "net.pt")
    words = ["stage1", *DROPPED, "--epochs=1", "--model", tmp_path / "net.pt"]
    execute("dimred", *words, "--output", tmp_path / "one")
    assert np.abs(newest(tmp_path / "one")["buffers"]).max() > 0
    assert run_ranks(binaries / "dimred", [*words, "--output", tmp_path / "two"], 2).codes == [0, 0]
    refused = run_ranks(
        binaries / "dimred", [*words, "--batchnorm_statistics=synchronized", "--output", tmp_path / "three"], 2
    )
    assert refused.codes == [2, 2]
    assert "needs a network in which only BatchNorm changes" in refused.errors[0]


class Shifted(nn.Module):
    """Its buffer is a statistic from elsewhere, which training leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(784))
        self.fc = nn.Linear(784, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.flatten(1) - self.shift)


class Masked(nn.Module):
    """Its buffer is a mask with infinities."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.full((10, 10), -math.inf), 1))
        self.fc = nn.Linear(784, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.flatten(1)) @ torch.softmax(self.mask, 1)


def test_a_mask_of_infinities_is_refused_before_training(tmp_path: Path, fails) -> None:
    torch.jit.script(Masked()).save(tmp_path / "net.pt")
    line = fails(2, "stage1", *DROPPED, "--model", tmp_path / "net.pt", "--output", tmp_path / "run")
    assert "needs finite buffers, received infinity or NaN in mask" in line and "make a mask in forward" in line


class Unmoved(Net):
    """A BatchNorm behind zeros, whose statistics the first pass does not move."""

    def __init__(self) -> None:
        super().__init__(0.0)
        nn.init.zeros_(self.features[3].weight)
        nn.init.zeros_(self.features[3].bias)
        self.features[4].running_var.fill_(0)


@pytest.mark.parametrize("kind", [Shifted, Unmoved])
@pytest.mark.parametrize("ranks", [1, 2])
def test_buffers_that_training_leaves_alone_keep_loaded_values(
    ranks: int, kind: type[nn.Module], tmp_path: Path, binaries: Path
) -> None:
    module = kind()
    torch.jit.script(module).save(tmp_path / "net.pt")
    words = ["stage1", *DROPPED, "--epochs=1", "--model", tmp_path / "net.pt"]
    if kind is Shifted:
        module.shift.fill_(0.3)
        safetensors.torch.save_file(module.state_dict(), tmp_path / "net.safetensors")
        words.append(f"--initialize_from={tmp_path / 'net.safetensors'}")
    done = run_ranks(binaries / "dimred", [*words, "--output", tmp_path / "run"], ranks)
    assert done.codes == [0] * ranks, done.errors
    if kind is Shifted:
        np.testing.assert_array_equal(newest(tmp_path / "run")["buffers"], module.shift.numpy())


class Headed(nn.Module):
    """Its last layer has the name of a margin head's weights, as that of timm's transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(784, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1))


def test_a_margin_head_stands_beside_a_layer_of_its_name(tmp_path: Path, execute) -> None:
    torch.jit.script(Headed()).save(tmp_path / "net.pt")
    words = ["--epochs=1", "--margin_loss=arcface", "--embedding_size=16", "--model", tmp_path / "net.pt"]
    execute("dimred", "stage1", *DROPPED, *words, "--output", tmp_path / "run")
    execute("dimred", "export", tmp_path / "run", "--output", tmp_path / "export")
    weights = next((tmp_path / "export").rglob("*.safetensors"))
    assert set(safetensors.torch.load_file(weights)) == {"head.weight", "head.bias"}


class Wrapped(nn.Module):
    """All its names begin with `module.`, and one ends as MindSpore's do: other programs' names, elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.module = Viewing()
        self.module.gamma = nn.Parameter(torch.ones(10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        return self.module(images) * self.module.gamma


def test_our_own_files_keep_the_modules_names(tmp_path: Path, execute) -> None:
    """Through a frozen part, a resume, an export and its answers; and as weights of another program."""
    torch.manual_seed(6)
    net, run = Wrapped(), tmp_path / "run"
    torch.jit.script(net).save(tmp_path / "net.pt")
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    words = cli(
        *PLAIN,
        "--trainable_include_patterns=fc,gamma",
        model=tmp_path / "net.pt",
        initialize_from=tmp_path / "weights.pt",
        output=run,
    )
    said = execute("dimred", "stage1", *words, "--epochs=1", "--total_epochs=2")
    assert "5 tensors loaded, 0 with random values" in said
    execute("dimred", "stage1", *words, "--epochs=2", "--total_epochs=2")
    execute("dimred", "export", run, "--threads=1")
    image = tmp_path / "grey.png"
    Image.fromarray(np.full((28, 28), 90, np.uint8)).save(image)
    execute("dimred", "predict", run / "export" / "1", image, "--threads=1", "--csv", tmp_path / "export.csv")
    execute("dimred", "predict", run, image, "--threads=1", "--csv", tmp_path / "run.csv")
    assert (tmp_path / "export.csv").read_text() == (tmp_path / "run.csv").read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory, execute) -> Path:
    """stage1/ of a module with dropout, whose own file is gone, and stage2/ on it."""
    folder = tmp_path_factory.mktemp("script")
    torch.jit.script(network(0.5)).save(folder / "net.pt")
    execute("dimred", "stage1", *DROPPED, "--epochs=4", "--model", folder / "net.pt", "--output", folder / "stage1")
    (folder / "net.pt").rename(folder / "moved.pt")
    execute(
        "dimred",
        "stage2 --preset=robust --epochs=2 --n_component=6 --threads=1 --batch_size=50",
        checkpoint=folder / "stage1",
        output=folder / "stage2",
    )
    return folder


def test_both_stages_train_it(runs: Path) -> None:
    assert rows(runs / "stage2")[-1]["epoch"] == "2"
    assert float(rows(runs / "stage2")[-1]["test_accuracy"]) > 0.3  # ten classes
    first, last = newest(runs / "stage1"), newest(runs / "stage2")
    assert np.abs(first["weights"] - last["weights"]).max() > 1e-4
    steps = rows_in(runs / "stage2" / "steps.csv")
    assert len(steps) == 20
    with h5py.File(next((runs / "stage1" / "snapshots").glob("*.h5"))) as h5:
        assert h5["weights"].shape == (sum(p.numel() for p in network().parameters()),)


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_a_run_in_two_parts_equals_one(stage: str, runs: Path, tmp_path: Path, execute) -> None:
    """Bit by bit, dropout included."""
    run = tmp_path / "run"
    if stage == "stage1":
        options = [*DROPPED, "--model", runs / "moved.pt", "--total_epochs=4"]
        parts = ["--epochs=1", "--epochs=4"]
    else:
        options = cli("--preset=robust --n_component=6 --threads=1 --batch_size=50", checkpoint=runs / "stage1")
        parts = ["--epochs=1", "--epochs=2"]
    for part in parts:
        execute("dimred", stage, *options, part, "--output", run)
    whole = newest(runs / stage)
    assert {name: values.tobytes() for name, values in newest(run).items()} == {
        name: values.tobytes() for name, values in whole.items()
    }


def test_two_ranks_give_what_one_gives(tmp_path: Path, dimred: Path) -> None:
    """BatchNorm by the global batch; sums in another order alone."""
    torch.jit.script(network()).save(tmp_path / "net.pt")
    results = []
    for ranks in (1, 2):
        options = [*PLAIN, "--epochs=4", "--batchnorm_statistics=synchronized", "--model", tmp_path / "net.pt"]
        done = run_ranks(dimred, ["stage1", *options, "--output", tmp_path / str(ranks)], ranks)
        assert done.codes == [0] * ranks, done.errors
        results.append(newest(tmp_path / str(ranks)))
    assert np.abs(results[0]["weights"] - results[1]["weights"]).max() < 2e-5
    assert np.abs(results[0]["buffers"] - results[1]["buffers"]).max() < 2e-5


def test_evaluate_takes_the_runs_own_copy_and_recalibrates_means(runs: Path, execute) -> None:
    expected = float(rows(runs / "stage1")[-1]["test_accuracy"])
    words = execute("dimred", "evaluate", runs / "stage1", "--threads=1").split("accuracy")[1].split()
    assert float(words[0]) == pytest.approx(100 * expected, abs=0.005)
    assert "BatchNorm recalibrated" in execute("dimred", "evaluate", runs / "stage1" / "snapshots", "--threads=1")


@pytest.mark.parametrize("adapter", ["fc.lora_A.weight", "fc.lora_B.default.weight", "fc.hada_w1_a", "fc.lokr_w1"])
def test_an_adapter_beside_a_networks_weights_is_named(adapter: str, tmp_path: Path, binaries: Path) -> None:
    """It changes what the network is, and is not folded."""
    net, module, weights = network(), tmp_path / "net.pt", tmp_path / "weights.pt"
    torch.jit.script(net).save(module)
    torch.save({**net.state_dict(), adapter: torch.ones(2, 2)}, weights)
    options = [f"--data={few()}", "--model", module]
    short = ["--epochs=1", "--train_samples=64", "--batch_size=32", "--threads=1", "--output", tmp_path / "run"]
    for words in (
        ["evaluate", weights],
        ["export", weights, "--output", tmp_path / "export"],
        ["stage1", "--initialize_from", weights, *short],
    ):
        done = completed([binaries / "dimred", *words, *options])
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        assert "adapter" in text and "is not merged into the weights" in text and adapter in text, text


def test_the_mean_of_raw_and_averaged_weights_is_refused(tmp_path: Path, fails) -> None:
    net, module, series = network(), tmp_path / "net.pt", tmp_path / "series"
    torch.jit.script(net).save(module)
    series.mkdir()
    torch.save({"model": net.state_dict()}, series / "step1.pt")
    torch.save({"model": None, "ema": net.state_dict()}, series / "step2.pt")
    options = [series, f"--data={few()}", "--model", module]
    for words in (["evaluate", *options], ["export", *options, "--output", tmp_path / "export"]):
        assert "[weights] needs weights of one kind" in fails(2, *words)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "features.1.running_var",
            -0.9,
            "running variances >= 0, received a variance below 0 in features.1.running_var",
        ),
        (
            "features.4.running_var",
            -1e-7,
            "running variances >= 0, received a variance below 0 in features.4.running_var",
        ),
        ("fc.weight", 3e38, "weights with a finite loss, received the loss NaN on the test set"),
    ],
)
def test_weights_whose_loss_is_no_number_have_no_score(
    name: str, value: float, says: str, tmp_path: Path, fails, binaries: Path
) -> None:
    """They are finite, so that they are read. The second variance gives a finite loss, which is wrong."""
    net, module, weights = network(), tmp_path / "net.pt", tmp_path / "weights.pt"
    torch.jit.script(net).save(module)
    state = net.state_dict()
    state[name].fill_(value)
    torch.save(state, weights)
    options = [weights, f"--data={few()}", "--model", module]
    assert says in fails(1, "evaluate", *options)
    assert says in fails(1, "export", *options, "--output", tmp_path / "export")
    assert not (tmp_path / "export").exists()
    if value < 0:
        short = ["--epochs=1", "--train_samples=64", "--batch_size=32", "--threads=1", "--output", tmp_path / "run"]
        assert says in fails(1, "stage1", "--initialize_from", *options, *short)
    image = tmp_path / "a.png"
    Image.new("L", (28, 28), 99).save(image)
    command = [binaries / "dimred", "predict", weights, image, *options[1:]]
    done = completed(command)
    assert done.returncode == 1
    assert (says if value < 0 else f"{image}: the network gives numbers that are not finite") in done.stderr
    assert "%" not in done.stdout


def test_another_module_is_refused(runs: Path, tmp_path: Path, fails) -> None:
    torch.jit.script(network(0.4)).save(tmp_path / "other.pt")
    report = fails(2, "evaluate", runs / "stage1", "--model", tmp_path / "other.pt")
    assert "needs the module with the digest" in report
    report = fails(2, "stage1", *DROPPED, "--epochs=4", "--model", tmp_path / "other.pt", "--output", runs / "stage1")
    assert "belongs to another configuration" in report


def test_inspect_shows_its_layers(runs: Path, execute, fails) -> None:
    report = execute("dimred", "inspect", "--model", runs / "moved.pt", "--image_size=28", "--channels=1")
    assert "features.0  Conv2d       6 x 1 x 3 x 3" in report
    assert f"{sum(p.numel() for p in network().parameters()):,}" in report
    assert "needs --image_size" in fails(2, "inspect", "--model", runs / "moved.pt")


@pytest.mark.parametrize(
    ("last", "says"), [(nn.Softmax(1), "ends in a softmax, but"), (nn.LogSoftmax(1), "ends in a log-softmax")]
)
def test_a_softmax_at_the_end_is_warned_of(last: nn.Module, says: str, tmp_path: Path, execute) -> None:
    file, plain = tmp_path / "net.pt", [nn.Flatten(), nn.Linear(784, 10)]
    torch.jit.script(nn.Sequential(*plain, last)).save(file)
    assert f"warning: {file} {says}" in execute("dimred", "inspect", "--model", file, "--image_size=28", "--channels=1")


def test_what_cannot_be_trained_is_refused_with_the_remedy(tmp_path: Path, fails) -> None:
    net, file = network(), tmp_path / "net.pt"

    def report(*options: object) -> str:
        return fails(2, "stage1", *DROPPED, "--epochs=1", "--model", file, "--output", tmp_path / "run", *options)

    torch.save(net.state_dict(), file)
    assert "torch.jit.script(model).save" in report()
    torch.jit.freeze(torch.jit.script(net.eval())).save(file)
    assert "without torch.jit.freeze" in report()
    torch.jit.trace(network(0.5).train(), torch.zeros(2, 1, 28, 28), check_trace=False).save(file)
    assert "a module that was traced in training mode does" in report()
    torch.jit.script(Viewing()).save(file)
    assert "channels_last; use contiguous" in report("--memory_format=channels_last")
    torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(784, 7))).save(file)
    assert "[batch, 10], received Float [2, 7]" in report()
    torch.jit.script(Moving("attribute")).save(file)
    assert "but training changes the attribute count, which no resume state keeps" in report()
    torch.jit.script(Moving("list")).save(file)
    assert "but training changes the attribute scales, which no resume state keeps" in report()
    torch.jit.script(Moving("replaced")).save(file)
    assert "but training replaces the buffer mean; write self.mean.copy_" in report()
    torch.jit.script(
        nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(784, 10))
    ).save(file)
    assert "depend on the other images of the batch" in report()
    torch.jit.script(network()).save(file)
    whole = file.read_bytes()
    at = whole.index(network().fc.weight.detach().numpy().tobytes()) + 5
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert "CRC" in report() and "torch.jit.script(model).save" in report()
    file.unlink()
    assert "no such file" in report()
    assert not (tmp_path / "run").exists()


def saving(file: str, images: torch.Tensor) -> torch.Tensor:
    """Writes it."""
    torch.ops.aten.save(images, file)
    return images


def mapping(file: str, images: torch.Tensor) -> torch.Tensor:
    """Makes it."""
    return images + torch.from_file(file, True, 64).sum()


def recording(file: str, images: torch.Tensor) -> torch.Tensor:
    """An operator of another kind than those that compute."""
    torch.ops.profiler._record_function_enter(file)
    return images


class Calling(nn.Module):
    """Does one of these beside its logits."""

    def __init__(self, touch: Callable[[str, torch.Tensor], torch.Tensor], file: Path) -> None:
        super().__init__()
        self.touch, self.file, self.fc = touch, str(file), nn.Linear(784, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        return self.fc(self.touch(self.file, images).flatten(1))


class Restoring(nn.Module):
    """Makes a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.data = str(file), torch.zeros(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images."""
        return images

    @torch.jit.export
    def __getstate__(self):
        return self.file, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.file, self.training = state
        self.data = torch.from_file(self.file, True, 64)


def with_default(file: Path, target: Path, touched: Path) -> None:
    """The module in `file` with a default argument that touches a file when the module is loaded."""
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(target, "w") as out:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".py"):
                call = f'images: Tensor, other: Tensor=torch.from_file("{touched}", True, 64)'
                content = content.replace(b"images: Tensor", call.encode())
            out.writestr(name, content)


@pytest.mark.parametrize(
    ("how", "operator"),
    [
        (saving, "aten::save"),
        (mapping, "aten::from_file"),
        (recording, "profiler::_record_function_enter"),
        ("restored", "aten::from_file"),
        ("default", "aten::from_file"),
    ],
)
def test_a_module_that_touches_files_is_refused_before_it_does(how, operator: str, tmp_path: Path, fails) -> None:
    """Also in code that runs while the module is loaded."""
    file, touched = tmp_path / "net.pt", tmp_path / "touched"
    if how == "restored":
        torch.jit.script(Restoring(touched)).save(file)
    elif how == "default":
        torch.jit.script(Viewing()).save(tmp_path / "plain.pt")
        with_default(tmp_path / "plain.pt", file, touched)
    else:
        torch.jit.script(Calling(how, touched)).save(file)
    assert f"uses the operator {operator}; " in fails(2, "inspect", "--model", file, "--image_size=28", "--channels=1")
    assert not touched.exists()
    if how in ("restored", "default"):
        torch.jit.load(file)
        assert touched.exists()  # by PyTorch's own loading


class Endless(nn.Module):
    """Never comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        turns = 0
        while turns >= 0:
            turns = (turns + 1) % 7
        return self.fc(images.flatten(1))


def test_a_module_that_does_not_come_back_is_named(tmp_path: Path, fails) -> None:
    file = tmp_path / "net.pt"
    torch.jit.script(Endless()).save(file)
    report = fails(2, "inspect", "--model", file, "--image_size=28", "--channels=1", "--module_timeout=0.5")
    assert f"the module {file} has not finished its first passes within 0.5 s" in report


class Printing(nn.Module):
    """Speaks to the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, 10]."""
        print("\x1b[2J")
        return self.fc(images.flatten(1))


def test_what_a_module_prints_is_no_command_to_the_terminal(tmp_path: Path, binaries: Path) -> None:
    file = tmp_path / "net.pt"
    torch.jit.script(Printing()).save(file)
    done = subprocess.run(
        [binaries / "dimred", "inspect", "--model", file, "--image_size=28", "--channels=1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "\\u001B[2J" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert f"{file} is a TorchScript module: its code runs with your permissions" in done.stdout
