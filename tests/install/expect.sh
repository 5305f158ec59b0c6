# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of this folder share. Sourced, not run.
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect <what> <expected> <found>
expect() {
  if [[ $2 != "$3" ]]; then
    printf 'FAILED: %s\n  expected: %s\n  found:    %s\n' "$1" "$2" "$3"
    failures=$((failures + 1))
  fi
}

# expect_said <part> <exit code> <command>...: the command ends with that code and says the part.
expect_said() {
  local part=$1 wanted=$2 code=0 said
  shift 2
  said=$("$@" 2>&1) || code=$?
  expect "exit code of $*" "$wanted" "$code"
  [[ $said == *"$part"* ]] || expect "what $* says" "… $part …" "$said"
}

verdict() {
  ((failures == 0)) || exit 1
  echo "all as expected"
}
