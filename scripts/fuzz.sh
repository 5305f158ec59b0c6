#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the readers of foreign bytes (tests/fuzz) with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [--seconds N] [--keep] [TARGET...]
#   scripts/fuzz.sh --list | --total
#
#   --seconds N   for each target (60)
#   --keep        adds the inputs that reach new code to tests/fuzz/corpus, where an ordinary test reads them
#   --list        only prints the targets
#   --total       only prints the sums of all runs so far (build/cpu-fuzz/runs.csv)
#   TARGET        of those that --list prints (all)
#
# Needs clang-19 and libclang-rt-19-dev. Ends with a table of the targets; with 1 if one of them broke (its input lies in
# build/cpu-fuzz/found) or made fewer than 1,000 executions. No input may take 10 s or an allocation of 1 GB. Inputs in which
# HDF5 crashes, so that the program ends with a sentence, are not findings; they are kept in build/cpu-fuzz/ended.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

seconds=60
keep=false
list=false
total=false
targets=()
while (($#)); do
  case $1 in
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail 2 "fuzz: --seconds needs a number"
      seconds=$2
      shift
      ;;
    --keep) keep=true ;;
    --list) list=true ;;
    --total) total=true ;;
    -h | --help)
      sed -n '3,16s/^# \{0,1\}//p' scripts/fuzz.sh
      exit 0
      ;;
    -*) fail 2 "fuzz: unknown option '$1' (see scripts/fuzz.sh --help)" ;;
    *) targets+=("$1") ;;
  esac
  shift
done

build=build/cpu-fuzz
runs=$build/runs.csv
row='%-16s %12s %9s %9s %8s  %s\n'
# table <runs.csv>: sums for each target, in the order of their first runs
table() {
  # shellcheck disable=SC2059
  printf "$row" target executions branches features seconds found
  awk -F, -v row="$row" '
    !($1 in executions) { order[++targets] = $1 }
    { executions[$1] += $2; seconds[$1] += $5 }
    $3 > branches[$1] { branches[$1] = $3 }
    $4 > features[$1] { features[$1] = $4 }
    $6 != "nothing" { found[$1] = found[$1] (found[$1] == "" ? "" : " ") $6 }
    END {
      for (i = 1; i <= targets; ++i) {
        t = order[i]
        printf row, t, executions[t], branches[t], features[t], seconds[t], found[t] == "" ? "nothing" : found[t]
      }
    }' "$1"
}
if $total; then
  [[ -e $runs ]] || fail 2 "fuzz: no target was run yet ($runs is missing)"
  table "$runs"
  exit 0
fi
command -v clang++-19 >/dev/null || fail 2 "fuzz: clang++-19 is missing: apt-get install clang-19 libclang-rt-19-dev"

mkdir -p build
exec {building}>"$build.lock"
flock "$building" # of two that run at once one builds
if ! { cmake --preset cpu-fuzz && cmake --build "$build" -j "$(build_jobs)" --target fuzz_flotilla; } \
  >"$build.log" 2>&1; then
  tail -n 30 "$build.log" >&2
  fail 1 "fuzz: the build failed ($build.log)"
fi
exec {building}>&-
fuzzer=$PWD/$build/tests/fuzz/fuzz_flotilla
mapfile -t all < <("$fuzzer")
((${#all[@]})) || fail 1 "fuzz: $fuzzer names no target"
if $list; then
  printf '%s\n' "${all[@]}"
  exit 0
fi
((${#targets[@]})) || targets=("${all[@]}")
for target in "${targets[@]}"; do
  printf '%s\n' "${all[@]}" | grep -qx -- "$target" || fail 2 "fuzz: there is no target '$target' (see --list)"
done

# value <name> <log>: the last number after "name: "
value() {
  grep -o "$1: *[0-9]*" "$2" | tail -n 1 | grep -o '[0-9]*$' || echo 0
}
# executions <log>: of all starts in it; "#2048 NEW cov: …" tells how many there were since the last "INFO: Seed"
executions() {
  awk '/^INFO: Seed/ { sum += last; last = 0 } /^#[0-9]/ { last = substr($1, 2) } END { print sum + last }' "$1"
}

# file_that_ended_it <log>: where HDF5 crashed in a file, and the program has ended, in order, with a sentence about it
# (src/files/hdf5_handles.hpp)
file_that_ended_it() {
  tail -n 1 "$1" | sed -n "s/^flotilla: '\(.*\)' is damaged: HDF5 crashes in it.*/\1/p"
}

mkdir -p "$build/found" "$build/ended" "$build/logs"
scratch=$(mktemp -d "$(test -w /dev/shm && echo /dev/shm || echo "${TMPDIR:-/tmp}")/flotilla-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
symbolizer=$(command -v llvm-symbolizer-19 llvm-symbolizer | head -n 1 || true)
export TMPDIR=$scratch ASAN_SYMBOLIZER_PATH=$symbolizer UBSAN_OPTIONS=print_stacktrace=1
# Libraries ask malloc for sizes that damaged files name, and are refused as by a small system; new, which is ours, fails.
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=1024
ASAN_OPTIONS+=:suppressions=$PWD/tests/fuzz/reads.txt
export LSAN_OPTIONS=suppressions=$PWD/tests/fuzz/leaks.txt:print_suppressions=0
failures=0
ended=0
for target in "${targets[@]}"; do
  seeds=tests/fuzz/corpus/$target
  grown=$build/corpus/$target
  log=$build/logs/$target.log
  mkdir -p "$grown"
  options=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_funcs=0
    "-artifact_prefix=$build/found/$target-")
  dictionary=tests/fuzz/dictionaries/$target.dict
  [[ ! -e $dictionary ]] || options+=("-dict=$dictionary")
  say "fuzz: $target for $seconds s"
  began=$SECONDS
  found=nothing
  : >"$log"
  while (((left = seconds - (SECONDS - began)) > 0)); do
    FLOTILLA_FUZZ_TARGET=$target "$fuzzer" "${options[@]}" -max_total_time="$left" "$grown" "$seeds" >>"$log" 2>&1 && break
    ended_by=$(file_that_ended_it "$log")
    if [[ -n $ended_by ]]; then
      mv "$ended_by" "$build/ended/$target-$(sha1sum <"$ended_by" | cut -c 1-40)"
      ended=$((ended + 1))
      continue
    fi
    found=$(grep -o "$build/found/$target-[^ ]*" "$log" | tail -n 1 || echo "$log")
    break
  done
  executions=$(executions "$log")
  [[ $found == nothing ]] && ((executions >= 1000)) || failures=$((failures + 1))
  printf '%s,%s,%s,%s,%s,%s\n' "$target" "$executions" "$(value cov "$log")" "$(value ft "$log")" $((SECONDS - began)) \
    "$found" | tee -a "$runs" >>"$scratch/runs.csv"
  if $keep && [[ $found == nothing ]]; then
    FLOTILLA_FUZZ_TARGET=$target "$fuzzer" -merge=1 -max_len=4096 "$seeds" "$grown" >>"$log" 2>&1
  fi
done
table "$scratch/runs.csv"
((ended == 0)) || say "fuzz: HDF5 crashed in $ended inputs, and the program ended with a sentence: they are kept in $build/ended"
((failures == 0)) || fail 1 "fuzz: $failures of ${#targets[@]} targets broke, or were executed fewer than 1,000 times"
