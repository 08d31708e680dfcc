"""Ways to write C++ that have ended in wrong programs: lint_source.py FILE... (paths from here), with universal-ctags.

A reference as a member of a struct, which ties a plain value to the lifetime of what it was filled with (C++ Core
Guidelines, C.12); std::thread, which ends the program where its scope is left by an exception; and volatile, which is
no way for threads and signal handlers to share a value. And comments with phrases that a reader must translate.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

PHRASES = re.compile(r"\b(?:of before|what of|so many|likewise|anew)\b", re.IGNORECASE)
TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
COMMENT_OR_TEXT = re.compile(r'//.*|"(?:\\.|[^"\\])*"')


def findings_of_lines(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a line says by itself."""
    for number, line in enumerate(pathlib.Path(file).read_text().splitlines(), 1):
        comment = TEXT.sub('""', line).partition("//")[2]
        if phrase := PHRASES.search(comment):
            yield number, f"'{phrase[0]}': say it in a plain clause"
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
    found = [(file, *finding) for file in files for finding in findings_of_lines(file)]
    found = sorted(found + list(reference_members(files)))
    print("".join(f"{file}:{line}: {text}\n" for file, line, text in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
