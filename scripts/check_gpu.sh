#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows on a machine with a GPU what the fake GPU of the tests cannot, in three parts of at most 9 minutes each.
#
#   scripts/check_gpu.sh [--build FOLDER] [--rehearse] [--only REGEX] [--limit SECONDS] a|b|c FOLDER
#
#   a            is it right: device tests, losses compared with the CPU's; kernels of a step of ResNet-50
#   b            how fast: steps compared with PyTorch's, layer by layer; input
#   c            faults and tools: sanitizer, NCCL, shared GPU, memory, kill, checkpoints, cuBLASLt, cuDNN's plans
#   --build      a build with CUDA and tests (default: the bundle that holds this script, else build/cuda)
#   --rehearse   on the fake GPU of a build with tests (default: build/test): figures mean nothing there and are "skipped"
#   --only       the lines whose name matches
#   --limit      seconds that a line may take at most (default: of each its own)
#
# Goes on after a line that fails. FOLDER gets a log of each line, figures as JSON, runs, results.jsonl, and table.txt, which is
# printed at the end. Exit code 1 if a line failed, was ended by its limit, or had no time left.
set -euo pipefail
self=$(readlink -f "$0")
here=$(cd "$(dirname "$self")/.." && pwd)
# shellcheck source=scripts/common.sh
. "$here/scripts/common.sh"
# shellcheck source=scripts/check_gpu_lines.sh
. "$here/scripts/check_gpu_lines.sh"

# One line in a process of its own, which `timeout` can end: a function of check_gpu_lines.sh and its arguments.
if [[ ${1:-} == --line ]]; then
  shift
  "$@"
  exit
fi

build=
rehearse=false
only=
limit=540
while [[ ${1:-} == -* ]]; do
  case $1 in
    --rehearse) rehearse=true ;;
    --build | --only | --limit)
      (($# > 1)) || fail 2 "check gpu: $1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    -h | --help)
      sed -n '3,17s/^# \{0,1\}//p' "$self"
      exit 0
      ;;
    *) fail 2 "check gpu: unknown option '$1' (see scripts/check_gpu.sh --help)" ;;
  esac
  shift
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || fail 2 "check gpu: --limit must be a number of seconds, got '$limit'"
[[ $# == 2 && $1 =~ ^[abc]$ ]] || fail 2 "check gpu: give a part, a, b or c, and a folder (see scripts/check_gpu.sh --help)"
part=$1 output=$2

# The paths of what the lines run: the program; the device tests, as "$tests/NAME$suffix"; mpirun.
mpirun=${MPIEXEC:-mpirun}
suffix=_really
if $rehearse; then
  build=${build:-$here/build/test} suffix=
  program=$build/tests/cuda/flotilla_on_fake_gpu tests=$build/tests/cuda
elif [[ -z $build && -x $here/bin/flotilla ]]; then
  program=$here/bin/flotilla tests=$here/bin mpirun=$here/bin/mpirun
else
  build=${build:-$here/build/cuda}
  program=$build/flotilla tests=$build/tests/cuda
fi
[[ -x $program ]] || fail 2 "check gpu: there is no $program; build it, or name its build folder with --build"
mkdir -p "$output"
output=$(cd "$output" && pwd)
rm -rf "$output/runs"
mkdir "$output/runs"
export here program tests suffix mpirun rehearse output
open_mpi_settings

failed=0
running=
trap 'kill ${running:+"$running"} 2>/dev/null; exit 1' INT TERM # `timeout` ends all that the line has started
: >"$output/results.jsonl"
printf '%-32s %-7s %7s  %s\n' line result seconds 'log: reason' >"$output/table.txt"

# record <line> <held|FAILED|skipped> <seconds> <reason>
record() {
  printf '%-32s %-7s %7s  %s\n' "$1" "$2" "$3" "$1.log${4:+: $4}" >>"$output/table.txt"
  printf '{"part": "%s", "line": "%s", "result": "%s", "seconds": %s, "reason": "%s"}\n' \
    "$part" "$1" "$2" "$3" "$(tr -d '\\"' <<<"$4")" >>"$output/results.jsonl"
  say "$1: $2${4:+: $4}"
  if [[ $2 == FAILED ]]; then failed=$((failed + 1)); fi
}

# line <name> <seconds at most> <function> <argument>...
line() {
  local seconds=$2 left=$((535 - SECONDS)) begin=$SECONDS code=0 log=$output/$1.log reason
  export line_name=$1
  shift 2
  if [[ -n $only && ! $line_name =~ $only ]]; then return; fi
  if ((left < 5)); then
    record "$line_name" FAILED 0 "the part's 9 minutes were over"
    return
  fi
  seconds=$(printf '%s\n' "$seconds" "$limit" "$left" | sort -n | head -n 1)
  timeout --kill-after=5 "$seconds" bash "$self" --line "$@" >"$log" 2>&1 </dev/null &
  running=$!
  wait "$running" || code=$?
  reason=$(grep . "$log" | tail -n 1 | tr -cd '[:print:]' | cut -c 1-200 || true)
  case $code in
    0) record "$line_name" held $((SECONDS - begin)) '' ;;
    "$exit_skipped") record "$line_name" skipped $((SECONDS - begin)) "$reason" ;;
    124 | 137) record "$line_name" FAILED $((SECONDS - begin)) "ended, it may take $seconds s; $reason" ;;
    *) record "$line_name" FAILED $((SECONDS - begin)) "exit code $code: $reason" ;;
  esac
}

# results <result>: how many lines have it
results() {
  grep -c "\"result\": \"$1\"" "$output/results.jsonl" || true
}

"part_$part"
echo
cat "$output/table.txt"
say "check gpu: part $part in $(duration "$SECONDS"): $(results held) held, $(results FAILED) failed, $(results skipped) skipped; all of it in $output"
((failed == 0)) || exit 1
