"""Compares run folders in a small table on the terminal and in one self-contained HTML page.

    python experiments/report.py runs/stage1 runs/stage2 runs/continued runs/annealed \\
        --output report.html
    python experiments/report.py runs/fashion --output fashion.html     # all runs of a comparison
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from workbench.files import require_place, write_whole
from workbench.page import MARK, page
from workbench.summary import comparison, summary_header, summary_rows
from workbench.text_table import text_table

from dimred.runs import find_sidecar, gram_beside, read_good_runs, read_sidecar, run_folders
from dimred.runs.grouping import shown


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_FOLDER", help="run folder, or a folder of runs")
    parser.add_argument(
        "--output", type=Path, default=Path("report.html"), help="HTML page to write (default: %(default)s)"
    )
    parser.add_argument(
        "--title", default="Dimension-reduced training", help="title of the page (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; 2 with one line on standard error for a folder that is not a run, or when no run is whole and
    finished, or when the page cannot be written or would replace another file. Other runs are left out and named."""
    options = parse(arguments)
    try:
        require_place(options.output, "--output", MARK)
        runs, bad = read_good_runs(run_folders(options.runs))
        if not runs:
            raise bad[0]
        sidecar = find_sidecar(runs)
        pca, gram = (read_sidecar(sidecar), gram_beside(sidecar)) if sidecar else (None, None)
        left_out = [f"{len(bad)} of {len(bad) + len(runs)} runs are not in this report:", *map(str, bad)] if bad else []
        html = page(options.title, runs, pca, gram, left_out)
        write_whole(options.output, lambda file: file.write_text(html, encoding="utf-8"))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    few = shown(runs)
    print(text_table(summary_header(few), summary_rows(few)))
    if len(few) < len(runs):
        print(
            f"({len(few)} of {len(runs)} runs are shown: the first seed of stage 1 and of the groups with the most "
            "seeds and the best validation accuracy)"
        )
    for sentence in (*comparison(runs), *left_out):
        print(sentence)
    print(f"curves: {options.output}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a closed pipe ends it, as it ends other commands
    sys.exit(main())
