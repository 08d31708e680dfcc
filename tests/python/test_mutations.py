"""scripts/mutations.py draws faults by a seed, and sources with faults mean the same while none is switched on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))
import mutations
from mutation_places import Source, first_apart, in_random_order, places, rewritten

CODE = """#include <vector>
namespace room {
constexpr int most = 3 + 4;
enum class Kind : int { low = 1 + 1 };
template <class T>
struct Pair {
  T a = T(1);
  char name[16 + 1];
};

int largest(const std::vector<int>& values, int& calls) {
  static_assert(1 < 2, "it holds");
  ++calls;
  int best = -1;  // 5 < 6
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > best && values[i] != 40 - 1) best = values[i];
  }
  switch (best) {
    case 2 + 3:
      best = best +
             10;  // a sum of two lines
      break;
    default: break;
  }
  const auto is_odd = [&](int value) { return value % 2 == 1; };
  return is_odd(best) ? best : best * 2;
}

bool always() { return true; }
}  // namespace room
"""


WHOLE = "values[i] > best && values[i] != 40 - 1"


def test_places_are_whole_expressions_and_statements() -> None:
    """Constants of the compiler, templates, comments and declarations are no places."""
    assert [(place.line, place.kind, place.original, place.mutated) for place in places(CODE)] == [
        (13, "drop", "++calls;", ""),
        (14, "constant", "1", "1 + 1"),
        (15, "constant", "0", "0 + 1"),
        (15, "operator", "i < values.size()", "i <= values.size()"),
        (16, "condition", WHOLE, f"!({WHOLE})"),
        (16, "operator", WHOLE, WHOLE.replace("40 - 1", "40 + 1")),
        (16, "operator", WHOLE, WHOLE.replace("!=", "==")),
        (16, "operator", WHOLE, WHOLE.replace("&&", "||")),
        (16, "operator", WHOLE, WHOLE.replace(">", ">=")),
        (16, "constant", "40", "40 + 1"),
        (16, "constant", "1", "1 + 1"),
        (16, "drop", "best = values[i];", ""),
        (20, "drop", "best = best + 10;", ""),
        (20, "operator", "best + 10", "best - 10"),
        (21, "constant", "10", "10 + 1"),
        (25, "operator", "value % 2 == 1", "value % 2 != 1"),
        (25, "constant", "2", "2 + 1"),
        (25, "constant", "1", "1 + 1"),
        (26, "operator", "is_odd(best) ? best : best * 2", "is_odd(best) ? best : best / 2"),
        (26, "constant", "2", "2 + 1"),
        (29, "result", "true", "false"),
    ]


def body(*lines: str) -> list[str]:
    """The mutated texts of operators in a function with these lines."""
    text = "void f() {\n" + "\n".join(lines) + "\n}\n"
    return [place.mutated for place in places(text) if place.kind == "operator"]


def test_an_expression_ends_where_its_brackets_end() -> None:
    assert body("f(a, b + 1, {c, d < e});") == ["b - 1", "d <= e"]
    assert body("const auto x = a + b, y = c;") == ["a - b"]
    assert body("return g(x)[i + 1];") == ["i - 1"]
    assert body("use({.size = a * b, .last = 1});") == ["a / b"]
    assert body("if (const auto n = a - b; n > c) g();") == ["a + b", "n >= c"]
    assert body("else x = [&](int i) { return i == k; }(a || b);") == ["i != k", "a && b"]
    assert body("call(f, [](auto a, auto b) { return a < b; });") == ["a <= b"]
    assert body('log("a" + name);', "char part[n + 1];", "T<A<B>> c;", "auto&& d = *e;", "f<a>(b);") == []
    assert (
        body("constexpr int k = a + b;", "static_assert(a < b);", "sizeof(a + b);", "for (auto i : a + b) g();") == []
    )
    assert body("#define SUM a + b", "x(a + b);") == ["a - b"]


def dropped(line: str) -> list[str]:
    """The statements of a line that may be left out."""
    return [place.original for place in places(f"void f() {{ {line} }}\n") if place.kind == "drop"]


def test_calls_assignments_and_counts_are_dropped_and_declarations_are_not() -> None:
    for line in ("a.b()->c(1);", "std::sort(x);", "x[i] += 1;", "*out++ = 3;", "i--;", "p->q = {1, 2};", "g<T>(a);"):
        assert dropped(line) == [line], line
    for line in (
        "int x = 1;",
        "Type name(1);",
        "auto [a, b] = c;",
        "T* p = q;",
        "A<B> c = d;",
        "return f();",
        "throw g();",
    ):
        assert dropped(line) == [], line
    assert dropped("if (a) b(); else c = 1;") == ["b();", "c = 1;"]
    assert dropped("switch (a) { case B::c: d(); break; }") == ["d();"]


def test_mutations_are_the_same_for_a_seed_and_never_overlap() -> None:
    texts = {"a.cpp": CODE, "b.cpp": CODE.replace("best", "most")}
    order = in_random_order("room", texts, 3)
    assert order == in_random_order("room", dict(reversed(texts.items())), 3)
    assert order != in_random_order("room", texts, 4)
    assert sorted(order) != order
    taken = first_apart(order, 10)
    assert len(taken) == 10
    assert not any(a.overlaps(b) for a in taken for b in taken if a is not b)
    again = first_apart(order, 10, refused=taken[:1])
    assert taken[0] not in again
    assert len(again) == 10


MAIN = """
#include <cstdio>
int main() {
  int calls = 0;
  std::printf("%d", room::largest({7, 50, 39, 8}, calls));
  std::printf(" %d %d", room::largest({5}, calls), room::largest({7, 7}, calls));
  std::printf(" %d %d\\n", calls, room::always());
}
"""


# What the program prints with each of these: line, kind, mutated.
PRINTED = {
    (13, "drop", ""): "100 15 7 0 1\n",
    (15, "constant", "0 + 1"): "100 -2 7 3 1\n",
    (16, "condition", f"!({WHOLE})"): "16 -2 -2 3 1\n",
    (20, "drop", ""): "100 5 7 3 1\n",
    (26, "constant", "2 + 1"): "150 15 7 3 1\n",
    (29, "result", "false"): "100 15 7 3 0\n",
}


def test_a_program_changes_only_by_the_mutation_that_is_switched_on(tmp_path: Path) -> None:
    """All of them are in one program, which the compiler takes without a warning."""
    by_name = {(place.line, place.kind, place.mutated): place for place in places(CODE)}
    numbered = {number: by_name[name] for number, name in enumerate(PRINTED, 1)}
    (tmp_path / "mutants.h").write_text(mutations.HEADER)
    (tmp_path / "all.cpp").write_text(rewritten(CODE, "code.cpp", str(tmp_path / "mutants.h"), numbered) + MAIN)
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    words = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "all", tmp_path / "all.cpp"]
    subprocess.run([compiler, *words], check=True)

    def printed(number: int) -> str:
        environment = {mutations.VARIABLE: str(number)}
        return subprocess.run([tmp_path / "all"], env=environment, capture_output=True, text=True, check=True).stdout

    assert printed(0) == "100 15 7 3 1\n"
    assert [printed(number) for number in numbered] == [*PRINTED.values()]


def test_lines_keep_their_numbers_for_the_compiler() -> None:
    place = next(place for place in places(CODE) if place.kind == "drop" and place.line == 20)
    text = rewritten(CODE, "/tree/code.cpp", "/built/mutants.h", {7: place}).splitlines()
    assert text[:2] == ['#include "/built/mutants.h"', '#line 1 "/tree/code.cpp"']
    assert text[2:21] == CODE.splitlines()[:19]
    assert text[23:] == CODE.splitlines()[21:]
    assert "if (!::dimred::mutant(7)) { best = best +" in text[21]
    errors = "/tree/code.cpp:20:7: error: no\n/tree/other.cpp:3:1: error: no\n/tree/code.cpp:5:1: note: here\n"
    assert mutations.lines_of_errors(errors, "/tree/code.cpp") == {20}
    assert list(mutations.spans(CODE, place)) == [20, 21]


def test_sources_of_a_unity_build_have_its_command(tmp_path: Path) -> None:
    unit = tmp_path / "Unity" / "unity_0_cxx.cxx"
    unit.parent.mkdir()
    unit.write_text('#include "/tree/pca/fit.cpp"\n\n#include "/tree/pca/gram.cpp"\n')
    own = {"directory": "/build", "command": f"c++ -I/tree -o a.o -c {unit}", "file": str(unit)}
    test = {"directory": "/build", "command": "c++ -O1 -o b.o -c /tree/tests/a.cpp", "file": "/tree/tests/a.cpp"}
    expected = (["c++", "-I/tree"], Path("/build"))
    assert mutations.commands_by_file([own, test]) == {"/tree/pca/fit.cpp": expected, "/tree/pca/gram.cpp": expected}


def test_tests_are_told_to_stop_at_their_first_failure() -> None:
    settings = [{"name": "ENVIRONMENT", "value": ["A=1=2", "B="]}, {"name": "WORKING_DIRECTORY", "value": "/b"}]
    listing = {
        "tests": [
            {"name": "pca", "command": ["/b/bin/pca_test", "--gtest_brief=1"], "properties": settings},
            {"name": "python.test_x", "command": ["python", "-m", "pytest", "test_x.py"]},
            {"name": "of_no_room"},
        ]
    }
    found = mutations.tests_of(listing)
    assert [*found] == ["pca", "python.test_x"]
    assert found["pca"].command == ("/b/bin/pca_test", "--gtest_brief=1", "--gtest_fail_fast")
    assert dict(found["pca"].environment) == {"A": "1=2", "B": ""}
    assert found["pca"].folder == "/b"
    assert found["python.test_x"].command[-1] == "-x"
    with pytest.raises(mutations.Refused, match="the program of pca is missing"):
        mutations.tests_of({"tests": [{"name": "pca"}]})


def test_the_failed_case_is_named() -> None:
    assert mutations.failure_in("[  FAILED  ] Gram.IsExact (3 ms)\n[  FAILED  ] 1 test\n", 1) == "Gram.IsExact"
    assert mutations.failure_in("E   x\nFAILED tests/python/test_x.py::test_y[a b] - x\n", 1) == "test_x.py::test_y"
    assert mutations.failure_in("", -11) == "ended by signal 11"
    assert mutations.failure_in("", 134) == "exit code 134"


def test_a_record_goes_on_with_the_same_choice_alone(tmp_path: Path) -> None:
    file, key = tmp_path / "mutations.json", {"revision": "a", "seed": 1, "each": 10}
    record = mutations.Record(file, key)
    first, second = {"number": 1, "file": "a.cpp"}, {"number": 2, "file": "b.cpp"}
    record.take({"bin/dimred": [5, 6]}, [first | {"caught": "pca: Fit.Is"}, second])
    again = mutations.Record(file, key)
    assert not again.is_complete()
    again.take({"bin/dimred": [5, 7]}, [first, second])
    assert again.mutations == [first | {"caught": "pca: Fit.Is"}, second]
    again.mutations[1]["caught"] = ""
    assert again.is_complete()
    with pytest.raises(mutations.Refused, match="choose another --json or remove it"):
        mutations.Record(file, key | {"seed": 2})


def test_a_file_is_read_with_its_brackets() -> None:
    source = Source('f(u8"(", \'[\', R"x(}")x", 1\'000); // {\n/* ( */ g[{}];')
    assert [token.text for token in source.tokens][:8] == ["f", "(", 'u8"("', ",", "'['", ",", 'R"x(}")x"', ","]
    assert all(source.partner[source.partner[i]] == i for i in source.partner)
    assert len(source.partner) == 6
