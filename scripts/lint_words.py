"""Sentences that a reader must read twice, in comments of C++ for readers of a header (///), in helps, messages and
pages; lint_source.py prints them with the rule that they break.

A `///` sentence and a help begin with their subject or verb. Nowhere stands "of which", "those that", two "that" in one
clause, or "there is ... that". A help has at most 25 words, and the scope of a message is no name of our code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MOST_WORDS = 25
DOC_OPENING = re.compile(r"(?:The same|Whether it|Where|Of|Empty|What|Who|Whoever|Nobody)\b")
HELP_OPENING = re.compile(r"(?:of|and|by|with|in|to|than|which|that|what|where|as)\b", re.IGNORECASE)
CONSTRUCTIONS = {
    '"of which"': re.compile(r"\bof which\b", re.IGNORECASE),
    '"those that"': re.compile(r"\bthose that\b", re.IGNORECASE),
    '"that ... that"': re.compile(r"\bthat\b[^.;:,()]*\bthat\b", re.IGNORECASE),
    '"there is ... that"': re.compile(r"\bthere (?:is|are)\b[^.;:,()]*\bthat\b", re.IGNORECASE),
}
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')
CHARACTER = re.compile(r"'(?:\\.|[^'\\])+'")
ROW = re.compile(r"\.(add|add_choice)(?:<\w+>)?\(")
TABLE = re.compile(r"\bOptionTable(?: \w+)?\(")
PART = re.compile(r"\b(?:Subcommand|StoreTool)\{")
MESSAGE = re.compile(r"\b(require|require_environment|refuse|fail|fail_environment|warn|remark|report)\(")
SCOPE = re.compile(r"\[(\w+(?:::\w+)+)\]")
DEFAULT = re.compile(r" \(default: .*\)$")


def broken_rules(sentence: str) -> Iterator[str]:
    """The constructions that a sentence of any kind may not have."""
    for name, pattern in CONSTRUCTIONS.items():
        if pattern.search(sentence):
            yield f"{name} makes a reader go back"


def broken_rules_of_help(text: str) -> Iterator[str]:
    """The same for a help text, whose default in words stands apart."""
    if opening := HELP_OPENING.match(text):
        yield f"a help begins with a verb or its subject, not '{opening[0]}'"
    if (words := len(DEFAULT.sub("", text).split())) > MOST_WORDS:
        yield f"a help has at most {MOST_WORDS} words, not {words}"
    yield from broken_rules(text)


def broken_rules_of_message(text: str) -> Iterator[str]:
    """The same for a message, whose scope is a word of its reader: a command, an option or a file."""
    if scope := SCOPE.match(text):
        yield f"a reader knows no '{scope[1]}': the scope of a message is a command, an option or a file"
    yield from broken_rules(text)


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z\"'`\[(])", text)


def arguments(code: str, opening: int) -> list[str]:
    """The texts between the commas of the bracket at `opening`."""
    found, depth, start, at = [], 0, opening + 1, opening
    while at < len(code):
        quoted = LITERAL.match(code, at) or CHARACTER.match(code, at)
        if quoted:
            at = quoted.end()
            continue
        if code.startswith("//", at):
            at = code.find("\n", at)
            continue
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 or (depth == 1 and code[at] == ","):
            found.append(code[start:at])
            start = at + 1
        if depth == 0:
            break
        at += 1
    return found


def text_of(code: str) -> str:
    """The text that the literals of an expression make up."""
    return "".join(LITERAL.findall(code))


def doc_sentences(code: str) -> Iterator[tuple[int, str]]:
    """Line and sentence of each `///` paragraph; the line is the paragraph's first."""
    paragraph: list[str] = []
    for number, line in enumerate([*code.splitlines(), ""], 1):
        comment = re.match(r"\s*///(?!<) ?(.*)", line)
        if comment and comment[1]:
            paragraph.append(comment[1])
        elif paragraph:
            yield from ((number - len(paragraph), one) for one in sentences(" ".join(paragraph)))
            paragraph = []


def helps(code: str) -> Iterator[tuple[int, str]]:
    """Position and text of each option's help and each command's summary."""
    for pattern, place in ((ROW, 2), (TABLE, 1), (PART, 1)):
        for call in pattern.finditer(code):
            parts = arguments(code, call.end() - 1)
            if len(parts) > place and (text := text_of(parts[place])):
                yield call.start(), text


def messages(code: str) -> Iterator[tuple[int, str, str]]:
    """Position, function and text of each message."""
    for call in MESSAGE.finditer(code):
        for part in arguments(code, call.end() - 1):
            text = text_of(part)
            if " " in text and part.lstrip().startswith(('"', "formatted(")):
                yield call.start(), call[1], text
                break


def cpp_findings(code: str, *, of_the_product: bool) -> Iterator[tuple[int, str]]:
    """Line and text of each finding in C++; the rows of tests have no helps for readers."""
    for line, sentence in doc_sentences(code):
        if opening := DOC_OPENING.match(sentence):
            yield line, f"'{sentence}': a sentence begins with its subject or verb, not '{opening[0]}'"
        yield from ((line, f"'{sentence}': {rule}") for rule in broken_rules(sentence))
    for position, text in helps(code) if of_the_product else ():
        line = code.count("\n", 0, position) + 1
        yield from ((line, f"'{text}': {rule}") for rule in broken_rules_of_help(text))
    for position, _, text in messages(code):
        line = code.count("\n", 0, position) + 1
        yield from ((line, f"'{text}': {rule}") for rule in broken_rules_of_message(text))


def python_findings(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each finding in the helps of argparse."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            for word in node.keywords:
                if word.arg == "help" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                    text = word.value.value
                    yield from ((node.lineno, f"'{text}': {rule}") for rule in broken_rules_of_help(text))


def page_findings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each finding in a page, outside of its code."""
    prose = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.finditer(r"(?:.+\n?)+", prose):
        line = prose.count("\n", 0, paragraph.start()) + 1
        for row in re.split(r"\n(?=[|*-] )", paragraph[0]):
            for sentence in sentences(" ".join(row.split())):
                yield from ((line, f"'{sentence}': {rule}") for rule in broken_rules(sentence))
            line += row.count("\n") + 1


def findings(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of each sentence of a file that breaks a rule, with the rule."""
    text = Path(file).read_text()
    if file.endswith((".cpp", ".h", ".inc", ".cu", ".cuh")):
        yield from cpp_findings(text, of_the_product=not file.startswith("tests/"))
    elif file.endswith(".py"):
        yield from python_findings(text)
    elif file.endswith(".md"):
        yield from page_findings(text)
