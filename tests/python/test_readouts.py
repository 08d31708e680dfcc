"""dimred.average, dimred.recalibrate_batchnorm and dimred.plot."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

import dimred

mpl.use("agg")
N, M = 12, 50


@pytest.fixture(scope="module")
def snapshots() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(N, M)).cumsum(axis=0).astype(np.float32)


def test_means_are_sums_with_their_coefficients(snapshots: np.ndarray) -> None:
    mean = dimred.average(snapshots, last=5)
    np.testing.assert_allclose(mean.w, snapshots[-5:].astype(np.float64).mean(axis=0), rtol=1e-6)
    assert mean.evaluations == 0 and mean.loss is None and len(mean.snapshots) == 5
    ema = dimred.average(snapshots, "ema", last=4, decay=0.5)
    np.testing.assert_allclose(ema.coefficients, np.array([1, 2, 4, 8]) / 15)
    np.testing.assert_allclose(ema.w, ema.coefficients @ snapshots[-4:].astype(np.float64), rtol=1e-6)
    assert len(dimred.average(snapshots, last=99).coefficients) == N
    decay = dimred.average(snapshots, "minus-sqrt", last=4)
    np.testing.assert_allclose(decay.coefficients, np.diff(np.sqrt(np.arange(5) / 4)))
    np.testing.assert_allclose(decay.w, decay.coefficients @ snapshots[-4:].astype(np.float64), rtol=1e-6, atol=1e-7)


def test_the_greedy_soup_is_wortsmans(snapshots: np.ndarray) -> None:
    """Against a plain reading of the recipe; the target lies between the members, so that only some help."""
    target = snapshots[3:9].mean(axis=0)

    def loss(w: np.ndarray) -> float:
        return float(np.square(w - target).mean())

    order = sorted(range(N), key=lambda i: loss(snapshots[i]))
    chosen = [order[0]]
    for i in order[1:]:
        if loss(snapshots[[*chosen, i]].mean(axis=0)) < loss(snapshots[chosen].mean(axis=0)):
            chosen.append(i)
    soup = dimred.average(snapshots, "greedy", last=N, evaluate=loss)
    assert 1 < len(chosen) < N and sorted(np.flatnonzero(soup.coefficients)) == sorted(chosen)
    np.testing.assert_allclose(soup.w, snapshots[chosen].astype(np.float64).mean(axis=0), rtol=1e-5)
    assert soup.evaluations == N + (N - 1) + 2 and soup.loss == pytest.approx(loss(soup.w))


def test_learned_coefficients_solve_least_squares(snapshots: np.ndarray) -> None:
    """The best point of the plane for a quadratic loss is a projection; its coefficients are NumPy's."""
    members, target = snapshots[-4:].astype(np.float64), np.random.default_rng(2).normal(size=M)
    found = dimred.average(
        snapshots, "learned", last=4, steps=40, loss_and_grad=lambda w: (0.5 * np.square(w - target).sum(), w - target)
    )
    expected = np.linalg.lstsq(members.T, target, rcond=None)[0]
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-4)
    np.testing.assert_allclose(found.w, expected @ members, atol=1e-4)


def test_the_interval_is_of_pairs(snapshots: np.ndarray) -> None:
    targets = np.random.default_rng(3).normal(size=(200, M)) + snapshots[-3:].mean(axis=0)
    result = dimred.average(snapshots, last=3, evaluate=lambda w: np.square(w - targets).mean(axis=1))
    pairs = np.square(snapshots[-1] - targets).mean(axis=1) - np.square(result.w - targets).mean(axis=1)
    assert result.gain is not None
    half = 1.96 * pairs.std(ddof=1) / np.sqrt(200)
    np.testing.assert_allclose(result.gain, [pairs.mean(), pairs.mean() - half, pairs.mean() + half], rtol=1e-4)
    assert result.gain[1] > 0 and result.evaluations == 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.drop, self.out = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(torch.relu(self.norm(self.fc(x)))))


def test_batchnorm_is_estimated_as_torchs_update_bn_does() -> None:
    torch.manual_seed(1)
    ours, theirs = Net(), Net()
    theirs.load_state_dict(ours.state_dict())
    ours.norm.eval()
    batches = [torch.randn(8, 4) + i for i in range(5)]
    assert dimred.recalibrate_batchnorm(ours, [(batch, 0) for batch in batches]) == 5
    update_bn(batches, theirs)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours.norm, name), getattr(theirs.norm, name))
    assert ours.training and ours.drop.training and not ours.norm.training and ours.norm.momentum == 0.1
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(ValueError, match="needs batches, received none"):
        dimred.recalibrate_batchnorm(ours, [])
    with pytest.raises(RuntimeError):
        dimred.recalibrate_batchnorm(ours, [batches[0], torch.zeros(3, 7)])
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())
    assert dimred.recalibrate_batchnorm(nn.Linear(2, 2), []) == 0


def test_batchnorm_that_no_batch_reaches_keeps_its_statistics() -> None:
    class WithHead(Net):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))  # of the training alone

    torch.manual_seed(4)
    model, twin, batches = WithHead(), Net(), [torch.randn(8, 4) for _ in range(3)]
    model.head(torch.randn(8, 4) + 2)
    twin.load_state_dict({name: value for name, value in model.state_dict().items() if not name.startswith("head")})
    before = {name: value.clone() for name, value in model.head.state_dict().items()}
    with pytest.warns(UserWarning, match="no batch reached 1 of 2 BatchNorm layers, which keep their") as warned:
        assert dimred.recalibrate_batchnorm(model, batches) == 3
    assert warned[0].filename == __file__
    assert all(torch.equal(value, before[name]) for name, value in model.head.state_dict().items())
    update_bn(batches, twin)
    torch.testing.assert_close(model.norm.running_mean, twin.norm.running_mean)
    assert model.head[1].momentum == 0.1 and model.head[1].training


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Net, Path]:
    folder = tmp_path_factory.mktemp("readouts") / "snapshots"
    torch.manual_seed(2)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with dimred.SnapshotRecorder(model, folder, every_steps=1) as recorder:
        for _ in range(8):
            optimizer.zero_grad()
            model(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
            recorder.step()
    return model, folder


def test_an_average_goes_into_the_model_it_is_of(trained: tuple[Net, Path]) -> None:
    _, folder = trained
    other = Net()
    mean = dimred.average(folder, last=3)
    mean.load_into(other)
    assert torch.equal(nn.utils.parameters_to_vector(other.parameters()).detach(), torch.from_numpy(mean.w))
    with pytest.raises(ValueError, match=r"the model has no parameter fc.weight \[6, 4\]"):
        mean.load_into(nn.Linear(4, 6))
    with pytest.raises(ValueError, match="have no names"):
        dimred.average(np.zeros((3, 5), np.float32)).arrays()


def test_an_adapter_of_a_wrapped_model_is_found_by_the_name_of_its_file() -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lora_A, self.peft_config = nn.ModuleDict({"mine": nn.Linear(3, 2, bias=False)}), {"mine": None}

    files = [{"lora_A.weight": np.full((2, 3), i, np.float32)} for i in range(3)]
    for wrap in (lambda model: model, nn.DataParallel, lambda model: torch.compile(model, backend="eager")):
        model = Adapted()
        dimred.average(files, last=1).load_into(wrap(model))
        assert torch.equal(model.lora_A["mine"].weight.detach(), torch.full((2, 3), 2.0))


def test_pictures(trained: tuple[Net, Path], tmp_path: Path) -> None:
    """The geometry is known: coordinates end at 0, and the landscape at the snapshots' places is the loss there."""
    model, folder = trained
    basis = dimred.fit(folder, 3)
    axes = dimred.plot.spectrum(basis)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), basis.explained_variance_ratio)
    axes = dimred.plot.trajectory(folder)
    path = np.column_stack(axes.lines[0].get_data())
    assert path.shape == (8, 2) and np.all(path[-1] == 0) and np.abs(path[0]).max() > 0.01
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(32, 4)

    def loss() -> float:
        with torch.no_grad():
            return float(model.eval()(x).square().mean())

    axes = dimred.plot.landscape(model, loss, folder, points=5, basis=basis)
    across, up, losses = axes.landscape
    assert losses.shape == (5, 5) and len(axes.figure.axes) == 2
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        shift = basis.components[0] * across[3] + basis.components[1] * up[1]
        w = nn.utils.parameters_to_vector(model.parameters()) + torch.from_numpy(np.array(shift, np.float32))
        nn.utils.vector_to_parameters(w, model.parameters())
    assert losses[1, 3] == pytest.approx(loss(), rel=1e-4)
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        rows = ("raw,1,0.5,", "ema,1,0.6,", "raw,2,0.75,", "recalibrated,2,0.8,")
        (tmp_path / run / "curve.csv").write_text("\n".join(["weights,epoch,test_accuracy,test_loss", *rows, ""]))
    axes = dimred.plot.compare([tmp_path / "a", tmp_path / "b"])
    assert [line.get_label() for line in axes.lines] == ["a", "b"] and list(axes.lines[0].get_ydata()) == [0.5, 0.75]
    axes.figure.savefig(tmp_path / "picture.png")
    axes = dimred.plot.compare([tmp_path / "a"], weights="recalibrated")
    assert np.column_stack(axes.lines[0].get_data()).tolist() == [[2, 0.8]]


def test_a_landscape_finds_parameters_by_the_names_that_others_give_them(trained: tuple[Net, Path]) -> None:
    model, folder = deepcopy(trained[0]).eval(), trained[1]
    basis, x = dimred.fit(folder, 2), torch.randn(32, 4)

    def heights(of: nn.Module, basis: dimred.Basis) -> np.ndarray:
        with torch.no_grad():
            axes = dimred.plot.landscape(of, lambda: float(of(x).square().mean()), folder, points=2, basis=basis)
        return axes.landscape[2]

    plain = heights(model, basis)
    np.testing.assert_array_equal(heights(torch.compile(model, backend="eager"), basis), plain)
    nameless = dimred.Basis(basis.components, None, None)
    np.testing.assert_array_equal(heights(model, nameless), plain)
    with pytest.raises(ValueError, match=r"the basis has \d+ columns, the model's parameters have 15 values"):
        heights(nn.Linear(4, 3), nameless)
    with pytest.raises(ValueError, match=r"the model has no parameter fc.weight \[6, 4\]"):
        heights(nn.Linear(4, 3), basis)
    tied, states = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)), []
    tied[1].weight = tied[0].weight
    for _ in range(4):
        states.append({f"{i}.weight": torch.randn(4, 4) for i in range(2)})
    with pytest.raises(ValueError, match=r"the basis has 0\.weight and 1\.weight apart, which the model ties"):
        dimred.plot.landscape(tied, lambda: 0.0, states, points=2)


def test_what_cannot_be_is_refused(snapshots: np.ndarray, tmp_path: Path) -> None:
    lost = snapshots.copy()
    lost[-1, 2] = np.nan
    (tmp_path / "curve.csv").write_text("weights,epoch,test_accuracy,test_loss\nraw,1,0.5,\n")
    for call, text in (
        (
            lambda: dimred.average(snapshots, "median"),
            "needs kind as one of mean, linear, .*, greedy, learned, received 'median'",
        ),
        (lambda: dimred.average(snapshots, last=0), "needs last as a whole number >= 1, received 0"),
        (lambda: dimred.average(snapshots, last=2.5), r"needs last as a whole number >= 1, received 2\.5"),
        (lambda: dimred.average(lost), "has a value that is not finite, at column 2"),
        (lambda: dimred.average(snapshots, "greedy"), "greedy needs evaluate"),
        (lambda: dimred.average(snapshots, "learned"), "need each other"),
        (lambda: dimred.average(snapshots, steps=50), "steps has no effect: it needs kind 'learned', received 'mean'"),
        (lambda: dimred.average(snapshots, batches=[]), "batches has no effect: it needs kind 'learned'"),
        (lambda: dimred.average(snapshots, decay=0.9), "decay has no effect: it needs kind 'ema', received 'mean'"),
        (
            lambda: dimred.average(snapshots, "pma-ema", alpha=0),
            r"needs decay in \(0, 1\), alpha in \(0, 1\] and gamma",
        ),
        (lambda: dimred.average(snapshots, evaluate=lambda w: np.nan), "received shape .*, or NaN"),
        (lambda: dimred.average(snapshots, evaluate=lambda w: w.fill(0) or 1.0), "evaluate changed the weights"),
        (lambda: dimred.plot.trajectory(snapshots[:2]), "needs 3 or more snapshots, received 2"),
        (lambda: dimred.plot.compare([tmp_path], "test_loss"), "a column test_loss with values of raw weights"),
        (lambda: dimred.plot.compare([tmp_path], weights="ema"), "with values of ema weights"),
        (
            lambda: dimred.plot.spectrum(dimred.Basis(np.eye(2, 5, dtype=np.float32), None, None)),
            "has no singular values",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    named = dimred.average([{"w": row} for row in snapshots])
    for call, text in (
        (lambda: dimred.average(snapshots, evaluate=3), "needs evaluate as a function, received 3"),
        (lambda: dimred.average(snapshots, "ema", decay="x"), "needs decay as a number, received 'x'"),
        (lambda: named.load_into({}), "needs a torch module to load into, received a dict"),
        (lambda: dimred.recalibrate_batchnorm("model", []), "needs a torch module, received a str"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
