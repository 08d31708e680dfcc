"""Test accuracy of runs at equal time: what each had reached after so many seconds of its own.

    python experiments/equal_time.py --group frozen 'runs/flowers_*/frozen' --group scratch 'runs/flowers_*/scratch'

A group is a name and a pattern of run folders (seeds, say). Times are parts of the shortest run's; a run counts with its
last evaluation before. Prints mean and sd of each group, with n. What a run began with (its backbone) is not in its time;
a run that goes on from another one is refused, because its curve counts that one's seconds, too.
"""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Sequence

from dimred.runs import BadRun, Run, mean_interval, read_run
from workbench.text_table import text_table

PARTS = (0.25, 0.5, 0.75, 1.0)


def own_runs(name: str, pattern: str) -> list[Run]:
    """The finished runs that the pattern finds. Raises BadRun and ValueError."""
    runs = [read_run(folder, finished=True) for folder in sorted(glob.glob(pattern))]
    if not runs:
        raise ValueError(f"no run folder matches the pattern of {name}")
    for run in runs:
        if run.config.get("resume_from"):
            raise ValueError(f"{run.folder} goes on from {run.config['resume_from']}; needs runs that begin themselves")
        if not len(run.rows()):
            raise ValueError(f"{run.folder} has no evaluation of raw weights")
    return runs


def reached(run: Run, seconds: float) -> float:
    """Test accuracy in percent after `seconds`; that of guessing before the first evaluation."""
    rows = run.rows()
    done = rows[rows["seconds"] <= seconds]
    return 100 * float(done["test_accuracy"].iloc[-1]) if len(done) else 100 / len(run.manifest["class_names"])


def cell(group: Sequence[Run], seconds: float) -> str:
    """`61.2 ± 0.8`."""
    found = mean_interval([reached(run, seconds) for run in group])
    return f"{found.mean:.1f}" + (f" ± {found.sd:.1f}" if len(group) > 1 else "")


def table(groups: dict[str, list[Run]]) -> str:
    """A line for each time."""
    shortest = min(run.rows()["seconds"].iloc[-1] for runs in groups.values() for run in runs)
    header = ["seconds", *(f"{name} (n = {len(runs)})" for name, runs in groups.items())]
    times = [shortest * part for part in PARTS]
    return text_table(header, [[f"{time:.1f}", *(cell(runs, time) for runs in groups.values())] for time in times])


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", nargs=2, action="append", required=True, metavar=("NAME", "PATTERN"))
    options = parser.parse_args(arguments)
    try:
        names = [name for name, _ in options.group]
        if len(set(names)) < len(names):
            raise ValueError(f"--group: needs different names, received {', '.join(names)}")
        groups = {name: own_runs(name, pattern) for name, pattern in options.group}
        print(f"test accuracy in percent, mean ± sd over runs\n{table(groups)}")
    except (BadRun, ValueError) as error:
        print(f"equal_time.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
