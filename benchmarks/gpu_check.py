"""Tests and figures of dimred on a CUDA device, in less than nine minutes; scripts/gpu_check.sh starts it.

    python benchmarks/gpu_check.py --output runs/gpu_check

Runs in a bundle of scripts/bundle.sh or in a repository with a finished build; needs the standard
library and torch. Each part has a time of its own, and one that fails does not stop the others.
Writes OUTPUT/gpu_check.json after every part, and prints a table. Exit code 0: all parts that were
asked for ran and no test failed, 1: else (a part was skipped, too: standard error names it), 2: bad
options. Bars that are not reached do not change it. --device cpu runs tiny sizes to check the check
itself: nothing is judged then.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from device_check import part_agreement, part_algebra, part_demo, part_large, part_pca, part_small, part_tests, report
from device_check.check import Check, Skipped
from device_check.peers import Peers
from device_check.place import find_place
from device_check.processes import Failed, Stopped, call
from device_check.runner import Part, Result, run_part
from device_check.sizes import FULL, QUICK, TINY
from device_check.torch_libraries import Unfit

PARTS = (
    Part("tests", part_tests.device_tests, 60),
    Part("algebra", part_algebra.algebra, 60),
    Part("agreement", part_agreement.agreement, 60),
    Part("convnet", part_small.convnet, 60),
    Part("resnet20", part_small.resnet20, 70),
    Part("stage1", part_large.stage1, 170, 30),
    Part("stage2", part_large.stage2, 110, 40),
    Part("demo", part_demo.demo, 60),
    Part("accuracy", part_agreement.accuracy, 50, 10),
    Part("pca", part_pca.pca, 240, 40),  # the last: its peer takes what is left
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shown = "default: %(default)s"
    parser.add_argument("--device", default="cuda", help=f"cuda, cuda:N or cpu; {shown}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    parser.add_argument("--minutes", type=float, default=8.8, help=f"in all; {shown}")
    parser.add_argument("--parts", nargs="+", choices=[part.name for part in PARTS], metavar="PART",
                        help=f"only these of {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--output", type=Path, default=Path("runs/gpu_check"), help=f"folder of gpu_check.json; {shown}")
    parser.add_argument("--scratch", type=Path, help="folder for up to 15 GB; default: OUTPUT/scratch, removed at the end")
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error(f"--device needs cuda, cuda:N or cpu, received {options.device}")
    if not options.minutes > 0:
        parser.error(f"--minutes needs a number above 0, received {options.minutes}")
    return options  # fmt: skip


def options_of(check: Check, command: str) -> frozenset[str]:
    """That a subcommand knows, by its help. Raises Failed where the program does not start."""
    done = call([check.need("dimred"), command, "--help"], check.place.environment, 90)
    return frozenset(re.findall(r"^  --(\w+)", done.output, re.MULTILINE))


def begin(check: Check) -> dict[str, Any]:
    """Who measures what; raises Failed or Stopped where there is no device or the programs do not start."""
    # While the peers load torch.
    check.options, check.pca_options = options_of(check, "stage1"), options_of(check, "pca")
    version = call([check.need("dimred"), "--version"], check.place.environment, 30).output.strip()
    told = check.peers.ask("machine", 120)
    if "missing" in told:
        raise Failed(f"needs the device {check.device}, received none: {told['missing']}")
    return {"device": told, "machine": report.machine(), "dimred": version}


def run_parts(check: Check, options: argparse.Namespace, told: dict[str, Any], start: float) -> list[Result]:
    """All that were asked for; gpu_check.json holds what is done so far."""
    results: list[Result] = []
    for part in PARTS:
        if options.parts and part.name not in options.parts:
            continue
        print(f"{time.monotonic() - start:5.0f} s  {part.name}", file=sys.stderr, flush=True)
        results.append(run_part(part, check, start + 60 * options.minutes))
        seconds = {"seconds": round(time.monotonic() - start, 1)}
        (options.output / "gpu_check.json").write_text(report.as_json(told | seconds, results, check.on_device))
    return results


def faults(results: Sequence[Result]) -> list[str]:
    """Why the check is not good: parts that did not run to their end, for whatever reason, and tests that failed."""
    found = [f"{result.name} {result.outcome}" for result in results if result.outcome != "done"]
    tests = (f for result in results for f in result.figures if f.name == "device tests that fail")
    return found + [f"{f.median:.0f} device tests fail" for f in tests if f.median]


def checked(options: argparse.Namespace, scratch: Path) -> int:
    """The run; its exit code."""
    start = time.monotonic()
    sizes = TINY if options.device == "cpu" else QUICK if options.quick else FULL
    with Peers(options.device) as peers:
        check = Check(find_place(), sizes, options.device, scratch, peers)
        settings = {"device": options.device, "quick": options.quick, "minutes": options.minutes}
        told = {"settings": settings, "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")} | begin(check)
        results = run_parts(check, options, told, start)
    print(report.table(results, check.on_device))
    found = report.counts(results, check.on_device)
    print(f"\n{told['device']['device']}, driver {told['machine']['driver'] or 'none'}, torch {told['device']['torch']}, "
          f"{told['dimred']}: {found['reached']} bars reached, {found['not_reached']} not, {found['not_judged']} not "
          f"judged; {time.monotonic() - start:.0f} s; {options.output / 'gpu_check.json'}")  # fmt: skip
    found_faults = faults(results)
    if found_faults:
        print(f"gpu_check: not all is good: {', '.join(found_faults)}", file=sys.stderr)
    return 1 if found_faults else 0


def own_folder(options: argparse.Namespace) -> Path:
    """A new one for what is thrown away. Raises Failed where --output or --scratch cannot be a folder of ours."""
    asked, folder = "--output", options.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
        asked, folder = "--scratch", options.scratch or options.output / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="gpu_check_", dir=folder.resolve()))
    except OSError as error:
        raise Failed(f"{asked} needs a folder that can be written, received {folder}: {error.strerror}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code; one line on standard error where nothing could be measured."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended, too
    scratch = None
    try:
        scratch = own_folder(options)
        return checked(options, scratch)
    except (Failed, Skipped, Stopped, Unfit, OSError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gpu_check: interrupted", file=sys.stderr)
        return 130
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)
        if not options.scratch:
            with contextlib.suppress(OSError):  # what others put there stays
                (options.output / "scratch").rmdir()


if __name__ == "__main__":
    sys.exit(main())
