#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests once for each instruction set and prints how much of its bound each comparison of numbers used.
#
#   scripts/check_bounds.sh [--sets "SET..."] [--table FILE] [FOLDER [what ctest takes]]
#
#   FOLDER    a build with tests (default: build/test)
#   --sets    instruction sets as oneDNN names them (default: those of SSE41, AVX2, AVX512_CORE and DEFAULT that this
#             processor has; DEFAULT is oneDNN's own choice)
#   --table   writes the table to FILE, too
#
# Ends with a line for each comparison, the largest first, and with 1 if a test failed or a comparison used more than a
# half of its bound: another processor or library may then fail it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

sets=(SSE41)
if grep -qw avx2 /proc/cpuinfo; then sets+=(AVX2); fi
if grep -qw avx512bw /proc/cpuinfo; then sets+=(AVX512_CORE); fi
sets+=(DEFAULT)
table=/dev/null
while (($#)); do
  case $1 in
    --sets)
      read -ra sets <<<"${2:?bounds: --sets needs the names of instruction sets}"
      shift
      ;;
    --table)
      table=${2:?bounds: --table needs a file}
      shift
      ;;
    -h | --help)
      sed -n '3,13s/^# \{0,1\}//p' scripts/check_bounds.sh
      exit 0
      ;;
    *) break ;;
  esac
  shift
done
build=${1:-build/test}
(($# == 0)) || shift
[[ -f $build/CTestTestfile.cmake ]] || fail 2 "bounds: $build holds no tests: scripts/test.sh makes such a build"

open_mpi_settings
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
code=0
for set in "${sets[@]}"; do
  limit=(ONEDNN_MAX_CPU_ISA="$set")
  [[ $set != DEFAULT ]] || limit=(-u ONEDNN_MAX_CPU_ISA)
  say "bounds: the tests with $set"
  env "${limit[@]}" FLOTILLA_BOUND_SHARES="$folder/$set" ctest --test-dir "$build" -j $((2 * $(nproc))) \
    --output-on-failure --no-tests=error "$@" >"$folder/log" || {
    sed -n '/The following tests FAILED/,$p' "$folder/log"
    code=1
  }
  touch "$folder/$set"
done

# Compilers write paths from the root, or relative to the build folder: what follows the last "tests/" names the source.
(cd "$folder" && awk -v sets="${sets[*]}" '
  {
    place = $1
    sub(/.*\/tests\//, "tests/", place)
    share[place, FILENAME] = share[place, FILENAME] > $2 + 0 ? share[place, FILENAME] : $2 + 0
    if ($2 ~ /inf/) share[place, FILENAME] = 1e9
    if (share[place, FILENAME] > most[place]) most[place] = share[place, FILENAME]
    seen[place]
  }
  END {
    count = split(sets, name, " ")
    for (place in seen) {
      printf "%.3f %s", most[place], place
      for (i = 1; i <= count; ++i)
        if ((place, name[i]) in share) printf " %s %.3f", name[i], share[place, name[i]]
        else printf " %s -", name[i]
      print ""
    }
  }' "${sets[@]}") | sort -k1,1gr -k2 >"$folder/table"
tee "$table" <"$folder/table"
above=$(awk '$1 > 0.5' "$folder/table" | wc -l)
say "bounds: on $(processor)"
say "bounds: $above of $(wc -l <"$folder/table") comparisons used more than a half of their bound"
((above == 0)) || code=1
exit "$code"
