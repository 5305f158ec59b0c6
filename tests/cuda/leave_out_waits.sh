#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows that the tests on the fake GPU find every missing wait. Each call of the program that orders streams (an event
# recorded or waited for, a stream waited for) is left out in turn, by the fake runtime (tests/cuda/fake/sites.hpp), and
# tests run over several seeds until one fails. Prints a table; exit code 1 if something is missing unnoticed.
#   tests/cuda/leave_out_waits.sh BUILD [SEEDS [PATTERN]]     some minutes; PATTERN: only lines of functions like it
set -euo pipefail
build=$(realpath "$1") seeds=${2:-12} pattern=${3:-.}
source=$(realpath "$(dirname "$0")/../..")
# shellcheck source=scripts/common.sh
. "$source/scripts/common.sh"
open_mpi_settings
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mpiexec=${MPIEXEC:-mpirun}

# Calls for which another function decides who needs them: each caller is a line of its own.
through='NcclStream::'
# All calls of each of these count as one: the compiler has made several of a loop, or of a template.
merged='CudaUploads::finish|~CudaUploads|DeviceFlat|FlatTable'
# Nothing is wrong without these, called from a function: why.
declare -A needless=(
  [make_reduction]='needless: a rehearsal before the first step, whose sums are not read'
)

unit_tests=(test_gpu_device test_gpu_order test_gpu_linear test_gpu_conv2d test_gpu_overflow_guard test_fake_gpu)
on_fake_gpu=$build/tests/cuda/flotilla_on_fake_gpu
test_nccl=$build/tests/mpi/test_nccl
mnist=("$source/inputs/mnist_mlp.toml" train.batch_size=32 train.steps=8 run.log_every=1 validation.every=0 device.kind=cuda
  device.threads=1)

# The ways to train that take different waits.
declare -A ways=(
  [alone]='1 checkpoint.every=3'
  [float16]='1 device.precision=float16 device.loss_scale.initial=1e9 run.log_every=4'
  [graphs]='1 device.graphs=true optimizer.kind=adam schedule.learning_rate=0.001 model.dropout=0.1'
  [staged]='2 strategy.all_reduce=mpi strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.1'
  [nccl]='2 strategy.all_reduce=nccl strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.1'
  [nccl-mpi]='2 strategy.all_reduce=nccl-mpi strategy.ranks_per_group=1 strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.1'
  [local-sgd]='2 strategy.kind=local-sgd strategy.period=2 strategy.all_reduce=nccl'
)

# losses <way> <folder>: what a run of it leaves
train() {
  local -a more
  read -ra more <<<"${ways[$1]}"
  timeout 60 "$mpiexec" -n "${more[0]}" "$on_fake_gpu" train "${mnist[@]}" "${more[@]:1}" run.output="$2" >"$2.said" 2>&1 </dev/null || return 1
  sed -n 's/.*"event": *"step".*"loss": *\([0-9.e+-]*\).*/\1/p' "$2/metrics.jsonl"
}

# fails <program or way> <seed>: true if it does
fails() {
  export FLOTILLA_FAKE_GPU_SEED=$2
  case $1 in
    test_nccl) ! timeout 60 "$mpiexec" --oversubscribe -n 4 "$test_nccl" >said 2>&1 </dev/null ;;
    test_gpu_norms) ! timeout 120 "$mpiexec" --oversubscribe -n 2 "$build/tests/cuda/$1" >said 2>&1 </dev/null ;;
    test_*) ! timeout 60 "$build/tests/cuda/$1" >said 2>&1 </dev/null ;;
    *)
      rm -rf run
      local found
      found=$(train "$1" run) || return 0
      [[ $found != "$(<"expected.$1")" ]]
      ;;
  esac
}

file_of() {
  case $1 in
    test_nccl) echo "$test_nccl" ;;
    test_*) echo "$build/tests/cuda/$1" ;;
    *) echo "$on_fake_gpu" ;;
  esac
}

# symbols_of <executable>: a file with its functions sorted by address
symbols_of() {
  local cached=symbols.${1##*/}
  [[ -e $cached ]] || nm -n --defined-only "$1" | awk '$2 ~ /[tTwW]/ { print $1, $3 }' >"$cached"
  echo "$cached"
}

# name <executable> <address>: function+offset
name() {
  local found
  found=$(awk -v wanted="$2" 'function value(hex,  i, v) { v = 0; for (i = 1; i <= length(hex); ++i) v = v * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1; return v }
    BEGIN { w = value(wanted) } { v = value($1); if (v > w) exit; base = v; symbol = $2 } END { printf "%s %x\n", symbol, w - base }' "$(symbols_of "$1")")
  local function
  function=$(c++filt "${found% *}" | sed -e 's/flotilla:://g; s/(anonymous namespace):://g; s/(.*//; s/, /,/g; s/.* //')
  if [[ $function =~ $merged ]]; then echo "${function%<*}"; else echo "$function+${found#* }"; fi
}

# 1. Which lines there are, and what meets them.
everything=("${unit_tests[@]}" "${!ways[@]}")
if [[ -x $test_nccl ]]; then everything+=(test_nccl test_gpu_norms); fi
for one in "${everything[@]}"; do
  executable=$(file_of "$one")
  [[ -x $executable ]] || { echo "$executable is not there: build it (ninja -C $build ${executable##*/})"; exit 2; }
  [[ -s $(symbols_of "$executable") ]] || {
    echo "$executable has no symbols, by which lines are named: configure $build with -DCMAKE_EXE_LINKER_FLAGS_RELWITHDEBINFO= and build again"
    exit 2
  }
done
: >lines
for one in "${everything[@]}"; do
  rm -f sites
  export FLOTILLA_FAKE_GPU_SITES=$work/sites
  if [[ $one == test_* ]]; then
    fails "$one" 1 && { echo "$one fails as it is:"; tail -n 20 said; exit 2; }
  else
    FLOTILLA_FAKE_GPU_SEED=3 train "$one" "plain.$one" >"expected.$one" || { echo "training $one fails as it is"; tail "plain.$one.said"; exit 2; }
  fi
  unset FLOTILLA_FAKE_GPU_SITES
  sort -u sites | while read -r call place; do
    executable=$(file_of "$one")
    line=$(name "$executable" "${place%,*}")
    if [[ $line =~ $through ]]; then
      echo "$call $line<$(name "$executable" "${place#*,}") $one $place"
    else
      echo "$call $line $one ${place%,*}"
    fi
  done >>lines
done

# 2. Without each of them.
unnoticed=0
printf '%-22s %-70s %s\n' call 'in (function+offset)' 'found by'
while read -r call line; do
  [[ $line =~ $pattern ]] || continue
  if [[ $line =~ (_Test|main|test::|^cu(da|dnn)[A-Z]) ]]; then continue; fi  # not of the program
  found=
  caller=${line#*<}
  if [[ -n ${needless[${caller%+*}]:-} ]]; then
    printf '%-22s %-70s %s\n' "$call" "$line" "${needless[${caller%+*}]}"
    continue
  fi
  for one in test_gpu_order test_gpu_device test_fake_gpu test_gpu_conv2d test_gpu_linear test_gpu_overflow_guard test_nccl "${!ways[@]}" test_gpu_norms; do
    places=$(awk -v c="$call" -v l="$line" -v o="$one" '$1 == c && $2 == l && $3 == o { print $4 }' lines | sort -u | tr '\n' ' ')
    [[ -n $places ]] || continue
    for ((seed = 0; seed < seeds; ++seed)); do
      if FLOTILLA_FAKE_GPU_LEAVE_OUT=$places fails "$one" "$seed"; then
        found="$one, seed $seed"
        break 2
      fi
    done
  done
  if [[ -z $found ]]; then
    found=NOTHING
    unnoticed=1
  fi
  printf '%-22s %-70s %s\n' "$call" "$line" "$found"
done < <(awk '{ print $1, $2 }' lines | sort -u)
exit "$unnoticed"
