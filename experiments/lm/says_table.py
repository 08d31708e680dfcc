"""Reads the rows of trajectory_says: does a statistic of a window know what comes after it?

python experiments/lm/says_table.py [ROWS]
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))

from workbench.text_table import text_table  # noqa: E402

from dimred.runs import holm, mean_interval  # noqa: E402

Row = dict[str, Any]
Numbers = NDArray[np.float64]
STATISTICS = ("straightness", "pc1", "effective dimension", "cosine 1", "cosine 10")
LOGARITHMIC = ("straightness", "effective dimension")
GAINS = ("mean", "annealing", "higher rate", "step")
PERMUTATIONS = 99_999
SEEDS, SETTINGS = 8, 3  # before which there is no verdict


def runs_of(rows: list[Row], setting: str) -> dict[tuple[float, int], dict[str, Row]]:
    """By rate and seed, what is known of a run; of seeds that have every rate."""
    found: dict[tuple[float, int], dict[str, Row]] = {}
    for row in rows:
        if row["setting"] == setting:
            found.setdefault((row["rate"], row["seed"]), {})[row["what"]] = row
    ended = {run for run, known in found.items() if "losses" in known or "diverged" in known}
    rates = {rate for rate, _ in found}
    return {run: known for run, known in sorted(found.items()) if all((rate, run[1]) in ended for rate in rates)}


def gains_of(runs: dict[tuple[float, int], dict[str, Row]]) -> dict[tuple[float, int], dict[str, float]]:
    """The gains of runs that did not diverge; minus infinity where the next higher rate did."""
    rates = sorted({rate for rate, _ in runs})
    found = {}
    for (rate, seed), known in runs.items():
        if "losses" not in known or "statistics" not in known:
            continue
        losses = {name: values for name, values in known["losses"].items() if isinstance(values, list)}
        step = min((values for name, values in losses.items() if name.startswith("step")), key=lambda both: both[0])
        gains = {
            "mean": losses["last"][1] - losses["mean"][1],
            "annealing": losses["end"][1] - losses["annealed"][1],
            "step": losses["last"][1] - step[1],
        }
        if rate != rates[-1]:
            above = runs[rates[rates.index(rate) + 1], seed].get("losses")
            gains["higher rate"] = losses["annealed"][1] - above["annealed"][1] if above else -np.inf
        found[rate, seed] = gains
    return found


def ranks_within(values: Numbers, rates: Numbers) -> Numbers:
    """Ranks among the runs of a rate, centred; ties share theirs."""
    from scipy.stats import rankdata

    out = np.empty(len(values))
    for rate in np.unique(rates):
        ranks = rankdata(values[rates == rate])
        out[rates == rate] = ranks - ranks.mean()
    return out


def partial_correlation(x: Numbers, y: Numbers, rates: Numbers) -> tuple[float, float]:
    """Correlation of ranks given the rate, two-sided p by permutations within the rates; nan where nothing varies."""
    a, b = ranks_within(x, rates), ranks_within(y, rates)
    size = np.sqrt((a @ a) * (b @ b))
    if size == 0:
        return np.nan, np.nan
    random = np.random.default_rng(1)
    products = np.zeros(PERMUTATIONS)
    for rate in np.unique(rates):
        part = rates == rate
        products += random.permuted(np.tile(a[part], (PERMUTATIONS, 1)), axis=1) @ b[part]
    as_large = np.count_nonzero(np.abs(products) >= abs(a @ b) - 1e-9)
    return float(a @ b / size), (1 + as_large) / (1 + PERMUTATIONS)


def p_of_seeds(x: Numbers, y: Numbers, rates: Numbers, seeds: NDArray[np.int64]) -> float:
    """Two-sided p of such a correlation by all orders of the seeds, which the rates share: a seed's runs begin alike.
    Over the seeds that have every rate; nan where nothing varies."""
    names = np.unique(rates)
    whole = [seed for seed in np.unique(seeds) if np.count_nonzero(seeds == seed) == len(names)]
    if not whole:
        return np.nan
    places = np.array([[np.flatnonzero((rates == rate) & (seeds == seed))[0] for seed in whole] for rate in names])
    groups = np.repeat(names, len(whole))
    a, b = (ranks_within(values[places].ravel(), groups).reshape(places.shape) for values in (x, y))
    if not a.any() or not b.any():
        return np.nan
    orders = np.array(list(itertools.permutations(range(len(whole)))))
    products = sum(a[row][orders] @ b[row] for row in range(len(names)))
    return float(np.mean(np.abs(products) >= abs((a * b).sum()) - 1e-9))


def left_out_error(x: Numbers | None, y: Numbers, rates: Numbers) -> float:
    """Mean absolute error at each rate of a line (x None: a mean) fitted to the others."""
    errors = []
    for rate in np.unique(rates):
        left, kept = rates == rate, rates != rate
        if x is None:
            predicted = np.full(left.sum(), y[kept].mean())
        else:
            predicted = np.polyval(np.polyfit(x[kept], y[kept], 1), x[left])
        errors.append(np.abs(y[left] - predicted))
    return float(np.concatenate(errors).mean())


def comparisons(rows: list[Row], setting: str) -> list[Row]:
    """A line for each statistic and gain."""
    runs = runs_of(rows, setting)
    gains = gains_of(runs)
    lines = []
    for gain in GAINS:
        taken = [run for run in gains if gain in gains[run]]
        y, rates = np.array([gains[run][gain] for run in taken]), np.array([run[0] for run in taken])
        seeds = np.array([run[1] for run in taken])
        finite = np.isfinite(y)
        few = len(set(rates[finite])) < 3

        def error(x: Numbers | None, y: Numbers = y, rates: Numbers = rates, finite: Numbers = finite) -> float:
            return left_out_error(None if x is None else x[finite], y[finite], rates[finite])

        for statistic in STATISTICS:
            x = np.array([runs[run]["statistics"][statistic] for run in taken], dtype=float)
            correlation, p = partial_correlation(x, y, rates) if len(taken) else (np.nan, np.nan)
            of_seeds = p_of_seeds(x, y, rates, seeds) if len(taken) else np.nan
            by = np.log(x) if statistic in LOGARITHMIC else x
            errors = [np.nan] * 3 if few else [error(by), error(np.log(rates)), error(None)]
            lines.append({"gain": gain, "statistic": statistic, "correlation": correlation, "errors": errors})
            lines[-1] |= {"p": p, "p of seeds": of_seeds}
    return lines


def means(rows: list[Row], setting: str) -> str:
    """Each rate's statistics and gains, mean ± sd over the seeds."""
    runs = runs_of(rows, setting)
    gains = gains_of(runs)
    lines = []
    for rate in sorted({rate for rate, _ in runs}):
        seeds = [run for run in gains if run[0] == rate]
        line = [f"{rate:g}", f"{len(seeds)} of {len([run for run in runs if run[0] == rate])}"]
        of: list[Callable[[tuple[float, int]], float]] = [
            *(lambda run, name=name: runs[run]["statistics"][name] for name in STATISTICS),
            *(lambda run, name=name: gains[run].get(name, np.nan) for name in GAINS),
        ]
        for value in of:
            one = mean_interval([found for run in seeds if np.isfinite(found := value(run))])
            line.append(f"{one.mean:.4f} ± {one.sd:.4f}")
        lines.append(line)
    return text_table(["rate", "with statistics", *STATISTICS, *GAINS], lines)


def whole_seeds(rows: list[Row], setting: str) -> int:
    """How many seeds have statistics at every rate at which any seed has them: those that the test of seeds counts."""
    gains = gains_of(runs_of(rows, setting))
    rates = {rate for rate, _ in gains}
    return sum(all((rate, seed) in gains for rate in rates) for seed in {seed for _, seed in gains})


def found_of(rows: list[Row]) -> list[tuple[str, Row]]:
    """Every setting with its lines, their p-values corrected over all."""
    settings = sorted({row["setting"] for row in rows})
    found = [(setting, line) for setting in settings for line in comparisons(rows, setting)]
    for p in ("p", "p of seeds"):
        known = [1.0 if np.isnan(line[p]) else line[p] for _, line in found]
        for (_, line), corrected in zip(found, holm(known), strict=True):
            line[f"corrected {p}"] = corrected
    return found


def known(found: list[tuple[str, Row]]) -> list[str]:
    """Which statistic knows which gain by the plan's rule, in two settings or more."""
    signs: dict[str, Counter[float]] = {}
    for _, line in found:
        own, *others = line["errors"]
        p = max(line["corrected p"], line["corrected p of seeds"])
        if abs(line["correlation"]) >= 0.5 and p < 0.01 and own < min(others):
            name = f"{line['statistic']} knows the gain of: {line['gain']}"
            signs.setdefault(name, Counter())[np.sign(line["correlation"])] += 1
    return [name for name, counts in signs.items() if max(counts.values()) >= 2] or ["no statistic knows a gain"]


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else EXPERIMENTS / "records" / "trajectory_says_rows.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = found_of(rows)
    counts = {setting: whole_seeds(rows, setting) for setting in sorted({row["setting"] for row in rows})}
    for setting, count in counts.items():
        print(f"{setting}: {count} seeds\n\n{means(rows, setting)}\n")
    for row in rows:
        if "reason" in row:
            print("{setting}, seed {seed}, rate {rate:g}: {what}, {reason}\n".format(**row))
    header = ["setting", "gain", "statistic", "correlation", "p (Holm)", "p of seeds (Holm)"]
    header += ["error", "of the rate", "of the mean"]
    lines = [
        [
            setting,
            line["gain"],
            line["statistic"],
            f"{line['correlation']:+.2f}",
            f"{line['corrected p']:.2g}",
            f"{line['corrected p of seeds']:.2g}",
            *(f"{error:.4f}" for error in line["errors"]),
        ]
        for setting, line in found
    ]
    ended = len(counts) == SETTINGS and min(counts.values()) >= SEEDS
    print(text_table(header, lines), *(known(found) if ended else ["no verdict before eight seeds"]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
