#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real Slurm over the hosts of hosts.sh: the controller runs in "login", a slurmd on every host. No systemd, no database,
# no control groups, nothing outside one folder. Partitions: main, and high, whose jobs preempt those of main (requeue).
# Needs root (or `unshare -Urm`), what hosts.sh needs, and slurmctld, slurmd, slurm-client, munge.
#   slurm.sh up N [CPUS]       make h0 … hN-1 with CPUS (default 4) each, and Slurm over them; REQUEUE_EXIT and GRACE_S in the
#                              environment replace RequeueExit=75 (empty: none) and the GraceTime of main, 20 s
#   slurm.sh run COMMAND…      run a command in "login": slurm.sh run sbatch …, slurm.sh run squeue
#   slurm.sh wait JOB STATE…   until the job is in one of the states (RUNNING, COMPLETED …); prints which
#   slurm.sh down              end the jobs, Slurm and the hosts
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
export FLOTILLA_HOSTS=${FLOTILLA_HOSTS:-/tmp/flotilla-hosts-$(id -u)}
state=$FLOTILLA_HOSTS/slurm
export SLURM_CONF=$state/slurm.conf
hosts=$here/hosts.sh

# cred_expire: how long a requeued job waits. SlurmdTimeout: after how long a silent host counts as down. The controller
# looks for jobs past their time limit every 30 s at most.
write_configuration() {
  local count=$1 cpus=$2 user
  user=$(id -un)
  cat > "$SLURM_CONF" <<EOF
ClusterName=flotilla
SlurmctldHost=login(10.77.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$state/munge/socket,cred_expire=5
CredType=cred/munge
MpiDefault=pmix
TmpFS=$state/tmp.%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.%n.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd.%n.log
StateSaveLocation=$state/state
SlurmdSpoolDir=$state/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=5
KillWait=5
RequeueExit=${REQUEUE_EXIT-75}
MinJobAge=600
NodeName=h[0-$((count - 1))] CPUs=$cpus State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=${GRACE_S:-20}
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
EOF
  [ -n "${REQUEUE_EXIT-75}" ] || sed -i '/^RequeueExit=/d' "$SLURM_CONF"
  # From Slurm 23 on slurmd asks for control groups whatever the plugins need.
  if [ "$(slurmctld -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 23 ]; then
    echo "CgroupPlugin=disabled" > "$state/cgroup.conf"
  fi
}

# In some containers no control groups are mounted, and slurmd of Slurm 22 looks for some. Nothing is limited here.
control_groups='cd /sys/fs/cgroup && if ! mountpoint -q .; then
  mount -t tmpfs tmpfs . && cd ../cgroup && mkdir systemd && mount -t cgroup -o none,name=systemd cgroup systemd
fi'

up() {
  local count=$1 cpus=${2:-4} host
  SLOTS=$cpus "$hosts" up "$count"
  mkdir -p "$state"/{munge,state,log}
  chmod 755 "$state" "$state/munge"
  head -c 128 /dev/urandom > "$state/munge/key"
  chmod 600 "$state/munge/key"
  write_configuration "$count" "$cpus"
  "$hosts" login munged --key-file="$state/munge/key" --socket="$state/munge/socket" \
    --pid-file="$state/munge/pid" --log-file="$state/munge/log" --seed-file="$state/munge/seed" --num-threads=2
  "$hosts" login slurmctld -c -i
  for host in $(seq -f 'h%g' 0 $((count - 1))); do
    mkdir -p "$state/tmp.$host" "$state/spool.$host"
    "$hosts" exec "$host" sh -c "$control_groups" || true
    # More ranks than cores: a rank that waits yields its core. TCP by the address that the hosts share.
    "$hosts" exec "$host" env OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 slurmd -N "$host" || {
      echo "slurm.sh: slurmd does not start on $host:" >&2
      "$hosts" exec "$host" slurmd -D -N "$host" >&2 || true
      return 1
    }
  done
  for _ in $(seq 300); do
    if [ "$("$hosts" login sinfo -h -p main -t idle -o %D 2> "$state/log/sinfo")" = "$count" ]; then return; fi
    sleep 0.1
  done
  echo "slurm.sh: not all hosts are idle after 30 s:" >&2
  cat "$state/log/sinfo" "$state/log/slurmctld.log" >&2
  return 1
}

wait_for() {
  local job=$1 found
  shift
  while :; do
    found=$("$hosts" login scontrol show job "$job" -o | sed 's/.* JobState=\([A-Z_]*\) .*/\1/')
    case " $* " in *" $found "*) echo "$found"; return ;; esac
    case $found in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL)
      echo "slurm.sh: job $job ended as $found, not as one of: $*" >&2
      return 1 ;;
    esac
    sleep 0.1
  done
}

down() {
  local file pid
  for file in "$state"/slurmctld.pid "$state"/munge/pid; do
    pid=$(cat "$file" 2> /dev/null || true)
    if [ -n "$pid" ]; then kill -9 "$pid" 2> /dev/null || true; fi
  done
  "$hosts" down # with all that runs on the hosts: slurmd, jobs
}

command=${1:?slurm.sh up, run, wait or down}
shift
case $command in
  up) up "$@" ;;
  run) exec "$hosts" login "$@" ;;
  wait) wait_for "$@" ;;
  down) down ;;
  *) echo "slurm.sh: no command $command" >&2; exit 2 ;;
esac
