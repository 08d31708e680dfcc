#!/usr/bin/env bash
# Format, names that meet in a unity build, complexity, and clang-tidy; needs a build of scripts/setup.sh --tests.
#   scripts/lint.sh --check        the gate: clang-tidy over what changed since the commit in .ci/linted, the rest
#                                  over all files; at most 40 minutes
#   scripts/lint.sh [FILE...]      default: every file; about 9 minutes on 2 cores
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --lint

mapfile -t all < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.h' '*.inc' '*.cu' '*.cuh')
files=("${all[@]}") changed=("${all[@]}") minutes=()

# What clang-tidy must see again: all of it where a check, or the commit, is new to this clone.
find_changed() {
  local linted
  linted=$(cat .ci/linted)
  if ! git cat-file -e "$linted^{commit}" 2>/dev/null && ! GIT_TERMINAL_PROMPT=0 timeout 60 git fetch -q --depth=1 origin "$linted" 2>/dev/null; then
    echo "lint: this clone has no commit $linted of .ci/linted, nor has its origin: clang-tidy sees every file"
  elif ! git diff --quiet "$linted" -- .clang-tidy tests/.clang-tidy requirements/lint.txt scripts/lint_tidy.py; then
    echo "lint: the checks changed since $linted: clang-tidy sees every file"
  else
    mapfile -t changed < <(comm -12 <(printf '%s\n' "${all[@]}" | sort) \
      <({ git diff --name-only "$linted"; git ls-files --others --exclude-standard; } | sort))
  fi
}

case "${1:-}" in
  --check) find_changed; minutes=(40) ;;
  '') ;;
  *) files=("$@") changed=("$@") ;;
esac

status=0
.venv/bin/clang-format --dry-run -Werror "${files[@]}" || status=1
python3 scripts/lint_names.py "${all[@]}" || status=1
.venv/bin/lizard -l cpp --CCN 15 --length 60 --warnings_only "${files[@]}" || status=1
printf '%s\n' "${changed[@]}" | python3 scripts/lint_tidy.py "${minutes[@]}" || status=1
exit $status
