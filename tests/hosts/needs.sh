# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What tests on several hosts need, and how they begin. Sourced, not run.

# Where the tests of the label "cluster" must run (FLOTILLA_CLUSTER_TESTS=required, as in CI) a skip is a failure.
skip() {
  echo "SKIPPED: $*"
  if [ "${FLOTILLA_CLUSTER_TESTS:-}" = required ]; then
    echo "but FLOTILLA_CLUSTER_TESTS=required: it must run here (scripts/setup.sh --tools installs what it needs)"
    exit 1
  fi
  exit 77
}

# need_hosts: namespaces that hosts.sh can make.
need_hosts() {
  local command
  for command in unshare nsenter ip tc pgrep; do
    command -v "$command" > /dev/null || skip "no command $command (iproute2, procps, util-linux)"
  done
  unshare --net --uts --mount --pid --fork true 2> /dev/null ||
    skip "this user may not make namespaces (needs root, or unshare -Urm)"
  unshare --net ip link add flotilla0 type bridge 2> /dev/null || skip "the kernel has no bridges between namespaces"
}

# need_mpirun: one whose daemons hosts.sh can start.
need_mpirun() {
  case $(mpirun --version 2> /dev/null | head -n 1) in
    *"Open MPI) 4."*) ;;
    *) skip "hosts.sh starts mpirun over its hosts with Open MPI 4 only" ;;
  esac
}

need_slurm() {
  local command
  for command in slurmctld slurmd sbatch srun munged; do
    command -v "$command" > /dev/null || skip "no command $command (slurmctld, slurmd, slurm-client, munge)"
  done
  compgen -G '/usr/lib*/*/slurm*/mpi_pmix*.so' > /dev/null || skip "this Slurm has no plugin pmix, by which ranks find each other"
}

# begin mpirun|slurm BUILD: looks for what the test needs; sets build, source (the source tree), hosts (hosts.sh), slurm
# (slurm.sh) and work, a folder that goes with the script, and with it the hosts. With Slurm it also goes to that folder, and jobs
# find the build's flotilla.
begin() {
  # shellcheck disable=SC2034 # for the scripts
  build=$(readlink -f "${2:?folder of the build}")
  source=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")
  hosts=$source/tests/hosts/hosts.sh
  need_hosts
  "need_$1"
  work=$(mktemp -d)
  export FLOTILLA_HOSTS=${FLOTILLA_HOSTS:-$work/hosts}
  if [ "$1" = slurm ]; then
    slurm=$source/tests/hosts/slurm.sh
    trap 'cd /; "$slurm" down; rm -rf "$work"' EXIT
    export SLURM_CONF=$FLOTILLA_HOSTS/slurm/slurm.conf PATH=$build:$PATH
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    chmod 755 "$work" # munged wants its socket to be reachable
    cd "$work" || exit
  else
    trap '"$hosts" down; rm -rf "$work"' EXIT
  fi
}

# The functions below need Slurm.

# fail TEXT…: fails with the ends of the jobs' outputs. The text is repeated at the end, which truncated reports keep.
fail() {
  echo "FAILED: $*"
  tail -n 20 "$FLOTILLA_HOSTS"/slurm/log/slurmctld.log || true
  tail -n 12 "$work"/*.out 2> /dev/null || true
  echo "FAILED: $*"
  exit 1
}

# follow JOB [FOLDER STEP]: until a job is done, or the run in the folder has reported that step. What has been put back
# would wait for some seconds; 2 it must, or its credential counts as that of the run before.
follow() {
  local job=$1 folder=${2:-} step=${3:-} shown state began=$SECONDS
  while :; do
    ((SECONDS - began < 400)) || fail "job $job has not come there in $((SECONDS - began)) s: it is $state"
    if [ -n "$step" ] && grep -q "\"event\":\"step\".*\"step\":$step," "$folder/metrics.jsonl" 2> /dev/null; then return; fi
    shown=$("$slurm" run scontrol show job "$job" -o)
    [[ $shown =~ JobState=([A-Z_]*)\ Reason=([A-Za-z]*) ]] || fail "no state of job $job: $shown"
    state="${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
    case $state in
      "PENDING BeginTime")
        sleep 2
        "$slurm" run scontrol update JobId="$job" StartTime=now 2> /dev/null || true ;;
      COMPLETED*)
        if [ -z "$step" ]; then return; fi
        fail "job $job ended before step $step" ;;
      PENDING* | CONFIGURING* | RUNNING* | SIGNALING* | COMPLETING* | REQUEUED* | NODE_FAIL* | PREEMPTED*) ;;
      *) fail "job $job is $state" ;;
    esac
    sleep 0.1
  done
}

# has FOLDER EVENT KEY: the values in its metrics, in one line.
has() { sed -n "s/.*\"event\":\"$2\".*\"$3\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" "$1/metrics.jsonl" | paste -sd ' '; }
