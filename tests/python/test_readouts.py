"""dimred.average, dimred.recalibrate_batchnorm and dimred.plot."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
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


def put(place: Path, value: float) -> Path:
    place.mkdir(parents=True)
    save_file({"w": np.full(2, value, np.float32)}, place / "model.safetensors")
    return place


UNORDERED = {  # names, and why their checkpoints have no order
    "seeds": ([f"seed{i}/step100" for i in range(12)], "both belong to step 100"),
    "stages": ([f"stage{1 + i // 6}-step{900 - i}" for i in range(12)], "the names belong to stage 1 and stage 2"),
    "named stages": (
        [f"{'pretrain' if i < 6 else 'finetune'}-step{900 - i}" for i in range(12)],
        "the names belong to (pretraining and finetuning|finetuning and pretraining)",
    ),
    "epochs": ([f"epoch_{1 + i // 6}/step_{1000 - i}" for i in range(12)], "by step is not the order by epoch"),
}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("case", UNORDERED)
def test_what_needs_an_order_is_refused_without_one_as_by_a_merge(case: str, listed: bool, tmp_path: Path) -> None:
    names, reason = UNORDERED[case]
    folders = [put(tmp_path / "in" / name, i) for i, name in enumerate(names)]
    pattern = str(tmp_path / "in" / ("*/*" if "/" in names[0] else "*"))
    source = folders if listed else pattern
    only = f"{reason}; only the plain mean works without an order"
    for kind in ("linear", "cosine", "minus-sqrt", "wma", "ema", "pma-ema"):
        with pytest.raises(ValueError, match=only):
            dimred.merge(source, tmp_path / "refused", kind)
        with pytest.raises(ValueError, match=rf"\[dimred.average\] kind '{kind}' needs the order .*{only}"):
            dimred.average(source, kind, last=12)
    with pytest.raises(ValueError, match=only):
        dimred.merge(source, tmp_path / "refused", last=10)
    for arguments, window in (({}, 10), ({"last": 11}, 11), ({"last": 1}, 1)):
        said = rf"a window of the last {window} of 12 checkpoints needs the order .*{only}; for the mean, give last=12"
        with pytest.raises(ValueError, match=said):
            dimred.average(source, **arguments)
    with pytest.raises(ValueError, match=r"a window of the last 10 .*; for the mean, give last=12"):
        dimred.average(source, "greedy", evaluate=lambda w: float(w[0]))
    dimred.merge(source, tmp_path / "merged")
    merged = load_file(tmp_path / "merged" / "model.safetensors")["w"]
    np.testing.assert_array_equal(merged, [5.5, 5.5])
    np.testing.assert_array_equal(dimred.average(source, last=12).w, merged)
    np.testing.assert_array_equal(dimred.average(source, last=99).w, merged)
    np.testing.assert_array_equal(dimred.average(folders[:10]).w, [4.5, 4.5])  # 10 are no window of 10
    soup = dimred.average(source, "greedy", last=12, evaluate=lambda w: float(w[0]))
    np.testing.assert_array_equal(soup.w, [0, 0])


def test_names_that_give_an_order_or_none_are_averaged_as_before(tmp_path: Path) -> None:
    """The step of a matrix is in the name of its file alone; names without a step have no default window."""
    steps = [put(tmp_path / "steps" / f"step{100 * i}", i) for i in range(12)]
    for source in (tmp_path / "steps", steps):
        np.testing.assert_array_equal(dimred.average(source).w, [6.5, 6.5])
        np.testing.assert_allclose(dimred.average(source, "wma", last=2).w, [32 / 3, 32 / 3], rtol=1e-6)
    named = [put(tmp_path / "named" / name, i) for i, name in enumerate("abcdefghijkl")]
    for source in (tmp_path / "named", named):
        with pytest.warns(UserWarning, match="so dimred takes all 12 checkpoints, not the last 10$"):
            np.testing.assert_array_equal(dimred.average(source).w, [5.5, 5.5])
        order = "given order" if isinstance(source, list) else "order of their names"
        with pytest.warns(UserWarning, match=f"so dimred takes the checkpoints in the {order}$"):
            np.testing.assert_array_equal(dimred.average(source, last=10).w, [6.5, 6.5])
    rows = np.arange(24, dtype=np.float32).reshape(12, 2)
    np.save(tmp_path / "step100.npy", rows)
    for matrix in (tmp_path / "step100.npy", rows, list(rows), [{"w": row} for row in rows]):
        np.testing.assert_array_equal(dimred.average(matrix).w, rows[2:].mean(axis=0))
        np.testing.assert_array_equal(dimred.average(matrix, "ema", last=1).w, rows[-1])


def test_a_list_is_sorted_by_the_steps_in_its_names_as_by_a_merge(tmp_path: Path) -> None:
    """Sorted as texts, step10 comes before step2; a text file's lines are no order of their own either."""
    for step in range(1, 13):
        put(tmp_path / f"in/step{step}", step)
    as_texts = sorted((tmp_path / "in").iterdir(), key=str)
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{path}\n" for path in as_texts))
    merged = dimred.merge(as_texts, tmp_path / "merged", "ema", decay=0.1)
    expected = load_file(tmp_path / "merged/model.safetensors")["w"]
    assert expected[0] > 11
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (as_texts, listing, str(listing), as_texts[::-1], tmp_path / "in"):
            average = dimred.average(source, "ema", last=12, decay=0.1)
            np.testing.assert_array_equal(average.w, expected)
            assert [Path(name).parent for name in average.snapshots] == merged.inputs
            usual = dimred.average(source)  # the last ten by step
            np.testing.assert_array_equal(usual.w, [7.5, 7.5])
            assert [Path(name).parent.name for name in usual.snapshots] == [f"step{step}" for step in range(3, 13)]
            base = dimred.fit(source, 1, centre="base")
            assert base.mean is not None and base.mean.tolist() == [1, 1]
    # A folder of several within a list is sorted with the others.
    for step in (7, 11):
        (tmp_path / f"in/step{step}").rename(tmp_path / f"part-step{step}")
    several = [tmp_path / "in", tmp_path / "part-step11", tmp_path / "part-step7"]
    assert [Path(name).parent.name[-1] for name in dimred.average(several, last=3).snapshots] == ["0", "1", "2"]


def test_names_without_steps_are_said_as_by_the_command(tmp_path: Path, execute: Callable[..., str]) -> None:
    """In the remarks of a merge, and in one warning of what needs an order."""
    folders = [put(tmp_path / "in" / name, value) for name, value in (("red", 1), ("blue", 2), ("green", 1))]
    order = "the names have no steps, so dimred takes the checkpoints in the given order"
    equal = f"{folders[0]} and {folders[2]} hold the same values"
    said = execute("dimred", "merge", *folders, "--kind", "ema", "--output", tmp_path / "said").splitlines()
    merged = dimred.merge(folders, tmp_path / "merged", "ema")
    assert merged.remarks == [order, equal] == [line for line in said if line in merged.remarks]
    assert merged.inputs == folders
    same = "red/model.safetensors and .*green/model.safetensors hold the same values$"
    with pytest.warns(UserWarning, match=rf"\[dimred.average\] {order}; .*{same}") as warned:
        average = dimred.average(folders, "ema")
    np.testing.assert_array_equal(average.w, load_file(tmp_path / "merged/model.safetensors")["w"])
    assert len(warned) == 1 and warned[0].filename == __file__
    with pytest.warns(UserWarning, match=rf"\[dimred.average\] [^;]*{same}"):
        dimred.average(folders)  # a mean needs no order
    put(tmp_path / "in/white", 4)
    order = "the names have no steps, so dimred takes the checkpoints in the order of their names"
    assert order in dimred.merge(tmp_path / "in", tmp_path / "folder", "ema").remarks
    assert order in execute("dimred", "merge", tmp_path / "in", "--kind", "ema", "--output", tmp_path / "other")
    for measure, what in (
        (lambda: dimred.trajectory(tmp_path / "in"), "dimred.trajectory"),
        (lambda: dimred.fit(tmp_path / "in", 1, centre="base"), "dimred.fit"),
        (lambda: dimred.plot.trajectory(tmp_path / "in", dimred.fit(np.eye(3, 2, dtype=np.float32), 2)), "dimred.plot"),
    ):
        with pytest.warns(UserWarning, match=rf"\[{what}\] {order}") as warned:
            measure()
        assert len(warned) == 1 and warned[0].filename == __file__


def test_a_list_without_an_order_of_its_names_keeps_its_own(tmp_path: Path) -> None:
    """Two of one step, in the order of the list where one is needed; a warning says why."""
    folders = [put(tmp_path / f"seed{i}/step100", i * i) for i in (3, 1, 2, 0)]
    with pytest.warns(UserWarning, match=r"both belong to step 100, so .* in the given order; the first one is the"):
        base = dimred.fit(folders, 1, centre="base")
    assert base.mean is not None and base.mean.tolist() == [9, 9]
    with pytest.warns(UserWarning, match=r"\[dimred.trajectory\] .*both belong to step 100, so .* in the given order$"):
        dimred.trajectory(folders)


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


def test_learned_weights_of_equal_snapshots_lie_in_their_span(snapshots: np.ndarray) -> None:
    members, target = snapshots[[-3, -1, -1]], np.random.default_rng(2).normal(size=M)
    found = dimred.average(
        members, "learned", last=3, steps=40, loss_and_grad=lambda w: (0.5 * np.square(w - target).sum(), w - target)
    )
    np.testing.assert_allclose(found.w, found.coefficients @ members.astype(np.float64), atol=1e-4)
    plane = members[:2].astype(np.float64)
    best = np.linalg.lstsq(plane.T, target, rcond=None)[0] @ plane
    np.testing.assert_allclose(found.w, best, atol=1e-4)


def test_the_interval_is_of_pairs(snapshots: np.ndarray) -> None:
    targets = np.random.default_rng(3).normal(size=(200, M)) + snapshots[-3:].mean(axis=0)
    result = dimred.average(snapshots, last=3, evaluate=lambda w: np.square(w - targets).mean(axis=1))
    pairs = np.square(snapshots[-1] - targets).mean(axis=1) - np.square(result.w - targets).mean(axis=1)
    assert result.gain is not None
    half = 1.96 * pairs.std(ddof=1) / np.sqrt(200)
    np.testing.assert_allclose(result.gain, [pairs.mean(), pairs.mean() - half, pairs.mean() + half], rtol=1e-4)
    assert result.gain[1] > 0 and result.evaluations == 2


def test_snapshots_without_an_order_have_no_last_one(tmp_path: Path) -> None:
    """None of them is what an average could gain against; a plot through them would be no path."""
    folders = [put(tmp_path / f"seed{i}/step100", i) for i in range(3)]
    seen: list[float] = []

    def losses(w: np.ndarray) -> np.ndarray:
        seen.append(float(w[0]))
        return np.square(w - 1)

    for source in (str(tmp_path / "seed*/step100"), folders):
        result = dimred.average(source, evaluate=losses)
        assert (result.loss, result.gain, result.evaluations) == (0, None, 1)
    assert seen == [1, 1]
    with pytest.raises(ValueError, match=r"needs the order of the snapshots, but .*both belong to step 100"):
        dimred.plot.trajectory(str(tmp_path / "seed*/step100"))
    basis = dimred.fit(np.eye(3, 2, dtype=np.float32), 2)
    with pytest.warns(UserWarning, match=r"\[dimred.plot\] .*both belong to step 100, so .* in the given order"):
        assert len(dimred.plot.trajectory(folders, basis).lines) == 1  # in the order of the list


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_batch_that_is_not_finite_leaves_the_statistics(bad: float) -> None:
    torch.manual_seed(5)
    model, batches = Net(), [torch.randn(8, 4) for _ in range(3)]
    model(batches[0])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batches[1][2, 3] = bad
    with pytest.raises(
        ValueError, match=r"whose statistics are finite, received NaN or infinity in norm from batches\[1"
    ):
        dimred.recalibrate_batchnorm(model, batches)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.norm.momentum == 0.1 and model.training


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
    with pytest.raises(ValueError, match="have no names of parameters"):
        dimred.average(np.zeros((3, 5), np.float32)).arrays()


class Tied(nn.Module):
    """An embedding and a head, which some programs tie and others do not."""

    def __init__(self, tie: bool, *more: str) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
        self.head.weight = self.emb.weight if tie else self.head.weight
        self.more = nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in more})


@pytest.mark.parametrize("place", ["file", "memory", "parallel"])
def test_tied_weights_go_into_both_parameters_of_a_model_without_the_tie(place: str, tmp_path: Path) -> None:
    states = []
    for value in (1, 3):
        model = Tied(True)
        nn.init.constant_(model.emb.weight, value)
        states.append((nn.DataParallel(model) if place == "parallel" else model).state_dict())
        torch.save(states[-1], tmp_path / f"step{value}.pt")
    average = dimred.average(states if place == "memory" else tmp_path)
    assert average.names == ["emb.weight"] and average.tied == {"head.weight": "emb.weight"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tie in (True, False):
            model = Tied(tie)
            average.load_into(model)
            assert torch.equal(model.head.weight, torch.full((4, 3), 2.0)) and torch.equal(
                model.emb.weight, model.head.weight
            )
        average.load_into(nn.ModuleDict({"emb": nn.Embedding(4, 3)}))  # which has the weight once
    other = Tied(False)
    other.head = nn.Linear(3, 5, bias=False)
    with pytest.raises(ValueError, match=r"the model has no parameter head.weight \[4, 3\]"):
        average.load_into(other)


def test_parameters_that_get_no_value_are_named() -> None:
    average = dimred.average([{"emb.weight": np.full((4, 3), i, np.float32)} for i in range(2)])
    model = Tied(False, "a", "b", "c", "d")
    model.more["d"].requires_grad_(False)  # as those that a recording left out
    with pytest.warns(
        UserWarning, match=r"model's head.weight, more.a.weight, more.b.weight and 1 more; they"
    ) as warned:
        average.load_into(model)
    assert warned[0].filename == __file__


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
    axes = dimred.plot.compare(tmp_path / "a", weights="recalibrated")
    assert np.column_stack(axes.lines[0].get_data()).tolist() == [[2, 0.8]]


def test_pictures_match_columns_by_name(trained: tuple[Net, Path]) -> None:
    """The source's order of parameters need not be the basis's."""
    model = deepcopy(trained[0]).eval()
    random = np.random.default_rng(0)
    states = [
        {
            name: p.detach().numpy() + random.normal(0, 0.1, p.shape).astype(np.float32)
            for name, p in model.named_parameters()
        }
        for _ in range(4)
    ]
    backward = [dict(reversed(list(state.items()))) for state in states]
    basis, x = dimred.fit(states, 2), torch.randn(16, 4)

    def picture(source: list[dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            path = np.column_stack(dimred.plot.trajectory(source, basis).lines[0].get_data())
            drawn = dimred.plot.landscape(model, lambda: float(model(x).square().mean()), source, points=3, basis=basis)
        return path, drawn.landscape[2]

    for one, other in zip(picture(states), picture(backward), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


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
    with pytest.raises(ValueError, match=r"the basis has \d+ columns, but the model's parameters have 15 values"):
        heights(nn.Linear(4, 3), nameless)
    with pytest.raises(ValueError, match=r"the model has no parameter fc.weight \[6, 4\]"):
        heights(nn.Linear(4, 3), basis)
    tied, states = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)), []
    tied[1].weight = tied[0].weight
    for _ in range(4):
        states.append({f"{i}.weight": torch.randn(4, 4) for i in range(2)})
    with pytest.raises(ValueError, match=r"the model ties 0\.weight and 1\.weight, but the basis has both"):
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
        (lambda: dimred.average(snapshots, "greedy"), "kind='greedy' needs the argument evaluate"),
        (
            lambda: dimred.average(snapshots, "learned"),
            "kind='learned' needs loss_and_grad, and loss_and_grad needs kind='learned'",
        ),
        (lambda: dimred.average(snapshots, steps=50), "steps has no effect: it needs kind 'learned', received 'mean'"),
        (lambda: dimred.average(snapshots, batches=[]), "batches has no effect: it needs kind 'learned'"),
        (lambda: dimred.average(snapshots, decay=0.9), "decay has no effect: it needs kind 'ema', received 'mean'"),
        (
            lambda: dimred.average(snapshots, "pma-ema", alpha=0),
            r"needs decay in \(0, 1\), alpha in \(0, 1\] and gamma",
        ),
        (lambda: dimred.average(snapshots, evaluate=lambda w: np.nan), r"without NaN, received NaN in shape \(1,\)"),
        (lambda: dimred.average(snapshots, "greedy", evaluate=lambda w: None), "a vector of losses, received None$"),
        (lambda: dimred.average(snapshots, evaluate=lambda w: w.fill(0) or 1.0), "evaluate changed the weights"),
        (lambda: dimred.plot.trajectory(snapshots[:2]), "needs 3 or more snapshots, received 2"),
        (lambda: dimred.plot.compare([tmp_path], "test_loss"), "has values of raw weights in the column test_loss"),
        (lambda: dimred.plot.compare([tmp_path], weights="ema"), "has values of ema weights"),
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


def test_words_of_adapters_in_a_networks_names_are_its_own() -> None:
    own = [{name: np.full(2, i, np.float32) for name in ("fc.weight", "a.oft.r", "b.vera_lambda")} for i in range(3)]
    np.testing.assert_array_equal(dimred.average(own).w, np.ones(6))
    factors = [{f"q.vera_lambda_{side}": np.full(2, i, np.float32) for side in "bd"} for i in range(3)]
    with pytest.raises(ValueError, match="cannot average the factors of an adapter"):
        dimred.average(factors)


def test_an_average_of_files_without_steps_reads_each_once(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(3, 1 << 20)).astype(np.float32)
    for name, row in zip(("red", "green", "blue"), values, strict=True):
        save_file({"w": row}, tmp_path / f"{name}.safetensors")

    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])  # rchar

    before = bytes_read()
    average = dimred.average(tmp_path)
    assert bytes_read() - before < 1.5 * values.nbytes
    np.testing.assert_allclose(average.w, values.mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_networks_of_different_roles_have_no_mean(tmp_path: Path, fails: Callable[..., str], execute) -> None:
    """A list that names them is taken, and a line says so."""
    names = [f"{role}_step{step}" for role in ("policy", "value") for step in (10, 20)]
    folders = [put(tmp_path / "in" / name, i) for i, name in enumerate(names)]
    said = 'have different roles: the names have the words "policy" and "value"'
    for source in (tmp_path / "in", str(tmp_path / "in/*_step10"), folders):
        for measure in (
            lambda source: dimred.merge(source, tmp_path / "out"),
            dimred.average,
            dimred.trajectory,
            lambda source: dimred.fit(source, 1),
        ):
            with pytest.raises(ValueError, match=said):
                measure(source)
    assert said in fails(2, "merge", tmp_path / "in", "--output", tmp_path / "out")
    assert said in fails(2, "pca", "--snapshots", tmp_path / "in", "--output", tmp_path / "p.npy")
    assert said in fails(2, "inspect", "--trajectory", tmp_path / "in")
    np.testing.assert_array_equal(dimred.average(str(tmp_path / "in/policy_*")).w, [0.5, 0.5])
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{path}\n" for path in folders))
    assert "may be different networks" in execute("dimred", "merge", listing, "--output", tmp_path / "out")
    with pytest.warns(UserWarning, match="may be different networks"):
        np.testing.assert_array_equal(dimred.average(listing, last=4).w, [1.5, 1.5])
