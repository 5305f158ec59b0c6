#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check_gpu.sh on the fake GPU: lines that hold, that are skipped, that fail and that hang. Arguments: source folder,
# build folder.
set -euo pipefail
source=$1 build=$2
# shellcheck source=tests/install/expect.sh
. "$source/tests/install/expect.sh"

# A python3 without PyTorch, whatever is installed here.
mkdir "$work/packages"
for name in torch cudnn; do echo 'raise ImportError("not installed")' >"$work/packages/$name.py"; done
export PYTHONPATH=$work/packages

# check <part> <lines> [option]...: rehearses those lines into $work/found
check() {
  local part=$1 lines=$2
  shift 2
  rm -rf "$work/found"
  "$source/scripts/check_gpu.sh" --rehearse --build "$build" --only "$lines" "$@" "$part" "$work/found"
}

# expect_results <what> <line and result>...: those in the table, in this order
expect_results() {
  local what=$1
  shift
  expect "$what" "$(printf '%s\n' "$@")" "$(awk 'NR > 1 { print $1, $2 }' "$work/found/table.txt")"
  expect "$what, as JSON" "$(printf '%s\n' "$@")" \
    "$(python3 -c 'import json, sys; [print(row["line"], row["result"]) for row in map(json.loads, sys.stdin)]' <"$work/found/results.jsonl")"
}

lines_that_hold_and_lines_that_need_more() {
  expect_said '2 held, 0 failed, 1 skipped' 0 check a '^(card|test_gpu_order|mlp-float32-graphs-true)$'
  expect_results 'part a' 'card skipped' 'test_gpu_order held' 'mlp-float32-graphs-true held'
  expect 'what was compared' '8 of 8 losses are no further apart than 1e-4' "$(tail -n 1 "$work/found/mlp-float32-graphs-true.log")"
  expect_said 'needs a GPU for its time; a small form of its command ran on the fake GPU' 0 check b '^mlp'
  expect_results 'part b' 'mlp-graphs-false skipped' 'mlp-graphs-true skipped' 'mlp-torch skipped'
  expect 'without PyTorch' 1 "$(grep -c 'mlp-torch.*needs torch and torchvision' "$work/found/table.txt")"
  expect_said '3 held, 0 failed, 1 skipped' 0 check c '^(memcheck-mlp|two-ranks-share|killed-and-resumed|cpu-then-gpu)$'
}

# A build folder of links, in which a test computes wrongly, one does not end, and the GPU learns at another rate than the CPU.
lines_that_fail_and_lines_that_hang() {
  local really=$build real=$work/real
  build=$work/build
  mkdir -p "$build/tests/cuda"
  ln -s "$really/tests/cuda/flotilla_on_fake_gpu" "$real"
  printf '#!/bin/sh\necho computed wrongly\nexit 1\n' >"$build/tests/cuda/test_gpu_linear"
  printf '#!/bin/sh\necho begun\necho $$ >%s\nexec sleep 300\n' "$work/pid" >"$build/tests/cuda/test_gpu_conv2d"
  printf '#!/bin/sh\necho no GPU here\n' >"$build/tests/cuda/test_gpu_order"
  printf '#!/bin/sh\ncase "$*" in *device.kind=cuda*) set -- "$@" schedule.learning_rate=0.0013 ;; esac\nexec "%s" "$@"\n' \
    "$real" >"$build/tests/cuda/flotilla_on_fake_gpu"
  chmod +x "$build"/tests/cuda/*
  expect_said '1 held, 2 failed, 0 skipped' 1 check a '^(test_gpu_linear|mlp-float32-graphs-false|version)$'
  expect_results 'failures' 'version held' 'test_gpu_linear FAILED' 'mlp-float32-graphs-false FAILED'
  expect 'the reason of a test' 1 "$(grep -c 'test_gpu_linear.*exit code 1: computed wrongly' "$work/found/table.txt")"
  expect 'the reason of losses' 1 "$(grep -c 'mlp.*exit code 1: .* of 8 losses are no further apart' "$work/found/table.txt")"
  expect_said '0 held, 2 failed, 1 skipped' 1 check a '^(card|test_gpu_conv2d|test_gpu_order)$' --limit 2
  expect_results 'a line that hangs' 'card skipped' 'test_gpu_conv2d FAILED' 'test_gpu_order FAILED'
  expect 'the reason of a hang' 1 "$(grep -c 'test_gpu_conv2d.*ended, it may take 2 s; begun' "$work/found/table.txt")"
  # Bash continues to count from the SECONDS that it is given.
  expect_said '0 held, 2 failed' 1 env SECONDS=534 bash "$source/scripts/check_gpu.sh" --rehearse --build "$build" --only '^(version|card)$' a "$work/found"
  expect "a part's end" 2 "$(grep -c "the part's 9 minutes were over" "$work/found/table.txt")"
  no_line_outlives_the_script
  build=$really
}

# When the script is ended, the line that is running ends as well.
no_line_outlives_the_script() {
  rm -f "$work/pid"
  "$source/scripts/check_gpu.sh" --rehearse --build "$build" --only '^test_gpu_conv2d$' a "$work/found" >"$work/said" &
  until [[ -s $work/pid ]]; do sleep 0.1; done
  kill "$!"
  wait "$!" || true
  local pid
  pid=$(<"$work/pid")
  for _ in {1..100}; do
    kill -0 "$pid" 2>"$work/said" || return 0
    sleep 0.1
  done
  expect 'the line that was running' ended 'goes on'
  kill "$pid"
}

mistakes_are_refused() {
  expect_said 'give a part, a, b or c' 2 check d .
  expect_said 'unknown option' 2 check a . --fast
  expect_said '--limit must be a number of seconds' 2 check a . --limit soon
  expect_said 'there is no' 2 "$source/scripts/check_gpu.sh" --build "$work/none" a "$work/found"
  expect_said 'needs torch in' 2 python3 "$source/scripts/compare_torch_mlp.py"
  expect_said 'needs torch and torchvision in' 2 python3 "$source/scripts/compare_torch_speed.py" layers
  expect_said 'needs torch, torchvision and nvidia-cudnn-frontend in' 2 python3 "$source/scripts/cudnn_graph_plans.py" "$work/plans.json"
}

lines_that_hold_and_lines_that_need_more
lines_that_fail_and_lines_that_hang
mistakes_are_refused
verdict
