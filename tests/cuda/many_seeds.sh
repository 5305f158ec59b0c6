#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests on the fake GPU, whose streams work in another order with each seed (tests/cuda/fake/queues.hpp), and of its loops,
# whose lanes come in another one (tests/kernels/shuffled_order.hpp). CI runs a few seeds of the quick ones; by hand many, of all:
#   tests/cuda/many_seeds.sh FIRST LAST PROGRAM...      a hundred seeds of build/dev/tests/cuda/test_gpu_*: half a minute
set -euo pipefail
first=$1 last=$2
shift 2
said=$(mktemp)
trap 'rm -f "$said"' EXIT
for ((seed = first; seed <= last; ++seed)); do
  for program in "$@"; do
    FLOTILLA_FAKE_GPU_SEED=$seed "$program" >"$said" 2>&1 || {
      cat "$said"
      echo "FAILED: FLOTILLA_FAKE_GPU_SEED=$seed $program"
      exit 1
    }
  done
done
echo "all as expected with seeds $first to $last"
