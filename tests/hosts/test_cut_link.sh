#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A training on two hosts (hosts.sh) whose link is cut: every process of it must be gone within run.watchdog_s + 5 s, on both
# sides, and the line on the launcher's side must name the ranks that it does not hear of. By hand:
#   tests/hosts/test_cut_link.sh build/cpu [mpi hierarchical …]
set -euo pipefail
set -m # the launcher, which hears no more of its daemon on the other host, is ended with its group
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin mpirun "$@"
shift
watchdog_s=4

# A process that has ended stays as an entry there: no process reaps it.
left() { { for host in h0 h1; do "$hosts" exec "$host" pgrep -r D,R,S,T,t -x flotilla; done; } | wc -l; }

cut() {
  local word=$1 began ended
  rm -rf "${work:?}"/{run,out,errors}
  SLOTS=2 "$hosts" up 2
  "$hosts" run -n 4 --map-by slot "$build/flotilla" train "$source/inputs/mnist_mlp.toml" run.output="$work/run" \
    device.threads=1 train.epochs=100000 validation.every=0 run.log_every=20 run.watchdog_s=$watchdog_s strategy.all_reduce="$word" \
    > "$work/out" 2> "$work/errors" &
  local launcher=$!
  until grep -q '"step"' "$work/run/metrics.jsonl" 2>/dev/null; do
    kill -0 "$launcher" || { cat "$work/errors" >&2; exit 1; }
    sleep 0.1
  done
  "$hosts" cut h1
  began=$(date +%s%N)
  until [ "$(left)" = 0 ]; do sleep 0.05; done
  ended=$(date +%s%N)
  echo "== $word: all gone $(((ended - began) / 1000000)) ms after the cut, watchdog_s = $watchdog_s"
  grep "flotilla: rank [01] on h0" "$work/errors" | tee "$work/line"
  # Most likely in a step; but reports, comparisons of the models and saves meet as well.
  grep -qE ": (all-reduce of bucket|comparing the workers' models|reporting|saving).*rank 2 on h1, rank 3 on h1 do not answer" "$work/line"
  kill -9 -- "-$launcher" 2> "$work/none" || true # it may have ended
  wait "$launcher" 2>> "$work/none" || true
  "$hosts" down
}

for word in "${@:-hierarchical}"; do cut "$word"; done
echo "all passed"
