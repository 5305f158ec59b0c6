#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check_bounds.sh on tests that say what shares of bounds they used. Argument: the source folder.
set -euo pipefail
script=$1/scripts/check_bounds.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# fail <what>
fail() {
  echo "FAILED: $1"
  cat said
  exit 1
}

# tests_with <share of one comparison with AVX2>: two processes at three places, one of them named in two ways
tests_with() {
  cat >CTestTestfile.cmake <<END
add_test([=[one]=] "sh" "-c" "printf '/a/tests/x.cpp:3 0.2\\n/a/tests/tests/y.cpp:9 1e-05\\n' >> \$FLOTILLA_BOUND_SHARES")
add_test([=[two]=] "sh" "-c" "test -z \"\$ONEDNN_MAX_CPU_ISA\" || printf '../../tests/x.cpp:3 $1\\n' >> \$FLOTILLA_BOUND_SHARES")
END
}

tests_with 0.4
"$script" --sets 'AVX2 DEFAULT' --table "$work/table" "$work" >said 2>&1 || fail 'shares below a half are refused'
[[ $(<table) == $'0.400 tests/x.cpp:3 AVX2 0.400 DEFAULT 0.200\n0.000 tests/y.cpp:9 AVX2 0.000 DEFAULT 0.000' ]] || fail 'another table'
grep -qx 'flotilla: bounds: 0 of 2 comparisons used more than a half of their bound' said || fail 'no count'

tests_with 0.6
if "$script" --sets AVX2 "$work" >said 2>&1; then fail 'a share of 0.6 is accepted'; fi
grep -qx 'flotilla: bounds: 1 of 2 comparisons used more than a half of their bound' said || fail 'no count'

tests_with inf
if "$script" --sets AVX2 "$work" >said 2>&1; then fail 'an infinite share is accepted'; fi

tests_with 0.1
echo 'add_test([=[bad]=] "false")' >>CTestTestfile.cmake
if "$script" --sets AVX2 "$work" >said 2>&1; then fail 'a test that fails is accepted'; fi
grep -q 'bad (Failed)' said || fail 'the test that failed is not named'
