"""Prints every message of the C++ code as a table of place, function and text.

The function says whose fault the message reports: require the caller's, require_environment the environment's.

python scripts/list_messages.py [WORD]      those with this word, or all
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import lint_words

REPOSITORY = Path(__file__).resolve().parents[1]


def rows() -> list[tuple[str, str, str]]:
    """Place, function and text of each message outside of the tests."""
    command = ["git", "ls-files", "--", "*.cpp", "*.h", "*.cu", "*.cuh", ":!tests"]
    files = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for file in files:
        code = (REPOSITORY / file).read_text()
        for position, function, text in lint_words.messages(code):
            found.append((f"{file}:{code.count(chr(10), 0, position) + 1}", function, text))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="", help="print only messages with this word")
    word = parser.parse_args().word
    table = [row for row in rows() if word in row[2]]
    widths = [max((len(row[column]) for row in table), default=0) for column in range(2)]
    for place, function, text in table:
        print(f"{place:{widths[0]}}  {function:{widths[1]}}  {text}")


if __name__ == "__main__":
    main()
