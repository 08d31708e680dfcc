# shellcheck shell=bash
# Sourced. `needs_build NAME [--tests] FILE...` ends the script NAME with one line if a program that scripts/setup.sh, or
# scripts/setup.sh --tests, builds or installs is missing.
needs_build() {
  local file name=$1 with=''
  shift
  [ "$1" != --tests ] || {
    with=' --tests'
    shift
  }
  for file in "$@"; do
    command -v "$file" >/dev/null || {
      echo "$name: needs $file; run scripts/setup.sh$with, then the same command again" >&2
      exit 2
    }
  done
}
