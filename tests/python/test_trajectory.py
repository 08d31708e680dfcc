"""dimred.trajectory and dimred inspect --trajectory, against statistics of the points by NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import dimred

mpl.use("agg")
Grid = NDArray[np.float64]
Measured = tuple[Grid, dimred.Trajectory]

RNG = np.random.default_rng(3)
STEPS, WINDOW = 30, 7


def points(steps: Grid) -> Grid:
    """A walk from a base of its own in float64."""
    return RNG.normal(size=(1, steps.shape[1])) + np.vstack([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])


def first_component(rows: Grid) -> tuple[float, float]:
    """Share and R2 of a line, of rows as they are."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return values[-1] / values.sum(), np.corrcoef(vectors[:, -1], np.arange(len(rows)))[0, 1] ** 2


def views(rows: Grid) -> dict[str, Grid]:
    means = np.stack([rows[i : i + WINDOW].mean(axis=0) for i in range(len(rows) - WINDOW + 1)])
    return {"base": rows[1:] - rows[0], "centred": rows - rows.mean(axis=0), "windows": means - means.mean(axis=0)}


@pytest.fixture(scope="module")
def measured() -> Measured:
    rows = points(RNG.normal(size=(STEPS, 60)) * np.linspace(2, 0.5, STEPS)[:, None])
    return rows, dimred.trajectory(rows, window=WINDOW, block=4, seed=5)


def test_the_statistics_are_those_of_numpy(measured: Measured) -> None:
    rows, found = measured
    steps = np.diff(rows, axis=0)
    units = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    cosines = units @ units.T
    others = ~np.eye(STEPS, dtype=bool)
    assert found.straightness == pytest.approx(((rows[-1] - rows[0]) ** 2).sum() / (steps**2).sum(), rel=1e-10)
    assert found.effective_dimension == pytest.approx(min(60, 1 / (cosines[others] ** 2).mean()), rel=1e-8)
    assert found.cosines == pytest.approx([np.diag(cosines, lag).mean() for lag in range(1, 11)], rel=1e-8)
    walk = views(np.tril(np.ones((STEPS + 1, STEPS)), -1))  # equal orthogonal steps
    for name, view in views(rows).items():
        shown = found.views[name]["pc1"].value, found.views[name]["r2"].value
        assert shown == pytest.approx(first_component(view), rel=1e-7)
        shown = found.views[name]["pc1"].walk, found.views[name]["r2"].walk
        assert shown == pytest.approx(first_component(walk[name]), rel=1e-9)
    assert (found.pc1, found.r2) == pytest.approx(first_component(views(rows)["centred"]), rel=1e-7)
    assert found.walk == (1, found.views["centred"]["pc1"].walk, found.views["centred"]["r2"].walk)


def test_the_p_values_are_those_of_other_signs(measured: Measured) -> None:
    """The reference draws 400 times: the difference of two p-values has a standard deviation of at most 0.03."""
    rows, found = measured
    steps = np.diff(rows, axis=0)
    names = ("base", "centred", "windows")

    def statistics(signs: Grid) -> list[float]:
        turned = points(signs[:, None] * steps)
        shapes = [first_component(views(turned)[name]) for name in names]
        return [((turned[-1] - turned[0]) ** 2).sum(), *np.ravel(shapes)]

    for block, p_name in ((1, "p_value"), (4, "p_blocks")):
        signs = np.repeat(RNG.choice([-1.0, 1.0], size=(400, -(-STEPS // block))), block, axis=1)[:, :STEPS]
        drawn = np.array([statistics(row) for row in np.vstack([np.ones((1, STEPS)), signs])])
        above, below = (drawn >= drawn[0]).mean(axis=0), (drawn <= drawn[0]).mean(axis=0)
        assert getattr(found, p_name) == pytest.approx(min(1, 2 * min(above[0], below[0])), abs=0.15)
        shown = [getattr(found.views[name][statistic], p_name) for name in names for statistic in ("pc1", "r2")]
        assert shown == pytest.approx(above[1:], abs=0.09)


def test_tensors_the_plot_and_the_command(tmp_path: Path, execute: Callable[..., str]) -> None:
    """State dicts with a tensor that drifts, one that walks and one that stays; the command of the same values."""
    random = np.random.default_rng(5)
    walk, drift = random.normal(size=(STEPS, 300)), random.normal(size=(STEPS, 300)) + 1
    rows = {"walk": points(walk), "drift": points(drift), "still": np.full((STEPS + 1, 4), 0.1)}
    states = [{name: values[i].astype(np.float32) for name, values in rows.items()} for i in range(STEPS + 1)]
    found = dimred.trajectory(states)
    assert {name: tensor.verdict for name, tensor in found.tensors.items()} == {
        "walk": "no more than a random walk",
        "drift": "drift",
        "still": "does not move",
    }
    assert found.verdict == "drift"
    assert found.tensors["drift"].p_adjusted == pytest.approx(2 * found.tensors["drift"].p_value)
    assert dimred.trajectory(states, exclude="drift").verdict == "no more than a random walk"
    assert dimred.plot.cosines(found.tensors["walk"]).get_title() == "no more than a random walk"

    np.save(tmp_path / "rows.npy", rows["drift"])
    shown = execute("dimred", "inspect", "--trajectory", tmp_path / "rows.npy", "--seed", 7)
    alone = dimred.trajectory(tmp_path / "rows.npy", seed=7)
    lines = {line[:20].strip(): line.split()[-4:] for line in shown.splitlines()}
    assert "verdict             drift\n" in shown
    assert [float(value) for value in lines["straightness"]] == pytest.approx(
        [alone.straightness, 1, alone.p_value, alone.p_blocks], abs=6e-4
    )
    assert [float(value) for value in lines["PC1, centred"]] == pytest.approx(alone.views["centred"]["pc1"], abs=6e-4)


def test_a_list_is_sorted_by_the_steps_in_its_names(tmp_path: Path) -> None:
    """Sorted as texts, step100 comes before step20."""
    files = [tmp_path / f"step{10 * i}.safetensors" for i in range(1, 13)]
    for i, file in enumerate(files):
        save_file({"w": RNG.normal(size=9) + i, "b": RNG.normal(size=2)}, file)
    as_texts = sorted(files, key=str)
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{file.name}\n" for file in as_texts))
    expected = dimred.trajectory(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (files, as_texts, listing):
            assert dimred.trajectory(source).straightness == expected.straightness
            assert dimred.trajectory(source, exclude="b").straightness == expected.tensors["w"].straightness
            basis = dimred.fit(source, 2)
            assert [Path(name).name for name in basis.snapshots] == [file.name for file in files]


def test_cosines_are_numbers_where_too_few_increments_move() -> None:
    """One increment of five moves, so no two increments have an angle; JSON says null."""
    rows = np.zeros((6, 3), np.float32)
    rows[3:] = 1
    for cosines in (
        dimred.trajectory(rows).cosines,
        dimred.trajectory([{"w": row} for row in rows]).tensors["w"].cosines,
    ):
        assert cosines.dtype == np.float64 and np.isnan(cosines).all() and len(cosines) > 0


def test_what_cannot_be_measured_is_refused() -> None:
    rows = RNG.normal(size=(6, 20))
    cases: list[tuple[Grid, dict[str, int], str]] = [
        (rows[:3], {}, "4 or more snapshots, received 3"),
        (np.ones((6, 20)), {}, "different snapshots, received 6 equal snapshots"),
        (rows, {"window": 5}, "window from 2 to 4 for 6 snapshots, received 5"),
        (rows, {"flips": 5}, "flips must be from 19 to 1000000, received 5"),
        (rows, {"flips": 10**6 + 1}, "flips must be from 19 to 1000000, received 1000001"),
    ]
    for source, options, said in cases:
        with pytest.raises(ValueError, match=said):
            dimred.trajectory(source, **options)
