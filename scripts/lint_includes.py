"""Includes that work by chance: lint_includes.py FILE... (C++ files, paths from here).

Reported are a header that is included inside a namespace, a type or a function (lists, *.inc, belong there), a
library's private header, which its next version may call otherwise (torch's version is pinned), and a name of the
standard library whose header is included neither by the file nor by the header of the same name: another header, a
unity build or the precompiled header brought it along. The vocabulary of interfaces (string, vector, memory, optional
and the integers) may come along.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

ALGORITHMS = """adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range
    fill fill_n find find_if find_if_not for_each generate is_sorted lexicographical_compare lower_bound max
    max_element merge min min_element minmax minmax_element mismatch none_of nth_element partial_sort partition
    remove_if replace reverse rotate search shuffle sort stable_sort transform unique upper_bound""".split()
# Header -> a pattern of what follows `std::`.
NAMES_OF = {
    "algorithm": rf"(ranges::)?({'|'.join(ALGORITHMS)})\(",
    "array": r"(array<|to_array\()",
    "atomic": r"atomic\w*\b",
    "barrier": r"barrier\b",
    "bit": r"(bit_cast|bit_ceil|countr_zero|endian|has_single_bit|popcount)\b",
    "charconv": r"(from_chars|to_chars)\b",
    "chrono": r"chrono::",
    "cmath": r"(abs|ceil|cos|exp|floor|fma|is(finite|inf|nan)|l?lround|log(2|10)?|nextafter|pow|round|sin|sqrt)\(",
    "condition_variable": r"condition_variable\b",
    "cstdio": r"(FILE\b|fflush\(|fopen\(|fprintf\(|fputs\(|printf\(|puts\(|snprintf\()",
    "cstdlib": r"(abort|exit|getenv|strtod|strtol|system)\(",
    "cstring": r"(memcmp|memcpy|memset|strcmp|strerror|strlen)\(",
    "deque": r"deque<",
    "fstream": r"[io]?fstream\b",
    "functional": r"(cref\(|function<|greater<|plus<|ref\()",
    "future": r"(async\(|future<|promise<)",
    "iomanip": r"set(fill|precision|w)\(",
    "iostream": r"(cerr|cin|cout)\b",
    "limits": r"numeric_limits<",
    "map": r"(multi)?map<",
    "memory_resource": r"pmr::",
    "mutex": r"(call_once|lock_guard|mutex|once_flag|scoped_lock|unique_lock)\b",
    "numbers": r"numbers::",
    "numeric": r"(accumulate|gcd|inner_product|iota|lcm|midpoint|partial_sum|reduce|transform_reduce)\(",
    "random": r"(mt19937|normal_distribution|uniform_)",
    "regex": r"regex",
    "set": r"(multi)?set<",
    "sstream": r"[io]?stringstream\b",
    "thread": r"(jthread|this_thread|thread)\b",
    "tuple": r"(make_tuple\(|tie\(|tuple<)",
    "unordered_map": r"unordered_map<",
    "unordered_set": r"unordered_set<",
    "variant": r"(get_if<|variant<|visit\()",
}
PATTERNS = {header: re.compile(rf"\bstd::{names}") for header, names in NAMES_OF.items()}
INCLUDE = re.compile(r'#include (?:<(\w+)>|"[^"]+\.(?:h|cuh)")')
PRIVATE = re.compile(r"#include <(?!torch/|ATen/|c10/)\S*\b(impl|details?|internal|private)/")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
NO_CODE = re.compile(r'//.*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'')


def standard_headers(text: str) -> set[str]:
    return set(re.findall(r"^#include <(\w+)>", text, re.MULTILINE))


def findings(path: pathlib.Path) -> Iterator[str]:
    text = RAW_STRING.sub(lambda string: "\n" * string[0].count("\n"), path.read_text())
    own_header = path.with_suffix(".h")
    known = standard_headers(text) | (standard_headers(own_header.read_text()) if own_header.is_file() else set())
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include and depth > 0:
            yield f"{path}:{number}: {line} stands inside braces, not at file scope"
        if PRIVATE.match(line):
            yield f"{path}:{number}: {line} is a private header of its library"
        code = "" if include else NO_CODE.sub("", line)
        depth += code.count("{") - code.count("}")
        for header, pattern in PATTERNS.items():
            if header not in known and (name := pattern.search(code)):
                known.add(header)
                yield f"{path}:{number}: {name[0].rstrip('(<')} needs #include <{header}>"


def main() -> int:
    found = [line for name in sys.argv[1:] for line in findings(pathlib.Path(name))]
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
