#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One machine, no queue: starts as many ranks as fit and gives each its own cores. What is trained stands in the deck.
#
#   [RANKS=n] [THREADS=n] jobscripts/local.sh DECK [key.path=value …]
#
# The arithmetic: ranks × threads = cores.
#   RANKS    default: cores ÷ THREADS. More ranks train more samples at once: the batch of a step is RANKS × train.batch_size.
#   THREADS  default: 1. Threads of one rank. A small model is faster with more ranks, a large one with more threads.
#   steps of an epoch = samples ÷ (RANKS × train.batch_size), rounded up.
# With 8 cores: RANKS=8 THREADS=1, or RANKS=2 THREADS=4 for layers of thousands of values. With the shipped 10,000 digits,
# batch 64 and 2 ranks an epoch has 10,000 ÷ 128 = 79 steps.
set -euo pipefail

if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then
  sed -n '3,12s/^# \{0,1\}//p' "$0"
  exit 2
fi
cores=$(nproc)
threads=${THREADS:-1}
ranks=${RANKS:-auto}
if ! [[ $threads =~ ^[1-9][0-9]*$ && $ranks =~ ^([1-9][0-9]*|auto)$ ]]; then
  echo "flotilla: local.sh: RANKS and THREADS must be at least 1, got RANKS=$ranks THREADS=$threads" >&2
  exit 2
fi
if [[ $ranks == auto ]]; then
  ranks=$((threads < cores ? cores / threads : 1))
fi
echo "flotilla: local.sh: $ranks ranks x $threads threads on $cores cores" >&2

# Ranks are not bound to cores, because reading ahead and communication run on threads of their own in addition to the one that
# computes. A rank that waits gives its core away: without that a collective takes 8 ms as soon as ranks share a core. Open MPI
# counts
# whole cores, nproc their hardware threads, so it must be allowed to start more ranks than cores (PRTE_: version 5).
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1
if (($(id -u) == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
here=$(dirname "$(readlink -f "$0")")
# In an installed tree it lies in share/flotilla/jobscripts.
flotilla=$(command -v flotilla || command -v "$here/../../../bin/flotilla" || echo "$here/../build/cpu/flotilla")
if [[ ! -x $flotilla ]]; then
  echo "flotilla: local.sh: no executable on PATH, in ../../../bin or in build/cpu; build it first (scripts/quickstart.sh)" >&2
  exit 2
fi

exec mpirun -n "$ranks" "$flotilla" train "$@" device.threads="$threads"
