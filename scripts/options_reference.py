"""Writes docs/reference/options.md: every subcommand's --help all, which comes from the one table of its options.

python scripts/options_reference.py            rewrites docs/reference/options.md
python scripts/options_reference.py --check    exit code 1 when it is not what the build says
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "reference" / "options.md"
HEAD = """# Options

**Reference.** Every option of every command; `dimred COMMAND --help all` prints the same. Written by \
`scripts/options_reference.py`.
An option may also stand in a file for `--config` (TOML, or key=value lines), with `_` or `-` between words.
"""


def help_of(dimred: Path, *words: str) -> str:
    """The output of the build."""
    done = subprocess.run([dimred, *words, "--help", "all"], capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


def listed(text: str) -> list[str]:
    """The commands of a help text that lists commands: two blanks, a name, a summary."""
    return re.findall(r"^  ([a-z][a-z0-9-]*)  +\S", text, flags=re.MULTILINE)


def page(dimred: Path) -> str:
    """The whole text of docs/reference/options.md."""
    sections: list[tuple[str, ...]] = []
    for command in listed(help_of(dimred)):
        text = help_of(dimred, command)
        further = re.findall(rf"dimred {command} (--\w+)(?: FILE)? --help`?", " ".join(text.split()))
        further += listed(text) if command in ("data", "store") else []
        sections += [(command,), *((command, word) for word in further)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = pool.map(lambda words: help_of(dimred, *words), sections)
        return HEAD + "".join(
            f"\n## dimred {' '.join(words)}\n\n```\n{text}\n```\n" for words, text in zip(sections, texts, strict=True)
        )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    build = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build"))
    text = page(build / "bin" / "dimred")
    if not options.check:
        PAGE.write_text(text)
        return 0
    if PAGE.is_file() and PAGE.read_text() == text:
        return 0
    print("docs/reference/options.md is not what the build says; run scripts/options_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
