#!/usr/bin/env bash
# Tests the commands of README on a fresh machine: makes a bare system of a suite with debootstrap, clones the last commit into it, runs
# scripts/demo.sh and scripts/test.sh there, and prints a table. The script needs root, 20 GB for the bare system, and the time of both
# commands. The logs stay in runs/fresh_machine.
#   scripts/fresh_machine.sh SUITE [--only demo|test] [--werror] [--keep]    SUITE: bookworm, trixie, noble, ...
#   --only           runs one of the two commands
#   --werror         ends the build at a warning of the suite's compiler
#   --keep           keeps the bare system
#   DIMRED_FRESH     a new folder for the bare system (default: one in /var/tmp)
#   DIMRED_MIRROR    "URL COMPONENT..." for a suite of another distribution than this machine's
# The bare system uses this machine's mirror, components, proxies, certificates and settings of pip.
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() { echo "fresh_machine: $1" >&2; exit "${2:-2}"; }

suite='' commands=(demo test) werror=OFF keep=''
while [ $# -gt 0 ]; do
  case $1 in
    --only) commands=("${2:-}"); shift $(($# > 1)) ;;
    --werror) werror=ON ;;
    --keep) keep=1 ;;
    -*) refuse "unknown option $1 (--only, --werror, --keep)" ;;
    *) [ -z "$suite" ] || refuse "needs one suite, received $suite and $1"; suite=$1 ;;
  esac
  shift
done
[ -n "$suite" ] || refuse "needs a suite, as in scripts/fresh_machine.sh trixie"
case ${commands[0]} in demo | test) ;; *) refuse "--only needs demo or test, received ${commands[0]:-nothing}" ;; esac
[ "$(id -u)" = 0 ] || refuse "needs root for mounts and chroot; start the script with sudo" 1
command -v debootstrap >/dev/null || refuse "needs debootstrap; apt-get install debootstrap" 1
[ -e "/usr/share/debootstrap/scripts/$suite" ] || refuse "debootstrap has no suite $suite; ls /usr/share/debootstrap/scripts shows all suites"

logs=$PWD/runs/fresh_machine
mkdir -p "$logs"
[ ! -e "${DIMRED_FRESH:-}" ] || refuse "DIMRED_FRESH needs a folder that does not exist yet, received $DIMRED_FRESH"
root=$(realpath -m "${DIMRED_FRESH:-$(mktemp -d /var/tmp/dimred_fresh.XXXXXX)}")
mkdir -p "$root"
chmod 755 "$root"  # tests give up root's rights, and still find what is below

# What runs inside is in namespaces of its own, whose processes and mounts end with the first of them: none is left to remove through.
running=''
# shellcheck disable=SC2317,SC2329  # the trap calls it
clean() {
  [ -z "$running" ] || { kill -9 "$running" && wait "$running"; } 2>/dev/null || true
  [ -n "$keep" ] || rm -rf --one-file-system "$root"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Lines of this machine's sources, of its own release's repositories.
targets() { apt-get indextargets --format "deb \$(SITE) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' | sort -u; }

sources() {
  local codename url components
  if [ -n "${DIMRED_MIRROR:-}" ]; then
    read -r url components <<<"$DIMRED_MIRROR"
    echo "deb $url $suite ${components:-main}"
    return
  fi
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  targets | sed -n "s,^\(deb [^ ]*\) $codename\(-updates\|-security\|\) ,\1 $suite\2 ,p"
}

# settings FOLDER: this machine's, for apt, pip and certificates.
settings() {
  local file
  sources >"$1/etc/apt/sources.list"
  echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/fresh_machine"  # nothing here must survive a loss of power
  for file in /etc/apt/apt.conf.d/*; do
    ! grep -qsi '^Acquire::' "$file" || cp "$file" "$1/etc/apt/apt.conf.d"
  done
  for file in /etc/apt/apt.conf /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/hosts /etc/resolv.conf /etc/pip.conf /usr/local/share/ca-certificates \
    ~/.pip ~/.config/pip; do
    [ -e "$file" ] || continue
    mkdir -p "$1$(dirname "$file")"
    rm -rf "${1:?}$file"
    cp -rL "$file" "$1$file"
  done
}

# inside COMMAND...: becomes it, in the bare system, with processes and mounts of its own, and of this environment what reaches the network.
inside() {
  local kept
  mapfile -t kept < <(env | grep -iE '^(PIP_[A-Z_]+|(http|https|ftp|all|no)_proxy|DIMRED_JOBS)=' || true)
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${kept[@]}" DIMRED_WERROR="$werror" \
    unshare --mount --pid --fork --kill-child sh -ec '
      root=$1; shift
      mount -t proc proc "$root/proc"
      mount --rbind /dev "$root/dev"
      mount --rbind /sys "$root/sys"
      exec chroot "$root" "$@"' sh "$root" "$@" </dev/null
}

version() { inside dpkg-query -W -f='${Version}' "$1" 2>/dev/null | sed 's/^[0-9]*://; s/[-+].*//' || true; }

row() { printf '%-10s %-8s %-8s %-8s %-8s %-16s %8s  %s\n' "$@"; }

mapfile -t lines < <(sources)
[ ${#lines[@]} -gt 0 ] || refuse "finds no mirror in this machine's sources for $suite; set DIMRED_MIRROR='URL COMPONENT...'" 1
mirror=$(cut -d ' ' -f 2 <<<"${lines[0]}")
echo "== $suite: a bare system in $root"
debootstrap --force-check-gpg --variant=minbase --include=ca-certificates,git "$suite" "$root" "$mirror" >"$logs/$suite-debootstrap.log" 2>&1 \
  || refuse "debootstrap of $suite failed; the last line of $logs/$suite-debootstrap.log: $(tail -1 "$logs/$suite-debootstrap.log")" 1
settings "$root"
(inside update-ca-certificates) >>"$logs/$suite-debootstrap.log" 2>&1
git clone -q --no-hardlinks "$PWD" "$root/root/dimred"

rows=() status=0
for command in "${commands[@]}"; do
  log=$logs/$suite-$command.log
  echo "== $suite: scripts/$command.sh (log: $log)"
  begin=$SECONDS code=0
  inside sh -c "cd /root/dimred && exec scripts/$command.sh" >"$log" 2>&1 &
  running=$!
  wait "$running" || code=$?
  running=''
  outcome=passed
  [ $code = 0 ] || { outcome="failed ($code): $(grep -E 'error|FAILED|tests failed' "$log" | tail -1 | cut -c 1-100)"; status=1; }
  rows+=("scripts/$command.sh" $((SECONDS - begin)) "$outcome")
done

echo
row suite gcc cmake toml++ python command seconds outcome
for ((i = 0; i < ${#rows[@]}; i += 3)); do
  row "$suite" "$(inside gcc -dumpfullversion || true)" "$(version cmake)" "$(version libtomlplusplus-dev)" "$(version python3)" "${rows[@]:i:3}"
done
exit $status
