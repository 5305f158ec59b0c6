#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the readers of foreign bytes (tests/fuzz) with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [--seconds N] [--keep] [TARGET...]
#
#   --seconds N   for each target (60)
#   --keep        adds the inputs that reach new code to tests/fuzz/corpus, where an ordinary test reads them
#   TARGET        of those that scripts/fuzz.sh --list prints (all)
#
# Needs clang-19 and libclang-rt-19-dev. Ends with a table of all targets; with 1 if one of them broke (its input lies in
# build/cpu-fuzz/found) or made fewer than 1,000 executions. No input may take 10 s or an allocation of 1 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

seconds=60
keep=false
list=false
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
    -h | --help)
      sed -n '3,12s/^# \{0,1\}//p' scripts/fuzz.sh
      exit 0
      ;;
    -*) fail 2 "fuzz: unknown option '$1' (see scripts/fuzz.sh --help)" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
command -v clang++-19 >/dev/null || fail 2 "fuzz: clang++-19 is missing: apt-get install clang-19 libclang-rt-19-dev"

build=build/cpu-fuzz
if ! { cmake --preset cpu-fuzz && cmake --build "$build" -j "$(build_jobs)" --target fuzz_flotilla; } \
  >"$build.log" 2>&1; then
  tail -n 30 "$build.log" >&2
  fail 1 "fuzz: the build failed ($build.log)"
fi
fuzzer=$PWD/$build/tests/fuzz/fuzz_flotilla
mapfile -t all < <("$fuzzer")
if $list; then
  printf '%s\n' "${all[@]}"
  exit 0
fi
((${#targets[@]})) || targets=("${all[@]}")
for target in "${targets[@]}"; do
  printf '%s\n' "${all[@]}" | grep -qx -- "$target" || fail 2 "fuzz: there is no target '$target' (see --list)"
done

# value <name> <log>: the last number behind "name: "
value() {
  grep -o "$1: *[0-9]*" "$2" | tail -n 1 | grep -o '[0-9]*$' || echo 0
}

mkdir -p "$build/found" "$build/logs"
failures=0
table=$(printf '%-16s %12s %9s %9s %7s  %s' target executions branches features seconds found)
for target in "${targets[@]}"; do
  seeds=tests/fuzz/corpus/$target
  grown=$build/corpus/$target
  log=$build/logs/$target.log
  mkdir -p "$grown"
  options=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1
    "-artifact_prefix=$build/found/$target-")
  dictionary=tests/fuzz/dictionaries/$target.dict
  [[ ! -e $dictionary ]] || options+=("-dict=$dictionary")
  say "fuzz: $target for $seconds s"
  began=$SECONDS
  found=nothing
  FLOTILLA_FUZZ_TARGET=$target "$fuzzer" "${options[@]}" -max_total_time="$seconds" "$grown" "$seeds" >"$log" 2>&1 ||
    found=$(grep -o "$build/found/$target-[^ ]*" "$log" | tail -n 1 || echo "see $log")
  executions=$(value stat::number_of_executed_units "$log")
  [[ $found == nothing ]] && ((executions >= 1000)) || failures=$((failures + 1))
  table+=$(printf '\n%-16s %12s %9s %9s %7s  %s' "$target" "$executions" "$(value cov "$log")" "$(value ft "$log")" \
    $((SECONDS - began)) "$found")
  if $keep && [[ $found == nothing ]]; then
    FLOTILLA_FUZZ_TARGET=$target "$fuzzer" -merge=1 -max_len=4096 "$seeds" "$grown" >>"$log" 2>&1
  fi
done
printf '%s\n' "$table"
((failures == 0)) || fail 1 "fuzz: $failures of ${#targets[@]} targets broke, or were executed fewer than 1,000 times"
