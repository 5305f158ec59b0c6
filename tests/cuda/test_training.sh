#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program itself on the fake GPU (tests/cuda/fake), and linked with the real libraries where there is no GPU.
# Arguments: the program on the fake GPU, the program with CUDA, source folder, whether NCCL is in the first ("yes").
set -euo pipefail
on_fake_gpu=$1 with_cuda=$2 source=$3 with_nccl=$4
# shellcheck source=tests/install/expect.sh
. "$source/tests/install/expect.sh"
# shellcheck source=scripts/common.sh
. "$source/scripts/common.sh"
cd "$work"

mnist=("$source/inputs/mnist_mlp.toml" train.batch_size=32 run.log_every=1 validation.every=0)

# tells <run>: the loss scale after its last step, and the steps that it skipped
tells() {
  echo "$(sed -n 's/.*"event": *"step".*"loss_scale": *\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1)" \
    "$(sed -n 's/.*"event": *"end".*"skipped_steps": *\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1)"
}

# train <ranks> <run> <key=value>...: the MLP on the fake GPU
train() {
  local ranks=$1 run=$2
  shift 2
  "${MPIEXEC:?}" -n "$ranks" "$on_fake_gpu" train --verbose "${mnist[@]}" run.output="$run" "$@" >"$run.said" 2>&1 || {
    cat "$run.said"
    expect "exit code of $run" 0 1
  }
}

# expect_close <what> <run> <run> <relative difference>: as many losses, none further apart (tests/support/within.hpp)
expect_close() {
  paste <(step_losses "$2") <(step_losses "$3") >pairs
  if [[ ${FLOTILLA_BOUND_SHARES:-} ]]; then
    awk -v most="$4" -v place="tests/cuda/test_training.sh:${BASH_LINENO[0]}" '
      { d = ($1 < $2 ? $2 - $1 : $1 - $2) / (most * $1); if (d > share) share = d }
      END { printf "%s %g\n", place, share }' pairs >>"$FLOTILLA_BOUND_SHARES"
  fi
  expect "$1: steps" 8 "$(grep -c . pairs)"
  expect "$1: losses that differ" '' \
    "$(awk -v most="$4" '{ d = $1 - $2; if (d < 0) d = -d } NF != 2 || d > most * $1' pairs)"
}

# expect_in <what> <part> <file>
expect_in() {
  grep -qF -- "$2" "$3" || expect "$1" "… $2 …" "$(<"$3")"
}

it_learns_what_the_cpu_learns() {
  train 1 cpu train.steps=8 device.kind=cpu
  train 1 gpu train.steps=8 device.kind=cuda
  expect_close 'one GPU' cpu gpu 1e-4
  train 1 half train.steps=8 device.kind=cuda device.precision=bfloat16
  expect_close 'bfloat16' cpu half 3e-2
  train 2 cpus train.steps=8 device.kind=cpu
  train 2 gpus train.steps=8 device.kind=cuda
  expect_close 'two GPUs' cpus gpus 1e-4
}

it_learns_a_network_of_the_deck() {
  local mnist=("$source/inputs/cnn_mnist.toml" train.global_batch_size=32 run.log_every=1 validation.every=0 train.steps=8
    "model.layers=conv 8 3 stride 2, batch_norm, relu, residual projection, conv 16 3 padding 1, gelu, end, relu, $(
    )max_pool 2, conv 16 2, flatten, silu, linear 16, layer_norm, tanh, linear 10")
  train 1 layers_cpu device.kind=cpu
  train 1 layers_gpu device.kind=cuda
  expect_close 'a network of the deck' layers_cpu layers_gpu 1e-3
  train 1 layers_graphs device.kind=cuda device.graphs=true
  expect 'a network of the deck in graphs' "$(step_losses layers_gpu)" "$(step_losses layers_graphs)"
  # Statistics of batch norms and two updates a step, whose tables are made in the first one.
  local optimizer
  for optimizer in lamb lars; do
    train 1 "$optimizer" device.kind=cuda optimizer.kind="$optimizer"
    train 1 "${optimizer}_graphs" device.kind=cuda optimizer.kind="$optimizer" device.graphs=true
    expect "graphs, $optimizer" "$(step_losses "$optimizer")" "$(step_losses "${optimizer}_graphs")"
  done
  train 1 layers_half device.kind=cuda device.precision=bfloat16
  expect_close 'a network of the deck, bfloat16' layers_cpu layers_half 5e-2
}

gpus_exchange_gradients_in_each_way() {
  if [[ $with_nccl == no ]]; then return; fi
  expect_in 'auto takes NCCL' 'all-reduce   nccl, ' gpus.said
  expect_in 'a GPU for each rank' 'one for each rank' gpus.said
  local way
  for way in nccl-hierarchical nccl-mpi mpi; do
    local more=(strategy.all_reduce="$way" strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.1)
    if [[ $way == nccl-* ]]; then more+=(strategy.ranks_per_group=1); fi
    train 2 "$way" train.steps=8 device.kind=cuda "${more[@]}"
    expect_close "two GPUs by $way" cpus "$way" 1e-4
    expect_in "$way" "all-reduce   $way" "$way.said"
  done
  NCCL_LAUNCH_ORDER_IMPLICIT=1 train 2 two train.steps=8 device.kind=cuda strategy.all_reduce=nccl strategy.communicators=2 strategy.bucket_mb=0.1 \
    strategy.last_bucket_mb=0.1
  expect_close 'two communicators' cpus two 1e-4
  train 2 half_wire train.steps=8 device.kind=cuda strategy.all_reduce=nccl-mpi strategy.ranks_per_group=1 \
    strategy.wire=bfloat16
  expect_close 'half values between groups' cpus half_wire 3e-2
  train 2 averages_on_cpus train.steps=8 strategy.kind=local-sgd strategy.period=2
  train 2 averages train.steps=8 device.kind=cuda strategy.kind=local-sgd strategy.period=2 strategy.all_reduce=nccl
  expect_close 'averages by NCCL' averages_on_cpus averages 1e-4
}

# The network of the norms alone breaks, in the first step: no call returns that, so the watchdog has to ask.
a_synchronised_norm_that_loses_its_network_ends_the_job() {
  if [[ $with_nccl == no ]]; then return; fi
  FLOTILLA_FAKE_NCCL_DOUBLES=2 expect_said 'step 0: NCCL: remote process exited or there was a network error: the fake network broke; ' 3 \
    timeout 200 "${MPIEXEC:?}" -n 2 "$on_fake_gpu" train "$source/inputs/cnn_mnist.toml" train.global_batch_size=16 train.steps=4 \
    'model.layers=conv 4 3 stride 2, batch_norm, relu, flatten, linear 10' model.batch_norm=synchronised device.kind=cuda \
    strategy.all_reduce=nccl run.output=broken
}

graphs_change_no_bit() {
  # What changes from step to step: rate, corrections, masks, shares, scale of the loss.
  local changing=(train.steps=8 device.kind=cuda optimizer.kind=adam schedule.learning_rate=0.001 model.dropout=0.1
    train.mixup=0.2 schedule.kind=cosine schedule.warmup_epochs=0.001)
  local what
  for what in '1 float32' '1 float16' '2 float32'; do
    local more=(device.precision="${what#* }")
    if [[ $what == 2* && $with_nccl == yes ]]; then
      more+=(strategy.all_reduce=nccl strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.1)
    fi
    train "${what% *}" one_by_one "${changing[@]}" "${more[@]}"
    train "${what% *}" in_graphs "${changing[@]}" "${more[@]}" device.graphs=true
    expect_in "$what" ', graphs' in_graphs.said
    expect "graphs, $what" "$(step_losses one_by_one)" "$(step_losses in_graphs)"
    expect "graphs, $what: steps" 8 "$(step_losses in_graphs | wc -l)"
    rm -r one_by_one in_graphs
  done
}

# The GPU decides whether a step is taken; the host learns of it at reports, or a step late.
overflows_are_skipped_whoever_knows_of_them() {
  local restless=(train.steps=24 device.kind=cuda device.precision=float16 optimizer.kind=adam schedule.learning_rate=0.001
    device.loss_scale.initial=1e9 device.loss_scale.backoff=0.05 device.loss_scale.growth_every=4)
  train 1 known "${restless[@]}"
  train 1 unknown "${restless[@]}" run.log_every=24
  train 1 stopped "${restless[@]}" run.log_every=24 train.steps=9
  train 1 stopped "${restless[@]}" run.log_every=24 device.graphs=true
  local run
  for run in unknown stopped; do
    expect "$run: the last loss" "$(step_losses known | tail -n 1)" "$(step_losses "$run" | tail -n 1)"
    expect "$run: scale and skipped steps" "$(tells known)" "$(tells "$run")"
  done
  expect 'steps were skipped' 1 "$(($(tells known | sed 's/.* //') > 2))"
}

it_times_steps() {
  local precision overflowing=()
  for precision in float32 float16; do
    if [[ $precision == float16 ]]; then
      overflowing=(device.loss_scale.initial=1e12 device.loss_scale.backoff=0.1 device.loss_scale.backoff_every=1)
    fi
    FLOTILLA_FAKE_GPU_SEED=0 "$on_fake_gpu" bench step "${mnist[0]}" train.batch_size=8 device.kind=cuda device.precision="$precision" \
      "${overflowing[@]}" --steps 20 --json "$precision.json" >"$precision.said" 2>&1 || expect "bench step, $precision" 0 "$(<"$precision.said")"
    grep -q samples_per_s "$precision.json" || expect "figures, $precision" samples_per_s "$(<"$precision.json")"
    # With this seed the fake GPU does nothing before it is waited for: what the host does alone is a part of the step.
    expect "a step takes as long as its operations, $precision" 1 \
      "$(sed -n 's/.*"fraction": *\([0-9.]*\).*/\1/p' "$precision.json" | awk '{ print ($1 < 1.5) }')"
  done
  expect 'a step that overflows leaves the next ones as they are' 1 \
    "$(sed -n 's/.*"skipped_steps": *\([0-9]*\).*/\1/p' float16.json | awk '{ print ($1 < 12) }')"
}

ranks_share_a_gpu_only_where_the_deck_allows_it() {
  local job=("${MPIEXEC:?}" -n 3 "$on_fake_gpu" train "${mnist[@]}" train.steps=1 device.kind=cuda)
  expect_said 'would share one GPU (0000:01:00.0)' 2 "${job[@]}" run.output=crowd
  if [[ $with_nccl == no ]]; then return; fi
  expect_said 'needs a GPU for each rank, but ranks 0 and 2 share one' 2 "${job[@]}" run.output=crowd device.share=true \
    strategy.all_reduce=nccl
  train 3 shared train.steps=1 device.kind=cuda device.share=true
  expect_in 'without NCCL' 'all-reduce   shared-memory' shared.said
}

a_checkpoint_of_one_kind_resumes_on_the_other() {
  train 1 resumed train.steps=4 device.kind=cpu
  train 1 resumed train.steps=8 device.kind=cuda
  expect_close 'CPU, then GPU' cpu resumed 1e-4
}

# Skipped on a machine that has one.
without_a_gpu_it_says_so() {
  if [[ -e /dev/nvidia0 ]]; then return; fi
  expect_said 'GPU' 2 "$with_cuda" train "${mnist[@]}" train.steps=1 device.kind=cuda
}

it_learns_what_the_cpu_learns
it_learns_a_network_of_the_deck
gpus_exchange_gradients_in_each_way
a_synchronised_norm_that_loses_its_network_ends_the_job
graphs_change_no_bit
overflows_are_skipped_whoever_knows_of_them
it_times_steps
ranks_share_a_gpu_only_where_the_deck_allows_it
a_checkpoint_of_one_kind_resumes_on_the_other
without_a_gpu_it_says_so
verdict
