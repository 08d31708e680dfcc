"""Ways to write that have ended in wrong programs or in riddles: lint_source.py FILE... (paths from here), with
universal-ctags.

C++: a reference as a member of a struct, which ties a plain value to the lifetime of what it was filled with (C++ Core
Guidelines, C.12); std::thread, which ends the program where its scope is left by an exception; and volatile, which is
no way for threads and signal handlers to share a value.
Comments, messages and pages: phrases that a reader must translate, comments that begin with the end of a sentence, and
sentences that must be read twice (lint_words.py).
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import lint_words

PHRASES = re.compile(r"\b(?:of before|what of|so many|likewise|anew)\b", re.IGNORECASE)
FRAGMENT = re.compile(r'(?:^|\s)(?://+|#|"""|/\*)\s*(?:Of|As with|Those|Until)\b')
OLD_WORDS = (
    "scripts/lint_source.py",
    "scripts/lint_words.py",
    "tests/python/test_lint.py",
    "experiments/records/",
)  # they quote the phrases
COMMENT_OR_TEXT = re.compile(r'//.*|"(?:\\.|[^"\\])*"')


def is_cpp(file: str) -> bool:
    """Whether the file is C++ source."""
    return file.endswith((".cpp", ".h", ".inc", ".cu", ".cuh"))


def dialect(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a stranger would have to read twice."""
    for number, line in enumerate(pathlib.Path(file).read_text().splitlines(), 1):
        if phrase := PHRASES.search(line) or FRAGMENT.search(line):
            yield number, f"'{phrase[0].strip()}': say it in a plain clause"


def risky_code(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a line of C++ says by itself."""
    for number, line in enumerate(pathlib.Path(file).read_text().splitlines(), 1):
        code = COMMENT_OR_TEXT.sub("", line)
        if re.search(r"\bstd::thread\b(?!::)", code):
            yield number, "std::thread: std::jthread joins where its scope is left by an exception"
        if re.search(r"(?<!const )\bvolatile\b", code):
            yield number, "volatile: threads and signal handlers share std::atomic values that are lock-free"


def reference_members(files: list[str]) -> Iterator[tuple[str, int, str]]:
    """File, line and text of each."""
    options = "--langmap=C++:+.h.inc.cu.cuh --languages=C++ --kinds-C++=m --fields=+szn --output-format=json"
    command = ["ctags", *options.split(), "-f", "-", "-L", "-"]
    done = subprocess.run(command, input="\n".join(files), capture_output=True, text=True, check=True)
    for tag in map(json.loads, done.stdout.splitlines()):
        if tag.get("scopeKind") == "struct" and re.search(rf"&\s*{re.escape(tag['name'])}\b", tag.get("pattern", "")):
            yield tag["path"], tag["line"], f"{tag['scope'].split('::')[-1]}::{tag['name']} is a reference in a struct"


def main() -> int:
    """1 where something is found."""
    files = sys.argv[1:]
    cpp = [file for file in files if is_cpp(file)]
    found = [(file, *finding) for file in files if not file.startswith(OLD_WORDS) for finding in dialect(file)]
    found += [
        (file, *finding) for file in files if not file.startswith(OLD_WORDS) for finding in lint_words.findings(file)
    ]
    found += [(file, *finding) for file in cpp for finding in risky_code(file)]
    found = sorted(found + list(reference_members(cpp)))
    print("".join(f"{file}:{line}: {text}\n" for file, line, text in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
