#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run finds out about its hosts before it begins, on emulated hosts (hosts.sh): a slow link, an output folder or data
# that one host does not have, hosts with fewer ranks, data staged to each host's own disk.
#   tests/hosts/test_startup.sh build/cpu
set -euo pipefail
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin mpirun "$@"
data=$work/data
mkdir -p "$data" "$work/disk" "$work/own"
cp "$source"/inputs/data/mnist/* "$data"

# train CODE RUN OPTIONS… -- KEYS…: a short run over the hosts, which must end with CODE.
train() {
  local wanted=$1 run=$2 code=0 options=()
  shift 2
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  echo "== $run"
  "$hosts" run "${options[@]}" "$build/flotilla" train --verbose "$source/inputs/mnist_mlp.toml" run.output="$work/$run" \
    data.train.images="$data/train-images-idx3-ubyte.gz" data.train.labels="$data/train-labels-idx1-ubyte.gz" \
    data.validation.images= data.validation.labels= train.steps=2 device.threads=1 "$@" \
    > "$work/out" 2> "$work/errors" || code=$?
  if [ "$code" != "$wanted" ]; then
    cat "$work/out" "$work/errors"
    echo "ended with $code, not $wanted"
    exit 1
  fi
}

# says FILE TEXT: the text must be in it.
says() {
  if ! grep -qF -- "$2" "$work/$1"; then
    cat "$work/$1"
    echo "does not say: $2"
    exit 1
  fi
  grep -F -- "$2" "$work/$1" | head -n 1
}

SLOTS=2 "$hosts" up 3

# One host's link is slow.
"$hosts" shape 10mbit h2
train 0 slow -n 3 --map-by node --
says out "3 on 3 hosts h0…h2: 1 rank each, "
says out "network      "
says errors "flotilla: warning: the network of h2 is slow: at most 0.0"
grep -q '"network_gb_s":.*"slowest_link":"h[01] h2"' "$work/slow/metrics.jsonl"
"$hosts" shape none h2

# The deck forbids to measure the network.
train 0 unasked -n 2 --host h0:1,h2:1 -- run.check_network=false
if grep -q "^network" "$work/out" || grep -q network_gb_s "$work/unasked/metrics.jsonl"; then exit 1; fi

# Hosts with unequal numbers of ranks.
train 0 unequal -n 3 --host h0:2,h1:1 --
says errors "h1 has 1 rank, h0 has 2: every step waits for the slowest; start as many on each host"

# A folder that h1 has for itself.
"$hosts" exec h1 mount -t tmpfs tmpfs "$work/own"
train 2 own/run -n 2 --host h0:1,h1:1 --
says errors ": run.output = $work/own/run is not one folder for all hosts: what rank 0 on h0 writes there is not seen on h1"
[ ! -e "$work/own/run" ]

# Data that h1 does not have.
"$hosts" exec h1 mount -t tmpfs tmpfs "$data"
train 2 missing -n 2 --host h0:1,h1:1 --
says errors "flotilla: on h1, not on the other hosts: 2 files of data cannot be read:"
says errors "flotilla:   data.train.images: cannot open '$data/train-images-idx3-ubyte.gz': "

# Staging does not help: h1 has nothing to copy.
train 2 unstaged -n 2 --host h0:1,h1:1 -- data.stage_to="$work/disk"
says errors "flotilla: on h1, not on the other hosts: 2 files of data cannot be read:"
says errors "flotilla:   data.train.labels: cannot open '$data/train-labels-idx1-ubyte.gz': "
"$hosts" exec h1 umount "$data"

# Staged to the disk of each host, which is too small on h1, then large enough; and once only.
rm -rf "$work"/disk/*
"$hosts" exec h0 mount -t tmpfs tmpfs "$work/disk"
"$hosts" exec h1 mount -t tmpfs -o size=64k tmpfs "$work/disk"
train 2 full -n 4 --map-by node --host h0:2,h1:2 -- data.stage_to="$work/disk"
says errors "flotilla: on h1, not on the other hosts: data.stage_to = $work/disk: the copies need "
"$hosts" exec h1 mount -o remount,size=100m "$work/disk"
train 0 staged -n 4 --map-by node --host h0:2,h1:2 -- data.stage_to="$work/disk"
says out ": copied to 1 of 2 hosts in "
for host in h0 h1; do
  "$hosts" exec "$host" sh -c "cmp $work/disk/flotilla-*$data/train-images-idx3-ubyte.gz $data/train-images-idx3-ubyte.gz"
done
train 0 again -n 4 --map-by node --host h0:2,h1:2 -- data.stage_to="$work/disk"
says out ", where all were"
[ -z "$(ls "$work/disk")" ]
# One host has too little memory to share: named, that is a mistake; "auto" does without, and says so.
"$hosts" exec h1 mount -o remount,size=24m /dev/shm
wide=("model.widths=[2048,2048]" run.watchdog_s=20)
train 2 shared -n 4 --map-by slot --host h0:2,h1:2 -- "${wide[@]}" strategy.all_reduce=hierarchical
says errors "flotilla: the 2 ranks on h1 need 4"
says errors "/dev/shm has 25"
train 0 shared -n 4 --map-by slot --host h0:2,h1:2 -- "${wide[@]}"
says errors 'flotilla: warning: strategy.all_reduce = "auto" does without "hierarchical": the 2 ranks on h1 need '
says out "all-reduce   mpi, "
echo "all passed"
