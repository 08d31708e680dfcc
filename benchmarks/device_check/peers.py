"""The other contestants, in a process of their own that stays: PyTorch is loaded and compiled once."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from .processes import Failed, Stopped, end_group, last_line

SERVER = Path(__file__).with_name("peer_server.py")


class Peers:
    """Asks peer_server.py; a process that failed or was stopped is replaced at the next question."""

    def __init__(self, device: str, server: Path = SERVER) -> None:
        self.device, self.server = device, server
        self.process: subprocess.Popen[str] | None = None
        self.errors: TextIO | None = None

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Gives back what the process holds of the device."""
        if self.process:
            end_group(self.process)
            for stream in (self.process.stdin, self.process.stdout):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        self.process = None
        if self.errors:
            self.errors.close()
        self.errors = None

    def start(self) -> subprocess.Popen[str]:
        """The process, begun where there is none."""
        if self.process and self.process.poll() is None:
            return self.process
        self.end()
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, str(self.server), self.device], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        start_new_session=True)  # fmt: skip
        return self.process

    def told(self) -> str:
        """The last line of standard error."""
        if not self.errors:
            return ""
        self.errors.seek(0)
        return last_line(self.errors.read())

    def ask(self, what: str, seconds: float, **request: object) -> dict[str, Any]:
        """One answer. Raises Failed with the peer's error, Stopped after `seconds`; the process then ends."""
        process = self.start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps({"what": what} | request) + "\n")
            process.stdin.flush()
        except OSError:
            pass  # it has ended: the empty line below says so
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, seconds))
        if not ready:
            self.end()
            raise Stopped(f"PyTorch's {what} was not done after {seconds:.0f} s")
        line = process.stdout.readline()
        if not line.endswith("\n"):
            told = self.told()
            self.end()
            raise Failed(f"PyTorch's process ended in {what}: {told}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(f"PyTorch's {what}: {answer['error']}")
        return answer

    def seconds_of(self, what: str, seconds: float, **request: object) -> float:
        """The answer's seconds."""
        return float(self.ask(what, seconds, **request)["seconds"])
