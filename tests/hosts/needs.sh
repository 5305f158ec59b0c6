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

# begin mpirun|slurm BUILD: looks for what the test needs; sets build, source (the source tree), hosts (hosts.sh) and work, a
# folder that goes with the script, and with it the hosts.
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
    trap 'cd /; "$source/tests/hosts/slurm.sh" down; rm -rf "$work"' EXIT
  else
    trap '"$hosts" down; rm -rf "$work"' EXIT
  fi
}
