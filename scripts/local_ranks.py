"""Starts `dimred` on several ranks of this machine, for local_ranks.sh: torchrun's launcher, without its noise.

    .venv/bin/python scripts/local_ranks.py RANKS PROGRAM COMMAND [OPTION...]

The options are checked by one process first, so that a slip costs half a second. The exit code is that of the rank that
failed first, or 128 and the signal's number where a signal ended them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path


def launch(ranks: str, command: list[str]) -> int:
    """Runs the ranks to their end."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does, with a banner
    logging.disable(logging.CRITICAL)  # what went wrong is said by the ranks, in one line
    try:
        words = ["--no-python", "--standalone", "--nproc-per-node", ranks, *command]
        run.run(run.parse_args(words))
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        return first.exitcode if first.exitcode >= 0 else 128 - first.exitcode
    except SignalException as error:
        end_children(error.sigval)
        return 128 + error.sigval
    return 0


def end_children(signal: int) -> None:
    """Passes a signal on to the ranks that torchrun has only begun to start, and does not know yet; waits for them."""
    try:
        children = [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:  # a kernel without this file
        return
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal)
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def main(ranks: str, *command: str) -> int:
    """The exit code of all, or of the check."""
    if code := subprocess.run([*command, "--check_options"], check=False).returncode:
        return code
    print(f"{ranks} ranks on this machine, by torchrun", flush=True)
    return launch(ranks, list(command))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
