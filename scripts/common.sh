# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts here share. Sourced, not run.

# say <text>...: prints one line about what is being done.
say() {
  printf 'flotilla: %s\n' "$*"
}

# fail <exit code> <text>...: says what went wrong and ends the script.
fail() {
  local code=$1
  shift
  printf 'flotilla: %s\n' "$*" >&2
  exit "$code"
}

# Compilers to run at once: one per core, but no more than one per 2 GB of free memory, which a large source needs.
build_jobs() {
  local cores memory_kb limit by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1024 < memory_kb)); then
    memory_kb=$((limit / 1024))
  fi
  by_memory=$((memory_kb / 2000000))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# find_ccache: sets the array launcher to the arguments for cmake if ccache is installed, otherwise empties it.
# shellcheck disable=SC2034 # The scripts that call it use the array.
find_ccache() {
  launcher=()
  command -v ccache >/dev/null || return 0
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_SLOPPINESS=pch_defines,time_macros # what ccache wants for precompiled headers
}

# Open MPI 4 and 5 (PRTE_): more ranks than cores, not bound to them, and yielding the core while they wait; without
# the last one a collective takes 8 ms as soon as ranks share a core. Root must say twice that it means it.
open_mpi_settings() {
  export OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  # Version 5.0.7 pairs no addresses of hosts that have both IPv4 and IPv6 (docs/troubleshooting.md).
  export OMPI_MCA_btl_tcp_disable_family=6
  if (($(id -u) == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# processor: the model of this machine's processor and those of its instruction sets on which results depend
processor() {
  local flags set words
  flags=" $(sed -n 's/^\(flags\|Features\)[[:space:]]*: //p' /proc/cpuinfo | head -n 1) "
  words=$(LC_ALL=C lscpu | sed -n 's/^Model name:[[:space:]]*//p' | head -n 1)
  for set in sse4_1:SSE4.1 avx2:AVX2 avx512f:AVX-512 avx512_bf16:AVX512_BF16 amx_tile:AMX asimd:NEON sve:SVE; do
    if [[ $flags == *" ${set%%:*} "* ]]; then words+=", ${set#*:}"; fi
  done
  echo "$words"
}

# duration <seconds>: "4 min 12 s"
duration() {
  if (($1 >= 60)); then
    echo "$(($1 / 60)) min $(($1 % 60)) s"
  else
    echo "$1 s"
  fi
}

# step_losses <run>: the losses of its steps, one a line
step_losses() {
  sed -n 's/.*"event": *"step".*"loss": *\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"
}
