"""The demo on the device: 20 epochs of stage 1, the PCA, 2 epochs of stage 2."""

from __future__ import annotations

from .check import Check, Skipped, rows_of
from .figures import Figure, at_most


def one_demo(check: Check) -> tuple[dict[str, float], float]:
    """Seconds of each program from its start to its end, and the final test accuracy in per cent."""
    sizes = check.sizes
    recipes = check.place.sources / "experiments" / "recipes"
    folder = check.folder("demo")
    few: dict[str, object] = {} if check.on_device else {"train_samples": 256, "test_samples": 100}
    common: dict[str, object] = {"data": check.place.data["fashion"], "seed": 1, "quiet": "true", **few}
    seconds = {}
    seconds["stage 1"] = check.train("stage1", folder / "stage1", **common, epochs=sizes.demo_epochs,
                                     config=recipes / "fashion_demo.toml").seconds  # fmt: skip
    matrix = folder / "pca_mat.npy"
    seconds["PCA"] = check.run("dimred", "pca", "--snapshots", folder / "stage1" / "snapshots", "--components",
                               sizes.demo_components, "--output", matrix).seconds  # fmt: skip
    seconds["stage 2"] = check.train("stage2", folder / "stage2", **common, config=recipes / "fashion_stage2.toml",
                                     checkpoint=folder / "stage1", pca_mat=matrix).seconds  # fmt: skip
    last = rows_of(folder / "stage2" / "curve.csv")[-1]
    return seconds | {"all": sum(seconds.values())}, 100 * float(last["test_accuracy"])


def demo(check: Check) -> None:
    """From the first program's start to the last one's end."""
    if "fashion" not in check.place.data:
        raise Skipped("Fashion-MNIST is not here; DIMRED_FASHION names its folder")
    accuracies: list[float] = []

    def one_round(_: int) -> dict[str, float]:
        seconds, accuracy = one_demo(check)
        accuracies.append(accuracy)
        return seconds

    rounds = check.rounds(one_round)
    epochs = check.sizes.demo_epochs
    check.add(Figure(f"demo: {epochs} epochs, PCA, stage 2", [r["all"] for r in rounds], "s", at_most(20), rounds))
    for name in ("stage 1", "PCA", "stage 2"):
        check.add(Figure(f"demo: {name}", [r[name] for r in rounds], "s"))
    check.add(Figure("demo: final test accuracy", accuracies, "%"))
