# shellcheck shell=bash
# Sourced by run_stage_1.sh and run_stage_2.sh: start COMMAND [OPTION...] runs `dimred COMMAND` on as many ranks of this machine as
# --ranks says; by default on one for each CUDA device, else on one.

cuda_devices() {
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c . || true
  else
    { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true
  fi
}

# Whether torchrun, mpirun or srun has started this process as one of several.
is_rank() { [ "${WORLD_SIZE:-${OMPI_COMM_WORLD_SIZE:-${SLURM_STEP_NUM_TASKS:-1}}}" != 1 ]; }

start() {
  local root ranks='' device='' arguments=()
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
  if [ -z "$ranks" ] && ! is_rank && [[ ${device:-auto} =~ ^(auto|cuda)$ ]]; then
    ranks=$(cuda_devices)
    [ "$ranks" = 0 ] || [ -n "$device" ] || arguments+=(--device cuda)
  fi
  if [ "${ranks:-1}" -le 1 ]; then exec "$root/build/bin/dimred" "${arguments[@]}"; fi
  echo "$ranks ranks on this machine, by torchrun"
  exec "$root/.venv/bin/python" -m torch.distributed.run --no-python --standalone --nproc-per-node "$ranks" \
    "$root/build/bin/dimred" "${arguments[@]}"
}
