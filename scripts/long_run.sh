#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains for long with a checkpoint each second and a validation each epoch, and looks for what grows.
#
#   scripts/long_run.sh [--minutes N] [--ranks N] [--every SECONDS] EXECUTABLE [PATH=VALUE...]
#
#   --minutes     how long it trains (default 120)
#   --ranks       processes (default 4)
#   --every       seconds between two samples (default 10)
#   PATH=VALUE    overrides of inputs/mnist_mlp.toml, for example strategy.kind=local-sgd
#
# Takes for each rank its resident memory, open files, threads and mappings of /dev/shm from /proc, and then asks the job to
# stop. Ends with a table of first and last values and of the slopes of a straight line through all samples after the first
# tenth; with 1 if training failed or a line rises, over the whole run, by more than 2 MiB of memory or half of another thing.
set -euo pipefail
began_in=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

minutes=120
ranks=4
every=10
while [[ ${1:-} == -* ]]; do
  case $1 in
    -h | --help)
      sed -n '3,14s/^# \{0,1\}//p' scripts/long_run.sh
      exit 0
      ;;
    --minutes | --ranks | --every)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail 2 "long run: $1 needs a number"
      ;;&
    --minutes) minutes=$2 ;;
    --ranks) ranks=$2 ;;
    --every) every=$2 ;;
    *) fail 2 "long run: unknown option '$1' (see scripts/long_run.sh --help)" ;;
  esac
  shift 2
done
(($#)) || fail 2 "long run: no executable is given (see scripts/long_run.sh --help)"
command -v pgrep >/dev/null || fail 2 "long run: pgrep is missing: apt-get install procps"
executable=$(cd "$began_in" && realpath "$1")
shift

folder=$(mktemp -d)
job=
trap '[[ -z $job ]] || kill "$job" 2>/dev/null || true; rm -rf "$folder"' EXIT
open_mpi_settings
say "long run: $ranks ranks for $minutes minutes, a sample each $every s, in $folder"
mpirun -n "$ranks" "$executable" train inputs/mnist_mlp.toml run.output="$folder/run" run.log_every=10000 \
  train.epochs=100000000 checkpoint.every_s=1 "$@" >"$folder/out" 2>&1 &
job=$!

# The processes of the job that are ranks: mpirun's children that run the executable.
ranks_of_job() {
  local pid
  for pid in $(pgrep -P "$job"); do
    [[ $(readlink "/proc/$pid/exe") != "$executable" ]] || echo "$pid"
  done | sort -n
}

began=$SECONDS
asked=false
while kill -0 "$job" 2>/dev/null; do
  sleep "$every"
  if ((SECONDS - began >= 60 * minutes)) && ! $asked; then
    kill -USR1 "$job"
    asked=true
  fi
  rank=0
  for pid in $(ranks_of_job); do
    # A rank may have ended meanwhile: then it has no line.
    memory=$(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
    threads=$(awk '/^Threads:/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
    files=$(find "/proc/$pid/fd" -mindepth 1 2>/dev/null | wc -l)
    shared=$(grep -c /dev/shm "/proc/$pid/maps" 2>/dev/null || true)
    [[ -z $memory || -z $shared ]] || echo "$((SECONDS - began)) rank-$rank $memory $files $threads $shared"
    rank=$((rank + 1))
  done
done >"$folder/samples"
code=0
wait "$job" || code=$?
job=
tail -n 3 "$folder/out"
((code == 75)) || fail 1 "long run: training ended with exit code $code instead of 75"
[[ -s $folder/samples ]] || fail 1 "long run: no sample was taken: mpirun's children do not run $executable"

awk -v every="$every" '
  { last = $1; line[NR] = $0 }
  END {
    for (n = 1; n <= NR; ++n) {
      split(line[n], v, " ")
      if (v[1] < last / 10 || v[1] > last - 2 * every) continue
      for (k = 3; k <= 6; ++k) {
        what = v[2] " " k
        if (!(what in count)) { first[what] = v[k]; order[++series] = what }
        end[what] = v[k]; ++count[what]
        t = v[1]; sum_t[what] += t; sum_v[what] += v[k]; sum_tt[what] += t * t; sum_tv[what] += t * v[k]
      }
    }
    names[3] = "memory kB"; names[4] = "files"; names[5] = "threads"; names[6] = "/dev/shm"
    printf "%-10s %-10s %8s %10s %10s %12s %12s\n", "of", "what", "samples", "first", "last", "slope/hour", "rise in all"
    failed = series == 0
    for (s = 1; s <= series; ++s) {
      what = order[s]; split(what, part, " "); n = count[what]
      spread = n * sum_tt[what] - sum_t[what] ^ 2
      slope = spread > 0 ? (n * sum_tv[what] - sum_t[what] * sum_v[what]) / spread : 0
      rise = slope * last
      bad = rise > (part[2] == 3 ? 2048 : 0.5)
      failed = failed || bad
      printf "%-10s %-10s %8d %10d %10d %12.3f %12.3f%s\n", part[1], names[part[2]], n, first[what], end[what], 3600 * slope, rise, bad ? "  GROWS" : ""
    }
    exit failed
  }' "$folder/samples" || fail 1 "long run: something grows"
say "long run: nothing grows"
