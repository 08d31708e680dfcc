"""The gate reports the names that a unity build lets meet and the includes that work by chance, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli import completed
from conftest import REPOSITORY

HEADER = "namespace dimred { int count(); struct Row {}; }\n"


def private(body: str, room: str = "pca", include: str = "") -> str:
    return f"{include}\nnamespace dimred::{room} {{\nnamespace {{\n{body}\n}}\n}}\n"


def names_reported(folder: Path, script: str = "lint_names.py", **texts: str) -> list[str]:
    files = [name.replace("__", "/").replace("_dot_", ".") for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    done = completed([sys.executable, REPOSITORY / "scripts" / script, *files], cwd=folder)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "body", ["int size_of(int x) { return x; }", "constexpr int size_of = 3;", "struct size_of {};"]
)
def test_a_private_name_of_two_files_of_a_room_is_reported(tmp_path: Path, body: str) -> None:
    found = names_reported(
        tmp_path, pca__a_dot_cpp=private("int size_of(float x) { return 1; }"), pca__b_dot_cpp=private(body)
    )
    assert found == ["pca/b.cpp:4: size_of is a name of pca/a.cpp:4, too"]


def test_references_in_structs_and_bare_threads_are_reported(tmp_path: Path) -> None:
    text = """struct Plan {
  const std::vector<int>& sizes;
  std::function<void(const Plan&)> work;  // not a volatile one, nor a std::thread
  std::thread::id owner;
  std::thread thread;
};
class Walk {
  const Plan& plan_;
};
volatile int stopped = 0;
extern "C" void forget(const volatile void* start);
// Made anew, in somewhat of a hurry.
/// As with a hurry.
"""
    (tmp_path / "a.h").write_text(text)
    (tmp_path / "b.md").write_text("It volatile; so many\ntimes. Of these, none.\n")
    done = completed([sys.executable, REPOSITORY / "scripts" / "lint_source.py", "a.h", "b.md"], cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        ["a.h:2", "Plan::sizes is a reference in a struct"],
        ["a.h:5", "std::thread"],
        ["a.h:10", "volatile"],
        ["a.h:12", "'anew'"],
        ["a.h:13", "'/// As with'"],
        ["b.md:1", "'so many'"],
    ]


WORDS = """
/// Of the same kind. The same, again.
/// Where it lies, nobody knows.
///
/// Returns what is right, of a kind. (The part of which the first is meant.)
int size_of();
int last = 0;  ///< Whether it is so
void add(OptionTable& table) {
  OptionTable own("dimred own", "of a command");
  table.add("a", &a, "and of these not those " "that these match", at_least(0))
      .needs(has("b"));
  table.add_choice<Kind>("b", &b, "one two three four five six seven eight nine ten eleven twelve thirteen "
      "fourteen fifteen sixteen seventeen eighteen nineteen twenty 21 22 23 24 25 (default: many, many words)", kinds);
  table.add("c", &c, "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
      "sixteen seventeen eighteen nineteen twenty 21 22 23 24 25 26");
  require(c > 0, "[own] there are {} files that nobody reads", c);
  refuse("[own] a file that holds the text that is meant, {}", name(a, "that or that"));
  require_environment(c > 0, "[own::files] cannot read " "{}", c);
}
"""


def test_sentences_that_are_read_twice_are_reported_with_their_rule(tmp_path: Path) -> None:
    page = "# Title\n\nA row that says that. No fault\nthat, that is.\n\n```\nthose that\n```\n\n- 1\n- those\n  that\n"
    tool = 'parser.add_argument("--size", help="of the images")\nparser.add_argument("--side", help="side of them")\n'
    found = names_reported(tmp_path, script="lint_source.py", a_dot_cpp=WORDS, b_dot_md=page, c_dot_py=tool)
    assert found == [
        "a.cpp:2: '/// Of': say it in a plain clause",
        "a.cpp:2: 'Of the same kind.': a sentence begins with its subject or verb, not 'Of'",
        "a.cpp:2: 'The same, again.': a sentence begins with its subject or verb, not 'The same'",
        "a.cpp:2: 'Where it lies, nobody knows.': a sentence begins with its subject or verb, not 'Where'",
        "a.cpp:5: '(The part of which the first is meant.)': \"of which\" makes a reader go back",
        "a.cpp:9: 'of a command': a help begins with a verb or its subject, not 'of'",
        "a.cpp:10: 'and of these not those that these match': \"those that\" makes a reader go back",
        "a.cpp:10: 'and of these not those that these match': a help begins with a verb or its subject, not 'and'",
        "a.cpp:14: 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty 21 22 23 24 25 26': a help has at most 25 words, not 26",
        "a.cpp:16: '[own] there are {} files that nobody reads': \"there is ... that\" makes a reader go back",
        "a.cpp:17: '[own] a file that holds the text that is meant, {}': \"that ... that\" makes a reader go back",
        "a.cpp:18: '[own::files] cannot read {}': a reader knows no 'own::files': "
        "the scope of a message is a command, an option or a file",
        "b.md:3: 'A row that says that.': \"that ... that\" makes a reader go back",
        "b.md:11: '- those that': \"those that\" makes a reader go back",
        "c.py:1: 'of the images': a help begins with a verb or its subject, not 'of'",
    ]


def test_the_helps_of_tests_are_nobodys_to_read(tmp_path: Path) -> None:
    row = 'void add(OptionTable& table) { table.add("a", &a, "of it"); }\n'
    assert names_reported(tmp_path, script="lint_source.py", tests__a_dot_cpp=row) == []
    assert len(names_reported(tmp_path, script="lint_source.py", lib__a_dot_cpp=row)) == 1


def test_a_static_function_is_private(tmp_path: Path) -> None:
    text = "namespace dimred {\nstatic int size_of() { return 1; }\n}\n"
    found = names_reported(tmp_path, pca__a_dot_cpp=text, pca__hooks__b_dot_cpp=text)
    assert found == ["pca/hooks/b.cpp:2: size_of is a name of pca/a.cpp:2, too"]


def test_a_private_name_that_a_visible_header_has_is_reported(tmp_path: Path) -> None:
    found = names_reported(
        tmp_path,
        support__x_dot_h=HEADER,
        pca__y_dot_h='#include "support/x.h"\n',
        pca__a_dot_cpp=private("int count(int) { return 1; }"),
        pca__b_dot_cpp=private("int other;", include='#include "pca/y.h"'),
    )
    assert found == ["pca/a.cpp:4: count hides or overloads dimred::count of support/x.h:1"]


def test_a_type_with_two_homes_is_reported(tmp_path: Path) -> None:
    """Not one that only a test has too, one that is only declared, a nested one, or the options of a stage."""
    found = names_reported(
        tmp_path,
        pca__a_dot_h="namespace dimred::pca {\nstruct Line { int a; };\nstruct Options {};\n}\n",
        method__b_dot_h="namespace dimred::method {\nclass Line {};\nstruct Options {};\nstruct Own;\n}\n",
        stage1__c_dot_h="namespace dimred::stage1 {\nstruct Own { struct Line {}; };\n}\n",
        tests__pca__d_dot_cpp="namespace dimred {\nstruct Line {};\n}\n",
    )
    assert found == ["pca/a.h:2: Line is a type of method/b.h:2, too"]


def test_names_that_cannot_meet_are_not_reported(tmp_path: Path) -> None:
    assert (
        names_reported(
            tmp_path,
            support__x_dot_h=HEADER,
            pca__a_dot_cpp=private("int size_of(int) { return 1; }\nint size_of(float) { return 1; }\nint count;"),
            data__b_dot_cpp=private("int size_of(int) { return 1; }", room="data"),
            tests__pca__c_dot_cpp=private(
                "int size_of(int) { return 1; }\nTEST(A, B) {}\nTEST(A, C) {}\nstruct S { Row count; };"
            ),
            pca__d_dot_cpp="namespace dimred::pca {\nint made() { int size_of = 1; return size_of; }\n}\n",
        )
        == []
    )


def test_includes_that_work_by_chance_are_reported(tmp_path: Path) -> None:
    found = names_reported(
        tmp_path,
        script="lint_includes.py",
        pca__a_dot_h="#include <vector>\n#include <map>\ninline int low(int a) { return std::min(a, 1); }\n",
        pca__a_dot_cpp='#include "pca/a.h"\nstd::map<int, int> of_the_own_header;\nstd::set<int> set;\n',
        pca__c_dot_cpp="#include <ATen/detail/a.h>\n#include <detail.h>\n#include <toml++/impl/parser.h>\n",
        pca__b_dot_cpp="""namespace dimred {
// std::sort( of a comment
const char* text = R"({{ std::ostringstream)";
#include "pca/list.inc"
#include "pca/a.h"
}
#include "pca/a.h"
""",
    )
    assert found == [
        "pca/a.h:3: std::min needs #include <algorithm>",
        "pca/a.cpp:3: std::set needs #include <set>",
        "pca/c.cpp:3: #include <toml++/impl/parser.h> is a private header of its library",
        'pca/b.cpp:5: #include "pca/a.h" stands inside braces, not at file scope',
    ]


def ring_of(room: str, size: int) -> dict[str, str]:
    """Headers, each with an include of the next, the last with one of the first."""
    return {
        f"{room}__u{i}_dot_h": f'#include "{room.removeprefix("lib__")}/u{(i + 1) % size}.h"\n' for i in range(size)
    }


def test_a_circle_of_more_than_three_units_is_reported(tmp_path: Path) -> None:
    assert names_reported(tmp_path, script="lint_cycles.py", **ring_of("pca", 4)) == [
        "pca/u0: a circle of 4 units, of at most 3: pca/u0 pca/u1 pca/u2 pca/u3"
    ]
    assert names_reported(tmp_path, script="lint_cycles.py", **ring_of("merge", 3)) == []


def test_a_source_stands_for_its_header_in_a_circle(tmp_path: Path) -> None:
    """Only where the source of a unit includes the others does its circle close."""
    ring = ring_of("pca", 4)
    ring["pca__u3_dot_cpp"] = ring.pop("pca__u3_dot_h")
    ring["pca__u3_dot_h"] = "int last();\n"
    assert len(names_reported(tmp_path, script="lint_cycles.py", **ring)) == 1
    ring["pca__u3_dot_cpp"] = '#include "pca/u3.h"\n#include <u0.h>\n'
    assert names_reported(tmp_path, script="lint_cycles.py", **ring) == []


@pytest.mark.parametrize("room", ["support", "options", "engine", "run"])
def test_any_circle_in_the_lowest_rooms_is_reported(tmp_path: Path, room: str) -> None:
    found = names_reported(tmp_path, script="lint_cycles.py", **ring_of(f"lib__{room}", 2))
    assert found == [f"lib/{room}/u0: a circle of 2 units, where none may be: lib/{room}/u0 lib/{room}/u1"]
