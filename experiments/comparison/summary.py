"""Means over seeds, and paired differences to the best baseline, which validation chose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from workbench.jobs import as_text
from workbench.text_table import interval, number, p_value, percent, text_table

from dimred.runs import holm, mean_interval, paired_difference

from .results import Outcome

EQUALS = {None: "all baselines", "epochs": "no more epochs", "spent": "no more passes", "seconds": "no more seconds"}
LIMITS = {"epochs": 0.0, "spent": 0.0, "seconds": 0.02}  # cost -> what part more still counts as no more
METRICS = {"test_accuracy": "", "test_loss": "loss_"}  # and what their columns begin with
CHOSEN_BY = {
    "test_accuracy": ("validation_accuracy", 1),
    "test_loss": ("validation_loss", -1),
}  # the rival: highest, lowest
Condition = tuple[tuple[str, Any], ...]
Group = tuple[str, str]  # method, variant
Groups = dict[Group, list[Outcome]]
Ranked = dict[str, list[Group]]  # metric -> baselines from the best on
Choices = dict[Condition, tuple[dict[str, str], Ranked]]  # variants, baselines


def conditions(axes: dict[str, list[Any]]) -> list[Condition]:
    """Every combination of the axes' values."""
    return [tuple(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def within(outcomes: Iterable[Outcome], condition: Condition) -> Groups:
    """The lines that belong to a condition, by method and variant; one that does not depend on an axis
    belongs to each of its values."""
    wanted = dict(condition)
    groups: Groups = {}
    for outcome in outcomes:
        if all(wanted[axis] == value for axis, value in outcome.axes.items()):
            groups.setdefault((outcome.entry.method, outcome.entry.variant), []).append(outcome)
    return groups


def finished(group: Sequence[Outcome]) -> dict[int, Outcome]:
    """The finished runs by seed; only these are averaged."""
    return {outcome.entry.seed: outcome for outcome in group if outcome.reading is not None}


def score(group: Sequence[Outcome], metric: str = "test_accuracy") -> tuple[int, float]:
    """For choosing: runs that finished first, so that a lucky rest does not win; then the mean on validation data."""
    name, sign = CHOSEN_BY[metric]
    values = [float(outcome.result[name]) for outcome in finished(group).values()]
    mean = sign * sum(values) / len(values) if values else math.nan
    return len(values), mean if not math.isnan(mean) else -math.inf


def choose(groups: Groups) -> dict[str, str]:
    """Method -> its best variant by validation."""
    chosen: dict[str, str] = {}
    for (method, variant), group in groups.items():
        if method not in chosen or score(group) > score(groups[method, chosen[method]]):
            chosen[method] = variant
    return chosen


def ranking(groups: Groups) -> Ranked:
    """The baselines that finished, the one that validation prefers in the metric first."""
    found = [key for key, group in groups.items() if group[0].entry.role == "baseline" and finished(group)]
    return {metric: sorted(found, key=lambda key: score(groups[key], metric), reverse=True) for metric in METRICS}


def mean_cost(group: Sequence[Outcome], cost: str) -> float:
    """Figures of the runs that finished, at their own ends."""
    return mean(outcome.result[cost] for outcome in finished(group).values())


def one_step(group: Sequence[Outcome], cost: str) -> float:
    """A budget ends on a whole step, so this much more is no more either."""
    if cost == "seconds":
        return 0.0
    steps = mean(outcome.reading.steps_per_epoch for outcome in finished(group).values() if outcome.reading)
    return 0.0 if math.isnan(steps) else 1.001 / steps


def rival(key: Group, groups: Groups, ranked: Sequence[Group], cost: str | None) -> Group | None:
    """The best baseline, or the best of those that cost no more than this one; it may be this one itself."""

    def affordable(baseline: Group) -> bool:
        if baseline not in groups or not finished(groups[baseline]):
            return False
        if cost is None:
            return True
        most = mean_cost(groups[key], cost) * (1 + LIMITS[cost]) + one_step(groups[baseline], cost)
        return mean_cost(groups[baseline], cost) <= most

    return next((baseline for baseline in ranked if affordable(baseline)), None)


def mean(values: Iterable[float]) -> float:
    """nan of none."""
    return mean_interval([float(value) for value in values]).mean


def summary_line(
    group: Sequence[Outcome], against: dict[str, Sequence[Outcome] | None], cost: str | None
) -> dict[str, Any]:
    """Mean, spread and paired difference of one method in one condition; `against` is each metric's rival."""
    mine = finished(group)
    line = {
        "n": len(mine),
        "missing": len(group) - len(mine),
        **{name: mean(outcome.result[name] for outcome in mine.values()) for name, _ in CHOSEN_BY.values()},
    }
    if cost is not None:
        line["cost"] = mean_cost(group, cost)
    for metric, prefix in METRICS.items():
        found = mean_interval([float(outcome.result[metric]) for outcome in mine.values()])
        line |= {metric: found.mean, f"{prefix}sd": found.sd}
        rivals = against[metric]
        if rivals is None or group is rivals:
            continue
        theirs = finished(rivals)
        both = [seed for seed in mine if seed in theirs]
        difference = paired_difference(
            [float(mine[seed].result[metric]) for seed in both], [float(theirs[seed].result[metric]) for seed in both]
        )
        line |= {
            f"{prefix}pairs": difference.n,
            f"{prefix}difference": difference.mean,
            f"{prefix}difference_sd": difference.sd,
            f"{prefix}low": difference.low,
            f"{prefix}high": difference.high,
            f"{prefix}p": difference.p,
        }
    return line


def summarise(
    outcomes: Sequence[Outcome], axes: dict[str, list[Any]], cost: str | None, choices: Choices | None = None
) -> pd.DataFrame:
    """One line per condition, method and variant. `choices` are those made before (confirmation); without them each
    condition makes its own here. Holm's correction is over all of the table's
    tests; one that stands in several conditions, because it does not depend on an axis, counts once."""
    lines = []
    tests: dict[str, list[tuple[str, ...]]] = {metric: [] for metric in METRICS}
    for condition in conditions(axes):
        groups = within(outcomes, condition)
        chosen, ranked = (choose(groups), ranking(groups)) if choices is None else choices[condition]
        for (method, variant), group in groups.items():
            role = group[0].entry.role
            if cost is not None and role == "start":
                continue
            against: dict[str, Sequence[Outcome] | None] = {}
            named: dict[str, Any] = {}
            for metric, prefix in METRICS.items():
                best = None if role == "start" else rival((method, variant), groups, ranked[metric], cost)
                against[metric] = groups[best] if best else None
                named |= {
                    f"{prefix}baseline": (method, variant) == best,
                    f"{prefix}against": " ".join(best).strip() if best else "",
                }
                tests[metric].append(
                    tuple(str(outcome.entry.job.target) for outcome in (*group, *(against[metric] or ())))
                )
            lines.append(
                dict(condition)
                | {
                    "role": role,
                    "method": method,
                    "variant": variant,
                    "chosen": chosen.get(method) == variant,
                    **named,
                    **summary_line(group, against, cost),
                }
            )
    columns = [
        *axes,
        "role",
        "method",
        "variant",
        "chosen",
        "baseline",
        "n",
        "missing",
        "validation_accuracy",
        "validation_loss",
        "cost",
        "against",
        "pairs",
    ]
    for metric, prefix in METRICS.items():
        more = ("baseline", "against", "pairs") if prefix else ()
        columns += [
            metric,
            *(f"{prefix}{name}" for name in (*more, "sd", "difference", "difference_sd", "low", "high", "p")),
        ]
    table = pd.DataFrame(lines, columns=columns)
    for metric, prefix in METRICS.items():  # each metric is a family of tests
        by_test = dict(zip(tests[metric], table[f"{prefix}p"].astype(float), strict=True))
        corrected = dict(zip(by_test, holm(list(by_test.values())), strict=True))
        table[f"{prefix}p_holm"] = [corrected[test] for test in tests[metric]]
    return table


def loss_text(value: float, sign: str = "") -> str:
    """Four digits."""
    return number(value, sign, 4)


def shown(table: pd.DataFrame, axes: Sequence[str], cost: str | None, metric: str = "test_accuracy") -> str:
    """The table for a terminal, of accuracies or of losses."""
    prefix = METRICS[metric]
    write = percent if metric == "test_accuracy" else loss_text
    name = "test %" if metric == "test_accuracy" else "test loss"
    varied = table["variant"].astype(bool).any()
    swept = set(table["method"][table["variant"].astype(bool)])
    header = [
        *(axis.partition(".")[2] for axis in axes),
        "role",
        "method",
        *(["variant"] if varied else []),
        "n",
        "missing",
        "validation %" if metric == "test_accuracy" else "validation loss",
        f"{name} (mean ± sd)",
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
        *(["cost", "against"] if cost else []),
    ]
    rows = []
    for line in table.to_dict("records"):
        star = " *" if line["method"] in swept and line["chosen"] else ""
        low, high, p, p_holm = (line[f"{prefix}{column}"] for column in ("low", "high", "p", "p_holm"))
        difference = "best" if line[f"{prefix}baseline"] else write(line[f"{prefix}difference"], "+")
        rows.append(
            [
                *(as_text(line[axis]) for axis in axes),
                line["role"],
                line["method"],
                *([line["variant"] + star] if varied else []),
                str(line["n"]),
                str(line["missing"]),
                write(line[CHOSEN_BY[metric][0]]),
                f"{write(line[metric])} ± {write(line[f'{prefix}sd'])}",
                difference,
                interval(low, high, "+", write),
                p_value(p),
                p_value(p_holm),
                *(
                    [amount(line["cost"], cost), "" if line[f"{prefix}baseline"] else line[f"{prefix}against"] or "–"]
                    if cost
                    else []
                ),
            ]
        )
    return text_table(header, rows)


def amount(value: float, cost: str | None) -> str:
    """A cost with its unit."""
    if pd.isna(value):
        return "–"
    return f"{value:.1f} s" if cost == "seconds" else f"{value:.2f} epochs"


NOTES = """Each difference is the mean over pairs with the same seed, in percentage points, at the end of each run.
The other run of a pair is the baseline with the highest validation accuracy. In the tables at no more epochs,
passes or seconds, it is the best baseline that costs no more (column `against`). For losses it is the baseline
with the lowest validation loss, and a difference below 0 is better. The loss is the mean negative log-likelihood.
Holm's correction covers all tests of a table's metric. Seconds include the time for the matrix. * marks the
variant that validation chose."""
