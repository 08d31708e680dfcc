"""The results of a set of runs: one line each, and how stage 2 stands beside its baselines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from dimred.runs import Run, groups
from dimred.runs.grouping import preference

from .tables import is_baseline, uncertainty
from .text_table import number, percent

MOST_SENTENCES = 4


def has_validation(runs: Sequence[Run]) -> bool:
    """Whether any run kept a validation set, by which a best epoch may be chosen."""
    return any(run.best_by_validation() is not None for run in runs)


def summary_header(runs: Sequence[Run]) -> list[str]:
    """Column names; costs are the run's own, without what it inherited."""
    best = ["best by validation %"] if has_validation(runs) else []
    return ["run", "method", "epochs", "images", "seconds", "forward passes", *best, "final test loss", "final test %"]


def epochs(run: Run) -> str:
    """`18`, or `18 + 2` for a run that began where another stopped."""
    own = run.curve["epoch"].max() - run.start_epoch
    return f"{run.start_epoch:.3g} + {own:.3g}" if run.start_epoch else f"{own:.3g}"


def method(run: Run) -> str:
    """sgd, the preset's name; annealed and continued runs say so."""
    return run.method if run.kind.startswith("stage") else f"{run.method}, {run.kind}"


def summary_rows(runs: Sequence[Run]) -> list[list[str]]:
    """One row of texts per run, as summary_header names them."""
    with_validation = has_validation(runs)
    rows = []
    for run in runs:
        costs = run.costs()
        final = run.result()
        tail = "" if final["weights"] == "raw" else f" ({final['weights']})"
        best = run.best_by_validation()
        chosen = [percent(best["test_accuracy"]) if best is not None else "–"]
        row = [run.name, method(run), epochs(run), f"{costs['images']:,.0f}"]
        row += [f"{costs['seconds']:,.1f}", f"{costs['forward_passes']:,.0f}"]
        row += chosen if with_validation else []
        row += (
            [number(final["test_loss"], digits=4), percent(final["test_accuracy"]) + tail]
            if run.is_tested
            else ["–", "no test set"]
        )
        rows.append(row)
    return rows


def over_seeds(runs: Sequence[Run]) -> list[str]:
    """One sentence per group of stage-2 runs: its mean, and how it stands beside the best baseline; of many
    groups only for the one that validation prefers. Nothing where no group has several seeds."""
    (header, rows), best = uncertainty(runs)
    found = []
    for row, members in zip(rows, groups(runs).values(), strict=True) if rows else ():
        if members[0].kind == "stage 2" and not is_baseline(members[0]):
            cells = dict(zip(header[:4], row[:4], strict=True))
            sentence = f"{cells['group']} ends at {cells['test % (mean ± sd)']} % over {cells['seeds']} seeds"
            found.append(
                (
                    preference(members),
                    f"{sentence}, {row[5]} points ({row[6]}) against {best}." if best else f"{sentence}.",
                )
            )
    sentences = [sentence for _, sentence in found]
    if len(found) > MOST_SENTENCES:
        return [
            f"Among the {len(found)} groups of stage 2, this one has the most seeds and then the best validation "
            f"accuracy: {max(found)[1]}"
        ]
    return sentences


# What a seed chooses of the same data: the part held out for validation, labels that are made wrong.
SEEDED = re.compile(r"(samples), (?:indices xxh3 [0-9a-f]{32}|seed \d+), of\b")
# Where the data lay, in a description that has their digest.
PLACE = re.compile(r" /.*?(?=, [\d,]+ images?\b)")


def data_of(description: object) -> str:
    """What a manifest says of networks and data, without what a seed chooses and where it lay."""
    text = SEEDED.sub(r"\1, of", json.dumps(description))
    return PLACE.sub("", text) if "xxh3" in text else text


def mixed(runs: Sequence[Run]) -> list[str]:
    """A warning for each thing that runs of one chart should have in common and do not: network and data."""
    warnings = []
    for key, what in (("layout_hash", "networks"), ("train_data", "training data"), ("test_data", "test data")):
        names: dict[object, list[str]] = {}
        for run in runs:
            if (value := run.manifest.get(key)) not in (None, ""):
                names.setdefault(data_of(value), []).append(run.name)
        if len(names) > 1:
            first, *others = names.values()
            few = ", ".join(name for group in others for name in group[:1])
            warnings.append(f"These runs have different {what}; do not compare {first[0]} with {few}.")
    return warnings


def comparison(runs: Sequence[Run]) -> list[str]:
    """A warning where the runs do not compare, then one sentence per stage-2 run, or one per group when there are
    several seeds. Runs without a test set are named, and not compared."""
    if untested := [run.name for run in runs if not run.is_tested]:
        return [
            *comparison([run for run in runs if run.is_tested]),
            f"These runs have no test set: {', '.join(untested)}.",
        ]
    return [*mixed(runs), *(over_seeds(runs) or one_by_one(runs))]


def beside(end: float, other: Run) -> str:
    """The distance in points to another run's result, which stands in brackets."""
    value = other.result()["test_accuracy"]
    points = 100 * (end - value)
    place = "level with" if abs(points) < 0.005 else f"{abs(points):.2f} {'above' if points > 0 else 'below'}"
    return f"{place} {other.name} ({percent(value)})"


def one_by_one(runs: Sequence[Run]) -> list[str]:
    """One sentence per stage-2 run: its result beside equal-epoch baselines, else beside its stage 1."""
    sentences = []
    for run in (r for r in runs if r.kind == "stage 2"):
        end = run.result()["test_accuracy"]
        others = [r for r in runs if r.kind in ("continued", "annealed") and r.parent is run.parent]
        if run.parent is not None and not others:
            others = [run.parent]
        distances = ", ".join(beside(end, other) for other in others)
        sentences.append(f"{run.name} {percent(end)} %" + (f": {distances}." if distances else "."))
    if len(sentences) > MOST_SENTENCES:  # the table has them all
        more = len(sentences) - MOST_SENTENCES
        return [*sentences[:MOST_SENTENCES], f"The table below has {more} more run{'s' * (more > 1)} of stage 2."]
    return sentences
