"""Job files under real launchers, and a table. See scripts/cluster_test.sh."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from .elastic import elastic
from .engine import engine
from .hosts import Hosts, hosts, reason_against
from .jobs import LAUNCHERS, STEPS, Job, outcome, reason_to_skip
from .stops import stops
from .table import Table

RANKS = (1, 2, 4)
FEW_RANKS = (1, 4)  # on both hosts there are two then


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/cluster_test.sh", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with bin/")
    parser.add_argument("--short", action="store_true", help="the launchers alone on 1 and 4 ranks, in a minute")
    parser.add_argument("--only", default="", help="launchers whose names hold this text")
    parser.add_argument("--folder", type=Path, help="folder to work in and to leave (default: a temporary one)")
    parser.add_argument("--record", type=Path, help="file that also gets the table")
    return parser.parse_args()


def launch(place: Hosts, given: argparse.Namespace, root: Path, table: Table) -> None:
    """Every launcher on every number of ranks: the same number on as many hosts gives the same bits under each."""
    build, all_ranks = given.build.resolve(), FEW_RANKS if given.short else RANKS
    digests: dict[tuple[int, int], tuple[str, str]] = {}
    for name, launcher in LAUNCHERS.items():
        if given.only not in f"{name} launch":
            continue
        if reason := reason_to_skip(name, place):
            table.add(name, ",".join(map(str, all_ranks)), "all", "skipped", why=reason)
            continue
        for ranks in all_ranks:
            job = Job(build, root / f"{name}_{ranks}")
            job.folder.mkdir()
            since = time.monotonic()
            try:
                launcher(place, job, ranks)
            except RuntimeError as error:
                table.add(name, ranks, "all", "FAILED", time.monotonic() - since, str(error))
            found = outcome(job, ranks)
            for step in STEPS:
                bad = found.codes.get(step) != 0
                table.add(
                    name,
                    ranks,
                    step,
                    "FAILED" if bad else "passed",
                    found.seconds.get(step, 0),
                    found.problem if bad else "",
                )
            hosts_used = 2 if ranks > 2 and name != "mpirun" else 1  # two ranks are added in one order on any hosts
            first, bits = digests.setdefault((ranks, hosts_used), (name, found.digest))
            if found.problem or first != name:
                wrong = found.problem or ("" if bits == found.digest else f"{found.digest[:12]}, not {bits[:12]}")
                table.add(
                    name,
                    ranks,
                    f"the bits of {first}",
                    "FAILED" if wrong else "passed",
                    time.monotonic() - since,
                    wrong,
                )


def main() -> int:
    given, table, started = arguments(), Table(), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    build = given.build.resolve()
    if not (build / "bin" / "dimred-train").exists():
        print(f"cluster_test: error: needs a finished build, received {given.build}", file=sys.stderr)
        return 2
    if reason := reason_against():
        table.add("all", "-", "hosts", "skipped", why=reason)
        return 0
    with nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory(prefix="dimred_cluster_") as root:
        try:
            with hosts(Path(root).resolve() / "hosts") as place:
                table.say(
                    f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, "
                    f"hosts after {time.monotonic() - started:.1f} s"
                )
                launch(place, given, Path(root).resolve(), table)
                if not given.short:
                    elastic(place, build, Path(root).resolve(), given.only, table)
                    if place.slurm:
                        engine(place, build, Path(root).resolve(), given.only, table)
                        stops(place, build, Path(root).resolve(), given.only, table)
        except RuntimeError as error:
            table.add("all", "-", "hosts", "FAILED", time.monotonic() - started, str(error))
        except KeyboardInterrupt:
            table.add("all", "-", "ended early", "FAILED", time.monotonic() - started)
        finally:
            table.end(given.record)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
