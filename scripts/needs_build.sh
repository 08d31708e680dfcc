# shellcheck shell=bash
# Sourced. needs_build NAME FILE... ends the script NAME with one line where a program that scripts/setup.sh makes is not there.
needs_build() {
  local file name=$1
  shift
  for file in "$@"; do
    command -v "$file" >/dev/null || {
      echo "$name: needs $file: run scripts/setup.sh, then this again" >&2
      exit 2
    }
  done
}
