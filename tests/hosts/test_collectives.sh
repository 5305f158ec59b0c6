#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The all-reduce tests on two and three hosts (hosts.sh), with even and uneven numbers of ranks on them and with ranks placed
# on the hosts in turn. "few": three of the eight launches, which ctest makes.
#   tests/hosts/test_collectives.sh build/cpu [few]
set -euo pipefail
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin mpirun "$@"

# check HOSTS OPTIONS…
check() {
  local count=$1
  shift
  SLOTS=4 "$hosts" up "$count"
  echo "== $count hosts: $*"
  "$hosts" run "$@" "$build/tests/mpi/test_all_reduce" --gtest_brief=1
  "$hosts" down
}

check 2 -n 4 --map-by node
check 2 -n 3 --host h0:2,h1:1
check 3 -n 6 --host h0:3,h1:2,h2:1
if [ "${2:-}" != few ]; then
  check 2 -n 2 --map-by node
  check 2 -n 4 --host h0:2,h1:2
  check 3 -n 3 --map-by node
  check 3 -n 6 --host h0:2,h1:2,h2:2
  check 3 -n 8 --map-by node
fi
echo "all passed"
