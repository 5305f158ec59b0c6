#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds with warnings as errors, and runs all tests.
#
#   scripts/test.sh [--no-setup] [what ctest takes, for example -R checkpoint or -L mpi]
#
# Ends with one line, "flotilla: N passed, N failed, N skipped", and with 0 only if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

usage() {
  sed -n '3,7s/^# \{0,1\}//p' scripts/test.sh
}

with_setup=true
case ${1:-} in
  --no-setup)
    with_setup=false
    shift
    ;;
  -h | --help)
    usage
    exit 0
    ;;
esac

build=build/test
if $with_setup; then
  scripts/setup.sh --tools
fi

began=$SECONDS
jobs=$(build_jobs)
find_ccache
# Without debug information a program of the tests takes 9 MB instead of 42, and all of them 2 GB instead of 7.
say "test: building in $build, $jobs compilers at once, warnings are errors"
if ! cmake --preset cpu -B "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DFLOTILLA_TESTS=ON \
  -DCMAKE_EXE_LINKER_FLAGS_RELWITHDEBINFO=-Wl,--strip-debug "${launcher[@]}" ||
  ! cmake --build "$build" -j "$jobs"; then
  fail 1 "test: the build failed; the first error stands above. No test was run."
fi
built_s=$((SECONDS - began))

open_mpi_settings
# Two at once for each core: jobs wait for launchers and for limits, or for each other, half of the time.
began=$SECONDS
code=0
report=$PWD/$build/test-report.xml
rm -f "$report"
ctest --test-dir "$build" -j $((2 * $(nproc))) --output-on-failure --no-tests=error --output-junit "$report" "$@" || code=$?

python3 tests/style/check_style.py "$PWD" lengths || true

# count <attribute>: what ctest's report says, 0 without one
count() {
  local value
  value=$(sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" 2>/dev/null | head -n 1)
  echo "${value:-0}"
}
# Repeats the last lines of each failed test at the end, where a reader looks first. GoogleTest's lines about what passed
# are left out.
if ((code != 0)); then
  awk '
    /^[0-9]+\/[0-9]+ Testing: / { name = $3 }
    /^Output:$/ { count = 0; printing = 1; next }
    /^<end of output>$/ { printing = 0 }
    /^Test Failed/ {
      print "failed: " name
      for (i = count > 30 ? count - 30 : 0; i < count; ++i) print "  " substr(lines[i], 1, 300)
    }
    printing && !/^\[ +(RUN|OK) / && !/^-----/ && !/^\[[-=]+\]/ && !/^$/ { lines[count++] = $0 }' \
    "$build/Testing/Temporary/LastTest.log" || true
fi
failed=$(count failures)
skipped=$(($(count skipped) + $(count disabled)))
passed=$(($(count tests) - failed - skipped))
say "test: on $(nproc) cores of $(processor)"
say "test: built in $(duration "$built_s"), tested in $(duration $((SECONDS - began)))"
echo "flotilla: $passed passed, $failed failed, $skipped skipped"
exit "$code"
