#!/usr/bin/env bash
# Installs everything on a fresh machine with Debian 12 or Ubuntu 24.04 or later: apt packages, Python packages in .venv, and the programs.
# Parts that are installed already stay as they are. Without root the script prints the command that needs root.
#   scripts/setup.sh [--no-build | --tests | --benchmarks | --lint]
#   --tests, --benchmarks      builds the tests or benchmarks, too, and installs the Python packages for them and for notebooks
#   --lint                     installs the tools of scripts/lint.sh, and builds the tests of threads
#   DIMRED_CUDA_TOOLKIT=pypi   takes the CUDA toolkit from PyPI although the system has one
#   DIMRED_JOBS=N              number of parallel compile jobs (default: one for each core)
#   DIMRED_WERROR=ON           ends the build at a warning, as in .ci/run; other compilers may have other warnings
set -euo pipefail
shopt -s inherit_errexit # also in $(...)
cd "$(dirname "$0")/.."
case "$#${1:-}" in
  0 | 1--no-build | 1--tests | 1--benchmarks | 1--lint) ;;
  *) echo "setup: needs at most one of --no-build, --tests, --benchmarks and --lint, received $*" >&2; exit 2 ;;
esac

# The one place where system packages are named.
packages=(g++ cmake ninja-build git pkg-config python3 python3-venv python3-dev
  libhdf5-dev libssl-dev libopenblas-pthread-dev liblapacke-dev libeigen3-dev nlohmann-json3-dev
  libtomlplusplus-dev libxxhash-dev libcurl4-openssl-dev libgloo-dev zlib1g-dev libjpeg-dev libpng-dev libutf8proc-dev libgtest-dev libgmock-dev gfortran
  universal-ctags dataset-fashion-mnist)
# The least versions: CMakeLists.txt asks for one, lib/stores/ uses CURLOPT_PROTOCOLS_STR of the other.
least_cmake=3.25 least_libcurl=7.85
# Shows the report to two tests, which are skipped without it; not every distribution has it.
optional_packages=(chromium)

build_options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DDIMRED_WERROR="${DIMRED_WERROR:-OFF}")

say() { printf '\n== %s\n' "$*"; }

# No `| grep -q` here: it ends at the match, and with pipefail a writer that is not done yet counts as failed.
is_offered() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) =~ 'Candidate: '[^\(] ]]; }
is_installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) = *'ok installed'* ]]; }

is_at_least() { printf '%s\n' "$2" "$1" | sort -CV; }

# Before the gigabytes that follow.
require_versions() {
  local cmake libcurl
  cmake=$(cmake --version | sed -n 's/^cmake version //p')
  libcurl=$(pkg-config --modversion libcurl)
  if ! is_at_least "$cmake" "$least_cmake" || ! is_at_least "$libcurl" "$least_libcurl"; then
    echo "setup: needs CMake >= $least_cmake and libcurl >= $least_libcurl, received CMake $cmake and libcurl $libcurl; Debian 12 and Ubuntu 24.04 have both" >&2
    exit 1
  fi
}

require_offered() {
  local package
  for package in "$@"; do
    is_offered "$package" && continue
    echo "setup: apt finds no package $package: apt-get update failed (see above), or this distribution does not offer it; Debian 12 and Ubuntu 24.04 or later do" >&2
    exit 1
  done
}

install_packages() {
  local missing=() optional=()
  for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
  for package in "${optional_packages[@]}"; do
    is_installed "$package" || { [ ${#missing[@]} -eq 0 ] && ! is_offered "$package"; } || optional+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
    say "system packages: installed already"
    return
  fi
  local run=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      [ ${#missing[@]} -gt 0 ] || return 0
      echo "setup: these packages are missing, and their installation needs root; run as root:" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    run=(sudo)
  fi
  local install=("${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
  say "system packages: installing ${missing[*]} ${optional[*]}"
  "${run[@]}" apt-get update -q || [ ${#missing[@]} -eq 0 ] # an optional package ends no setup
  require_offered "${missing[@]}"
  [ ${#missing[@]} -eq 0 ] || "${install[@]}" "${missing[@]}"
  for package in "${optional[@]}"; do
    "${install[@]}" "$package" || say "the package $package cannot be installed; tests that need $package will be skipped"
  done
}

make_environment() {
  if [ ! -x .venv/bin/python ]; then
    python3 -m venv .venv
    rm -f .venv/.requirements-* # of a Python that is gone
  fi
  .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: needs Python >= 3.11, received $(.venv/bin/python --version) in .venv; remove .venv, and put a later python3 first in PATH" >&2
    exit 1
  }
  # One that was interrupted, or was made without pip.
  .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
}

# install_python FILE WHAT: the packages of a requirements file.
install_python() {
  local stamp
  make_environment
  stamp=.venv/.requirements-$(basename "$1" .txt)
  if [ -e "$stamp" ] && cmp -s "$1" "$stamp"; then
    say "$2: installed already"
    return
  fi
  say "$2: installing"
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile -r "$1"
  cp "$1" "$stamp"
}

# What .venv imports as dimred: the package as built, or of its sources what needs no build (dimred.runs).
link_package() {
  local site
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$PWD/build/python" "$PWD/python" >"$site/dimred.pth"
}

install_test_python() { install_python requirements/test.txt "Python packages of tests, benchmarks and notebooks"; }

# find_package(Torch) of a CUDA wheel needs a toolkit, also where no GPU is. Prints its root.
cuda_toolkit() {
  if [ "${DIMRED_CUDA_TOOLKIT:-}" != pypi ]; then
    local nvcc
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
    if [ -n "$nvcc" ] && [[ $("$nvcc" --version) = *'release 13.0'* ]]; then
      dirname "$(dirname "$(readlink -f "$nvcc")")"
      return
    fi
  fi
  local root
  install_python requirements/cuda.txt "CUDA toolkit from PyPI" >&2
  root=$(echo "$PWD"/.venv/lib/python3*/site-packages/nvidia/cu13)
  local library
  for library in cudart:13 nvrtc:13 cublas:13 cufft:12 curand:10 cusolver:12 cusparse:12; do
    ln -sf "lib${library%%:*}.so.${library##*:}" "$root/lib/lib${library%%:*}.so"
  done
  ln -sfn lib "$root/lib64"
  echo "$root"
}

# What needs no torch is compiled while torch is downloaded; errors are left to the build that follows.
build_ahead() {
  [ ! -e .venv/.requirements-base ] || return 0
  { cmake -S . -B build "${build_options[@]}" -DDIMRED_TRAINERS=OFF && exec ninja -C build -j "${DIMRED_JOBS:-$(nproc)}" programs; } >/dev/null 2>&1 &
  trap 'kill $! 2>/dev/null || true' EXIT
}

# build FOLDER TARGET [option of cmake...]
build() {
  local root
  root=$(cuda_toolkit)
  wait
  trap - EXIT
  say "build (CUDA toolkit: $root)"
  export CUDA_PATH=$root PATH="$root/bin:$PATH"
  cmake -S . -B "$1" "${build_options[@]}" -DDIMRED_TRAINERS=ON \
    -DCUDAToolkit_ROOT="$root" -DCUDA_TOOLKIT_ROOT_DIR="$root" -DCMAKE_CUDA_COMPILER="$root/bin/nvcc" "${@:3}" \
    >build-configure.log 2>&1 || { cat build-configure.log >&2; exit 1; }
  mv build-configure.log "$1/configure.log"
  ninja -C "$1" -j "${DIMRED_JOBS:-$(nproc)}" "$2"
}

install_packages
require_versions
case "${1:-}" in '' | --tests | --benchmarks) build_ahead ;; esac
install_python requirements/base.txt "Python packages (torch and its libraries: about 3 GB)"
link_package
case "${1:-}" in
  --no-build) ;;
  --lint)
    install_python requirements/lint.txt "formatters and linters"
    build build-threads threads_test -DBUILD_TESTING=ON -DCMAKE_CXX_FLAGS=-fsanitize=thread -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1"
    ;;
  --tests) install_test_python; build build all -DBUILD_TESTING=ON ;;
  --benchmarks) install_test_python; build build all -DDIMRED_BENCHMARKS=ON ;;
  '') build build programs ;;
esac
