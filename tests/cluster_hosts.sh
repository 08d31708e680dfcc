#!/usr/bin/env bash
# Five hosts for scripts/cluster_test.sh, "head" and n1 to n4: network namespaces joined by a bridge, each with its own host name.
# Where Debian's slurm-wlm and munge are installed, head is a Slurm's controller and n1 to n4 its nodes (no cgroups needed). Needs
# root, iproute2 and util-linux. Settings, keys, states and logs lie in FOLDER. Prints "ready" or "ready slurm", and ends all that
# runs on the hosts when its input is closed.
#   tests/cluster_hosts.sh FOLDER
#   tests/cluster_hosts.sh FOLDER on HOST COMMAND...   while it runs, e.g. "on head srun -N 4 hostname"
#   tests/cluster_hosts.sh FOLDER node HOST            a node's daemon in the foreground, in place of one that was ended
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd); shift
hosts=(head n1 n2 n3 n4)
[ -f "$folder/mark" ] || echo "dimred$$" > "$folder/mark"
mark=$(cat "$folder/mark")  # of the names of our namespaces
export SLURM_CONF=$folder/slurm.conf

# A host is a network namespace, a host name and a file of the hosts' addresses, in which all is found or nowhere.
on() {
  local host=$1; shift
  exec nsenter --net="/run/netns/$mark$host" unshare --uts --mount \
    bash -c '
    hostname "$1"; mount --bind "$2/hosts" /etc/hosts; mount --bind "$2/resolv.conf" /etc/resolv.conf
    shift 2; exec "$@"' on "$host" "$folder" "$@"
}

daemon() {  # NAME COMMAND...
  local name=$1; shift
  ("$@") > "$folder/$name.out" 2>&1 < /dev/null &
}

node() { on "$1" slurmd -D -N "$1" -f "$SLURM_CONF"; }

addresses() {
  local net=10.213.$((BASHPID % 200 + 20)) index
  printf '127.0.0.1 localhost\n::1 localhost\n' > "$folder/hosts"
  echo 'nameserver 127.0.0.1' > "$folder/resolv.conf"  # nobody: an answer at once
  for index in "${!hosts[@]}"; do echo "$net.$((index + 1)) ${hosts[index]}" >> "$folder/hosts"; done
}

settings() {
  cat > "$SLURM_CONF" <<CONF
ClusterName=dimred
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for its old credential to expire, 120 s by default.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
KillWait=15
InactiveLimit=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=2,sched_interval=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool_%n
SlurmctldPidFile=$folder/slurmctld_daemon.pid
SlurmdPidFile=$folder/slurmd_daemon_%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd_%n.log
NodeName=n[1-4] CPUs=4 RealMemory=1024 State=UNKNOWN
PartitionName=low Nodes=n[1-4] Default=YES MaxTime=60 PriorityTier=1 GraceTime=20 PreemptMode=REQUEUE
PartitionName=high Nodes=n[1-4] MaxTime=60 PriorityTier=9 PreemptMode=OFF
CONF
}

network() {
  local index host
  ip netns add "${mark}net"
  ip -n "${mark}net" link add bridge type bridge
  ip -n "${mark}net" link set bridge up
  for index in "${!hosts[@]}"; do
    host=${hosts[index]}
    ip netns add "$mark$host"
    ip -n "${mark}net" link add "to$host" type veth peer name eth0 netns "$mark$host"
    ip -n "${mark}net" link set "to$host" master bridge up
    ip -n "$mark$host" addr add "$(awk -v h="$host" '$2 == h { print $1 }' "$folder/hosts")/24" dev eth0
    ip -n "$mark$host" link set eth0 up
    ip -n "$mark$host" link set lo up
  done
}

# Whatever runs in the namespaces, the ranks of the jobs too, and nothing else.
stop() {
  trap - EXIT INT TERM
  local host
  for host in net "${hosts[@]}"; do
    ip netns pids "$mark$host" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
    ip netns del "$mark$host" 2> /dev/null || true
  done
  wait
}

slurm() {
  local host idle=
  mkdir -p "$folder/state"
  mungekey --create --keyfile="$folder/munge.key"
  daemon munged on head munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged_daemon.pid" --seed-file="$folder/munge.seed" --log-file="$folder/munged.log"
  daemon slurmctld on head slurmctld -D -f "$SLURM_CONF"
  for host in "${hosts[@]:1}"; do daemon "$host" node "$host"; done
  for _ in $(seq 100); do
    idle=$( (on head sinfo --noheader --partition=low --states=idle --format=%D) 2> /dev/null || true)
    [ "$idle" != 4 ] || return 0
    sleep 0.2
  done
  echo "cluster_hosts: error: Slurm's nodes did not come within 20 s, see $folder/*.log and *.out" >&2
  exit 1
}

serve() {
  trap stop EXIT
  trap 'exit 143' INT TERM
  addresses
  network
  if type -P slurmctld slurmd munged | awk 'END { exit NR != 3 }'; then
    settings
    slurm
    echo ready slurm
  else
    echo ready
  fi
  while read -r _; do :; done
}

case ${1:-serve} in
  serve) serve ;;
  on) shift; on "$@" ;;
  node) node "$2" ;;
  *) echo "cluster_hosts: error: knows on and node, received $1" >&2; exit 2 ;;
esac
