# shellcheck shell=bash
# Sourced by run_stage_1.sh and run_stage_2.sh. `start COMMAND [OPTION...]` runs `dimred COMMAND` on this machine with the number of ranks
# that --ranks gives. By default it starts one rank for each CUDA device, or one rank without a device.

# How many devices CUDA would see: of CUDA_VISIBLE_DEVICES those before the first that is not there.
cuda_devices() {
  local listed all name count=0
  listed=$(nvidia-smi -L 2>/dev/null) || true
  all=$(grep -c '^GPU' <<<"$listed") || true
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    while read -r name; do
      if [[ $name =~ ^[0-9]+$ ]]; then [ "$name" -lt "$all" ] || break; else [[ -n $name && $listed = *"UUID: $name"* ]] || break; fi
      count=$((count + 1))
    done < <(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES")
    all=$count
  fi
  echo "$all"
}

# Whether torchrun, mpirun or srun has started this process as one of several.
is_rank() { [ "${WORLD_SIZE:-${OMPI_COMM_WORLD_SIZE:-${SLURM_STEP_NUM_TASKS:-1}}}" != 1 ]; }

start() {
  local root ranks='' device='' devices arguments=()
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  while [ $# -gt 0 ]; do
    case $1 in
      --ranks) ranks=${2:-none}; shift ;;
      --ranks=*) ranks=${1#*=}; ranks=${ranks:-none} ;;
      --device=*) device=${1#*=}; arguments+=("$1") ;;
      --device) device=${2:-}; arguments+=("$1") ;;
      --config | --config=* | --help | --help=*) device=${device:-said elsewhere}; arguments+=("$1") ;;
      *) arguments+=("$1") ;;
    esac
    [ $# -eq 0 ] || shift
  done
  if [ -n "$ranks" ] && { [[ ! $ranks =~ ^[1-9][0-9]{0,3}$ ]] || is_rank; }; then
    echo "scripts/run_${arguments[0]/stage/stage_}.sh: error: --ranks needs a number in [1, 9999], and no launcher around it, received $ranks" >&2
    exit 2
  fi
  if ! is_rank && [[ ${device:-auto} =~ ^(auto|cuda)$ ]]; then
    devices=$(cuda_devices)
    ranks=${ranks:-$devices}
    [ "$ranks" = 0 ] || [ "$ranks" -gt "$devices" ] || [ -n "$device" ] || arguments+=(--device cuda)
  fi
  # shellcheck source=scripts/needs_build.sh
  . "$root/scripts/needs_build.sh"
  needs_build "run_${arguments[0]/stage/stage_}" "$root/build/bin/dimred"
  if [ "${ranks:-1}" -le 1 ]; then exec "$root/build/bin/dimred" "${arguments[@]}"; fi
  exec "$root/.venv/bin/python" "$root/scripts/local_ranks.py" "$ranks" "$root/build/bin/dimred" "${arguments[@]}"
}
