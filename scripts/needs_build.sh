# shellcheck shell=bash
# Sourced. `needs_build NAME FILE...` ends the script NAME with one line if a program that scripts/setup.sh builds is missing.
needs_build() {
  local file name=$1
  shift
  for file in "$@"; do
    command -v "$file" >/dev/null || {
      echo "$name: needs $file; run scripts/setup.sh, then the same command again" >&2
      exit 2
    }
  done
}
