#!/usr/bin/env bash
# Checks the format, names that collide in a unity build, includes, circular dependencies, options outside their table, complexity, shell
# scripts, Python, clang-tidy's rules and races between threads. The script needs a build of scripts/setup.sh --tests.
#   scripts/lint.sh --check        checks every file; takes about 25 minutes on 2 cores
#   scripts/lint.sh FILE...        checks these C++ files only, and compiles each one by itself
set -euo pipefail
cd "$(dirname "$0")/.."
if ! ls build/bin/*_test >/dev/null 2>&1; then
  echo "lint: needs a build of the tests; run scripts/setup.sh --tests, then scripts/lint.sh again" >&2
  exit 2
fi
DIMRED_WERROR=ON scripts/setup.sh --lint

mapfile -t all < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.h' '*.inc' '*.cu' '*.cuh')
mapfile -t shell < <(git ls-files --cached --others --exclude-standard -- '*.sh' '*.sbatch' .ci/run scripts/bundle/run)
files=("$@")
[ "${1:---check}" != --check ] || files=("${all[@]}")

# mypy checks names, attributes and signatures of tests: a wrong value fails when the test runs, and some are wrong on purpose. Each folder has a conftest.
check_tests() {
  local untold=(arg-type assignment call-overload comparison-overlap dict-item func-returns-value has-type index list-item method-assign misc
    operator union-attr var-annotated)
  MYPYPATH=$1 .venv/bin/mypy --no-error-summary --cache-dir .mypy_cache/tests --allow-untyped-defs --allow-incomplete-defs --allow-any-generics \
    --no-warn-unused-ignores "${untold[@]/#/--disable-error-code=}" "$1"
}

# Without address randomisation, which the sanitizer's own memory map may not survive, and without tests that limit memory.
find_races() {
  TSAN_OPTIONS="suppressions=$PWD/tests/threads.supp" setarch -R build-threads/bin/threads_test --gtest_brief=1 --gtest_filter='-*CannotStart*'
}

status=0
.venv/bin/clang-format --dry-run -Werror "${files[@]}" || status=1
python3 scripts/lint_names.py "${all[@]}" || status=1
git ls-files --cached --others --exclude-standard -- '*.py' '*.md' | xargs python3 scripts/lint_source.py "${all[@]}" "${shell[@]}" || status=1
python3 scripts/lint_includes.py "${files[@]}" || status=1
python3 scripts/lint_cycles.py "${all[@]}" || status=1
git ls-files --cached --others --exclude-standard -- '*.py' | xargs python3 scripts/lint_options.py "${all[@]}" || status=1
.venv/bin/lizard -l cpp --CCN 15 --length 60 --warnings_only "${files[@]}" || status=1
.venv/bin/shellcheck -x -e SC2016 "${shell[@]}" || status=1  # SC2016: scripts hold text of other languages
.venv/bin/ruff format -q --check . || status=1
.venv/bin/ruff check -q . || status=1
.venv/bin/mypy --no-error-summary --exclude '^tests/(python|device)/' . || status=1
check_tests tests/python || status=1
check_tests tests/device || status=1
# All of them take 13 minutes more: a unity build and its precompiled header hide what a file does not include itself.
[ "${1:---check}" = --check ] || printf '%s\n' "${files[@]}" | python3 scripts/lint_alone.py || status=1
printf '%s\n' "${files[@]}" | python3 scripts/lint_tidy.py || status=1
find_races || status=1
exit $status
