#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reads the sources of the program with clang's static analyzer (clang-tidy-19, clang-analyzer-*). Not part of the tests.
#
#   scripts/check_analyzers.sh [FILE...]     all sources of a build for CPUs, or these
#
# Ends with the number of findings; with 1 if there are any, or a source could not be read. GCC's -fanalyzer is left out:
# GCC 12 to 14 document it as made for C, and it does not follow exceptions.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,8s/^# \{0,1\}//p' scripts/check_analyzers.sh
  exit 0
fi
command -v clang-tidy-19 >/dev/null || fail 2 "analyzers: clang-tidy-19 is missing (scripts/setup.sh --tools)"

build=build/analyze
# Left out: Padding, because members are ordered by subject, and a few bytes in single objects cost nothing; MPI-Checker, which
# requires a request to be waited for in the function that made it, while ours are kept in lists; NewDeleteLeaks, which reports
# the unique_ptr of a conditional expression as leaked: LeakSanitizer finds leaks.
checks='-*,clang-analyzer-*,-clang-analyzer-optin.performance.Padding,-clang-analyzer-optin.mpi.MPI-Checker'
checks+=',-clang-analyzer-cplusplus.NewDeleteLeaks'
mkdir -p build
cmake --preset cpu -B "$build" -DCMAKE_UNITY_BUILD=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DFLOTILLA_TESTS=OFF \
  >"$build.log" 2>&1 || fail 1 "analyzers: cmake failed ($build.log)"
files=("$@")
((${#files[@]})) || mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json")
((${#files[@]})) || fail 1 "analyzers: $build/compile_commands.json names no source"
say "analyzers: reading ${#files[@]} sources"
began=$SECONDS
# Each process writes into a file of its own: lines of several would mix.
rm -rf "$build/findings"
mkdir -p "$build/findings"
export build checks
analyze() {
  local log code=0
  log=$build/findings/$(sha1sum <<<"$1" | cut -c 1-40)
  # An option that only GCC knows is not a finding.
  clang-tidy-19 -p "$build" --quiet --checks="$checks" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument "$1" >"$log" 2>&1 || code=$?
  ((code == 0)) || grep -qE '(warning|error): ' "$log" ||
    echo "$1: error: not read: clang-tidy-19 ended with $code" >>"$build/findings/unread"
}
export -f analyze
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'analyze "{}"'
cat "$build"/findings/* | grep -E '(warning|error): ' | sort -u >"$build.findings" || true
cat "$build.findings"
found=$(wc -l <"$build.findings")
say "analyzers: $found findings in ${#files[@]} sources, $(duration $((SECONDS - began)))"
((found == 0)) || exit 1
