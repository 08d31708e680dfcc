"""The places of a C++ file that a mutation may change, and the file with its mutations: pure functions of texts.

The file is read as tokens and brackets, laid out as clang-format does it: a binary operator has blanks at both sides, a
template's bracket has not. What is misread does not compile, and mutations.py draws another place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<directive>^[ \t]*\#(?:\\.|[^\n\\])*)
    |(?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"
        |(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<number>\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SWAPS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "/",
    "&&": "||",
    "||": "&&",
}
PLAIN_NUMBER = re.compile(r"\d[\d']*(?:\.\d*(?:e[-+]?\d+)?)?")
PARTNERS = {")": "(", "]": "[", "}": "{"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
UNEVALUATED = {"sizeof", "decltype", "alignof", "alignas", "typeid", "static_assert", "noexcept", "catch"}
RESULTS = {"return", "co_return", "throw"}
NO_EXPRESSION = {"static_assert", "using", "typedef", "template", "goto", "friend", "struct", "class", "enum"}
NO_CALL = {*RESULTS, *NO_EXPRESSION, "const", "auto", "static", "constexpr", "delete", "break", "continue", "co_await"}
SCOPES = {"struct", "class", "union", "enum", "namespace", "extern"}


@dataclass(frozen=True)
class Token:
    """A word, number, text, sign or directive, and its place in the file."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, order=True)
class Place:
    """What a mutation changes: the part of the file from `start` to `end`."""

    start: int
    end: int
    line: int
    kind: str  # operator | constant | condition | result | drop
    original: str  # on one line, without comments
    mutated: str  # empty of a dropped statement
    near: str  # the original around the change, for people
    instead: str  # the mutated text there

    def overlaps(self, other: Place) -> bool:
        """Whether both change a common part."""
        return self.start < other.end and other.start < self.end

    def replacement(self, number: int, text: str) -> str:
        """The text in its place, of as many lines as before; `text` is the file's."""
        own, chosen = text[self.start : self.end], f"::dimred::mutant({number})"
        if self.kind == "drop":
            return f"{{ if (!{chosen}) {{ {own} }} }}"
        if self.kind == "condition":
            own = f"static_cast<bool>({own})"
        return f"({chosen} ? ({self.mutated}) : ({own}))"


class Source:
    """A file as tokens with their brackets."""

    def __init__(self, text: str) -> None:
        """Comments are left out."""
        self.text = text
        self.tokens = [
            Token(found.lastgroup or "", found[0], found.start(), found.end())
            for found in TOKEN.finditer(text)
            if found.lastgroup != "comment"
        ]
        self.partner: dict[int, int] = {}
        self.parent: list[int] = []
        self.braces: dict[int, str] = {}  # of each {: block | lambda | scope | values
        open_ones: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.text in PARTNERS and token.kind == "sign" and open_ones:
                self.partner[i] = open_ones.pop()
                self.partner[self.partner[i]] = i
            self.parent.append(open_ones[-1] if open_ones else -1)
            if token.text in "([{" and token.kind == "sign":
                if token.text == "{":
                    self.braces[i] = self.kind_of_brace(i)
                open_ones.append(i)

    def word(self, i: int) -> str:
        """The text of a token; empty before the first one."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def is_name(self, i: int) -> bool:
        """Whether the token is a word that may be a value's or a type's name."""
        return i >= 0 and self.tokens[i].kind == "word" and self.word(i) not in {*RESULTS, "else", "case", "do"}

    def is_capture(self, i: int) -> bool:
        """Whether the [ there begins a lambda or an attribute, not a subscript."""
        return not (self.is_name(i - 1) or self.word(i - 1) in (")", "]"))

    def head_of_body(self, i: int) -> int:
        """The token before a {, without what may stand between a parameter list and a body."""
        j = k = i - 1
        while k >= 0 and (self.tokens[k].kind == "word" or self.word(k) in ("::", "<", ">", ">>", ",", "&", "*")):
            k -= 1
        if self.word(k) == "->" and self.word(k - 1) in (")", "mutable", "noexcept", "const"):
            j = k - 1
        while self.word(j) in ("mutable", "noexcept", "const", "override", "final"):
            j -= 1
        return j

    def kind_of_brace(self, i: int) -> str:
        """What the { there begins."""
        j = self.head_of_body(i)
        last = self.word(j)
        if last == ")":
            before = self.partner.get(j, 0) - 1
            is_lambda = self.word(before) == "]" and self.is_capture(self.partner[before])
            return "lambda" if is_lambda else "block"
        if last == "]":
            return "lambda" if self.is_capture(self.partner[j]) else "values"
        if last == "{":
            return "values" if self.braces.get(j) == "values" else "block"
        if last in (";", "}", "else", "try", "do", ":") or (j >= 0 and self.tokens[j].kind == "directive"):
            return "block"
        while j >= 0 and (self.tokens[j].kind in ("word", "text") or self.word(j) in ("::", "<", ">", ",", ":")):
            if self.word(j) in SCOPES:
                return "scope"
            j -= 1
        return "values"

    def is_code(self, i: int) -> bool:
        """Whether a token stands in the body of a function."""
        outer = self.parent[i]
        while outer >= 0:
            if self.braces.get(outer) in ("block", "lambda"):
                return True
            outer = self.parent[outer]
        return False

    def ends_statement(self, i: int) -> bool:
        """Whether a statement ends with the token: ; or the } of a block that is no lambda's."""
        ends = self.word(i) == "}" and self.braces.get(self.partner.get(i, -1)) in ("block", "scope")
        return ends or self.word(i) == ";" or self.tokens[i].kind == "directive"

    def statement(self, i: int) -> tuple[int, int] | None:
        """The first token and the ; of the simple statement with token i, whose parent is a block; else None."""
        outer, first, last = self.parent[i], i, i
        while first - 1 > outer and not self.ends_statement(first - 1):
            first = self.partner[first - 1] if self.word(first - 1) in PARTNERS else first - 1
        while self.word(last) != ";":
            if self.braces.get(last) in ("block", "scope") or self.tokens[last].kind == "directive":
                return None
            last = self.partner[last] + 1 if self.word(last) in ("(", "[", "{") else last + 1
            if last >= len(self.tokens) or self.word(last) == "}":
                return None
        return self.without_heads(first, last), last

    def without_heads(self, first: int, last: int) -> int:
        """The first token behind `if (...)`, `else`, `for (...)`, `case X:` and so on."""
        while first < last:
            if self.word(first) in ("if", "for", "while", "switch"):
                opener = first + 2 if self.word(first + 1) == "constexpr" else first + 1
                first = self.partner.get(opener, last - 1) + 1
            elif self.word(first) in ("else", "do"):
                first += 1
            elif self.word(first) in ("case", "default"):
                while first < last and self.word(first) != ":":
                    first += 1
                first += 1
            else:
                break
        return first

    def expression(self, i: int) -> tuple[int, int] | None:
        """The first and last token of the smallest expression with token i that may stand in brackets; or None."""
        outer = self.parent[i]
        if self.braces.get(outer) == "scope" or outer < 0:
            return None
        if self.braces.get(outer) in ("block", "lambda"):
            return self.expression_in_statement(i)
        name = self.word(outer - 1)
        if self.word(outer) == "(" and (name in UNEVALUATED or (name == "for" and not self.counts(outer))):
            return None
        is_bound = self.is_name(outer - 1) and self.is_name(outer - 2)  # of an array
        if self.word(outer) == "[" and (self.is_capture(outer) or is_bound):
            return None
        return self.between(i, outer + 1, self.partner[outer] - 1)

    def counts(self, opener: int) -> bool:
        """Whether a for of this ( has three parts, not a range."""
        return any(self.word(i) == ";" and self.parent[i] == opener for i in range(opener, self.partner[opener]))

    def expression_in_statement(self, i: int) -> tuple[int, int] | None:
        """The same in a simple statement: the value returned or assigned, or all of it."""
        found = self.statement(i)
        if found is None or i < found[0]:
            return None
        first, last = found[0], found[1] - 1
        words = {self.word(j) for j in range(first, i)}
        if self.word(first) in NO_EXPRESSION or "constexpr" in words:
            return None
        if self.word(first) in RESULTS:
            first += 1
        return None if self.word(first) == "{" else self.between(i, first, last)

    def between(self, i: int, first: int, last: int) -> tuple[int, int] | None:
        """The part around token i between commas and semicolons, behind an assignment; None in front of one."""
        begin, end = i, i
        while begin > first and self.word(begin - 1) not in {",", ";", *ASSIGNMENTS}:
            begin = self.partner[begin - 1] if self.word(begin - 1) in PARTNERS else begin - 1
        while end < last and self.word(end + 1) not in (",", ";"):
            end = self.partner[end + 1] if self.word(end + 1) in ("(", "[", "{") else end + 1
            if self.word(end) in ASSIGNMENTS:
                return None
        return (begin, end) if first <= begin <= end <= last else None

    def has_blanks(self, i: int) -> bool:
        """Whether blanks or line ends surround the token, as clang-format sets a binary operator."""
        token = self.tokens[i]
        return self.text[token.start - 1].isspace() and self.text[token.end : token.end + 1].isspace()

    def line_of(self, first: int, last: int, changed: int = -1, to: str = "") -> str:
        """The tokens on one line, one of them changed."""
        parts: list[str] = []
        for i in range(first, last + 1):
            token = self.tokens[i]
            if i > first and token.start > self.tokens[i - 1].end:
                parts.append(" ")
            parts.append(to if i == changed else token.text)
        return "".join(parts)

    def place(self, kind: str, first: int, last: int, changed: int, mutated: str, to: str) -> Place | None:
        """A place from token to token; None where a directive or a text of several lines stands in it."""
        tokens = self.tokens[first : last + 1]
        if any(token.kind == "directive" or "\n" in token.text for token in tokens):
            return None
        low, high = max(first, changed - 6), min(last, changed + 6)
        if changed < 0:
            low, high, changed = first, last, first
        return Place(
            tokens[0].start,
            tokens[-1].end,
            self.text.count("\n", 0, self.tokens[changed].start) + 1,
            kind,
            self.line_of(first, last),
            mutated,
            self.line_of(low, high),
            to if kind in ("condition", "drop") else self.line_of(low, high, changed, to),
        )


def operators(source: Source, i: int) -> Iterator[Place | None]:
    """A binary operator becomes another."""
    sign = source.word(i)
    if sign not in SWAPS or not source.has_blanks(i):
        return
    if "text" in (source.tokens[i - 1].kind, source.tokens[i + 1].kind) and sign == "+":
        return  # texts have no difference
    if found := source.expression(i):
        mutated = source.line_of(*found, changed=i, to=SWAPS[sign])
        yield source.place("operator", *found, i, mutated, SWAPS[sign])


def constants(source: Source, i: int) -> Iterator[Place | None]:
    """A number is one more."""
    token = source.tokens[i]
    if token.kind == "number" and PLAIN_NUMBER.fullmatch(token.text) and source.expression(i):
        yield source.place("constant", i, i, i, f"{token.text} + 1", f"({token.text} + 1)")


def conditions(source: Source, i: int) -> Iterator[Place | None]:
    """The condition of an if is negated; one that defines a variable is none of these."""
    if source.word(i) != "if" or source.word(i + 1) != "(":
        return
    opener, end = i + 1, source.partner[i + 1]
    level = [j for j in range(opener + 1, end) if source.parent[j] == opener]
    first = max((j + 1 for j in level if source.word(j) == ";"), default=opener + 1)
    if not any(source.word(j) in ASSIGNMENTS for j in level if j >= first):
        whole = source.line_of(first, end - 1)
        yield source.place("condition", first, end - 1, -1, f"!({whole})", f"!({whole})")


def results(source: Source, i: int) -> Iterator[Place | None]:
    """The other boolean is returned."""
    others = {"true": "false", "false": "true"}
    if source.word(i) in others and source.word(i - 1) == "return" and source.word(i + 1) == ";":
        yield source.place("result", i, i, i, others[source.word(i)], others[source.word(i)])


def is_declaration(source: Source, first: int, last: int) -> bool:
    """Whether a type stands before a name: two names, or a *, & or > that is not the first token."""
    return any(
        source.is_name(i + 1) and (source.is_name(i) or (i > first and source.word(i) in ("*", "&", "&&", ">", ">>")))
        for i in range(first, last)
    )


def drops(source: Source, i: int) -> Iterator[Place | None]:
    """A plain call, an assignment or a count is left out."""
    if source.word(i) != ";" or source.braces.get(source.parent[i]) not in ("block", "lambda"):
        return
    found = source.statement(i)
    if found and found[0] < i and source.word(found[0]) not in NO_CALL and only_acts(source, *found):
        yield source.place("drop", *found, -1, "", "(dropped)")


def only_acts(source: Source, first: int, last: int) -> bool:
    """Whether the statement from token to ; is a call, one assignment or a count, and declares nothing."""
    level = [j for j in range(first, last) if source.parent[j] == source.parent[last]]
    assigned = [j for j in level if source.word(j) in ASSIGNMENTS]
    left = next((j for j in level if j in assigned[:1] or (not assigned and source.word(j) == "(")), last)
    is_count = bool({source.word(first), source.word(last - 1)} & {"++", "--"})
    is_call = source.is_name(first) and source.word(last - 1) == ")" and not assigned
    return (is_count or is_call or len(assigned) == 1) and not is_declaration(source, first, left)


def places(text: str) -> list[Place]:
    """Every place of a file, in its order."""
    source = Source(text)
    found = [
        place
        for i in range(1, len(source.tokens) - 1)
        if source.is_code(i)
        for kind in (operators, constants, conditions, results, drops)
        for place in kind(source, i)
    ]
    return sorted(place for place in found if place is not None)


@dataclass(frozen=True, order=True)
class Drawn:
    """A place of a file, drawn for a room."""

    room: str
    file: str
    place: Place

    def overlaps(self, other: Drawn) -> bool:
        """Whether both change a common part of one file."""
        return self.file == other.file and self.place.overlaps(other.place)


def in_random_order(room: str, texts: Mapping[str, str], seed: int) -> list[Drawn]:
    """Every place of a room's files, in an order that the seed decides."""
    pool = [Drawn(room, file, place) for file, text in sorted(texts.items()) for place in places(text)]
    random.Random(f"{seed} {room}").shuffle(pool)
    return pool


def first_apart(order: Iterable[Drawn], count: int, refused: Sequence[Drawn] = ()) -> list[Drawn]:
    """The first `count` of them that overlap no earlier one and are not refused."""
    taken: list[Drawn] = []
    for drawn in order:
        if len(taken) == count:
            break
        if drawn not in refused and not any(drawn.overlaps(other) for other in taken):
            taken.append(drawn)
    return taken


def rewritten(text: str, path: str, header: str, mutations: Mapping[int, Place]) -> str:
    """The file with its mutations, by their numbers; the lines keep their numbers for the compiler."""
    for number, place in sorted(mutations.items(), key=lambda item: item[1], reverse=True):
        text = text[: place.start] + place.replacement(number, text) + text[place.end :]
    return f'#include "{header}"\n#line 1 "{path}"\n{text}'
