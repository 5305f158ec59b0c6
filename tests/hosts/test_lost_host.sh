#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A training on two hosts (hosts.sh): one of them crashes, or its link is cut for a while. After a crash no process of the
# training may be left, and the next run goes on from the state in the other host's memory, which is newer than the newest
# checkpoint that was reported; a link that comes back within run.watchdog_s changes nothing, not a bit of the model. By hand:
#   tests/hosts/test_lost_host.sh build/cpu
set -euo pipefail
set -m # the launcher, which may hear no more of its daemon on the other host, is ended with its group
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin mpirun "$@"

train() {
  "$hosts" run -n 4 --map-by slot "$build/flotilla" train "$source/inputs/mnist_mlp.toml" device.threads=1 \
    run.log_every=20 checkpoint.every=20 strategy.all_reduce=hierarchical "$@"
}
# Processes of the training on a host; those that have ended stay as entries: no process reaps them.
left() { "$hosts" exec "$1" pgrep -r D,R,S,T,t -x flotilla | wc -l; }
# The job whose launcher is $launcher must still run.
goes_on() { kill -0 "$launcher" || { cat "$work/errors" >&2; exit 1; }; }
newest_reported() { grep '"checkpoint"' "$work/run/metrics.jsonl" | tail -n 1 | grep -o 'step-[0-9]*' | grep -o '[1-9][0-9]*'; }
# The step of the newest state in a host's memory; 0: there is none.
in_memory() {
  { echo step-0; "$hosts" exec "$1" sh -c 'ls /dev/shm/flotilla-*/step-*.h5' 2> "$work/none" || true; } | tail -n 1 |
    sed 's/.*step-0*\([0-9]\)/\1/; s/\.h5//'
}
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# crash HOST OTHER
crash() {
  local began ended launcher code=0 saved rescued resumed
  rm -rf "${work:?}"/run
  SLOTS=2 "$hosts" up 2
  # The run has a checkpoint, writes no other one, and is ended once its hosts keep a newer state in memory. How long that
  # takes depends on what writing a state costs on this machine.
  train run.output="$work/run" train.epochs=0 train.steps=60 > "$work/out"
  train run.output="$work/run" train.epochs=100000 run.watchdog_s=4 checkpoint.every=0 run.emulate_straggler.rank=0 \
    run.emulate_straggler.pause_s=0.01 > "$work/out" 2> "$work/errors" &
  launcher=$!
  until [ "$(in_memory "$2")" -gt "$(newest_reported)" ]; do goes_on; sleep 0.05; done
  began=$(milliseconds)
  "$hosts" crash "$1"
  until [ "$(left "$2")" = 0 ]; do sleep 0.05; done
  ended=$(milliseconds)
  # Open MPI's launcher ends by itself as a rule, but was seen to hang once it has said that it cannot go on.
  for _ in $(seq 100); do
    if ! kill -0 "$launcher" 2> "$work/none"; then break; fi
    sleep 0.1
  done
  kill -9 -- "-$launcher" 2> "$work/none" || true
  wait "$launcher" 2>> "$work/none" || code=$?
  [ "$code" != 0 ]
  saved=$(newest_reported)
  grep "flotilla: " "$work/errors" || echo "   (nothing from Flotilla: the launcher ends it)"
  grep -i "lost communication" "$work/errors" || true
  "$hosts" exec "$2" "$build/flotilla" rescue "$work/run" | tee "$work/out"
  rescued=$(grep -o 'state of step [0-9]*' "$work/out" | grep -o '[0-9]*$')
  "$hosts" down
  SLOTS=4 "$hosts" up 1
  train run.output="$work/run" train.global_batch_size=256 train.epochs=0 train.steps=$((rescued + 60)) > "$work/out"
  resumed=$(grep -o 'resumed .* step [0-9]*' "$work/out" | grep -o '[0-9]*$')
  echo "== crash of $1: exit code $code, all gone $((ended - began)) ms later; saved $saved, in memory $rescued, resumed" \
    "$resumed on one host"
  [ "$rescued" -gt "$saved" ]
  [ "$resumed" -ge "$rescued" ]
  "$hosts" down
}

# The checksums of the newest checkpoint's tensors.
tensors() { "$build/flotilla" inspect --json "$1" | grep '"checksum"'; }

cut_and_join() {
  local launcher
  rm -rf "${work:?}"/run
  SLOTS=2 "$hosts" up 2
  train run.output="$work/whole" train.steps=600 > "$work/out"
  # A pause in every step, so that it is not over before the link comes back.
  train run.output="$work/run" train.steps=600 run.watchdog_s=30 run.emulate_straggler.rank=1 \
    run.emulate_straggler.pause_s=0.01 > "$work/out" 2> "$work/errors" &
  launcher=$!
  until grep -q '"step"' "$work/run/metrics.jsonl" 2>/dev/null; do goes_on; sleep 0.1; done
  "$hosts" cut h1
  sleep 2
  if grep -q '"end"' "$work/run/metrics.jsonl"; then
    echo "the training ended before the link came back"
    return 1
  fi
  "$hosts" join h1
  wait "$launcher"
  if grep "flotilla:" "$work/errors"; then false; fi
  tensors "$work/whole" > "$work/tensors.whole"
  tensors "$work/run" > "$work/tensors.run"
  cmp "$work/tensors.whole" "$work/tensors.run"
  echo "== link cut for 2 s: it goes on, to the same model"
  "$hosts" down
}

crash h1 h0
crash h0 h1 # rank 0's
cut_and_join
echo "all passed"
