# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The lines of scripts/check_gpu.sh, which sources this and runs each in a process of its own.
# shellcheck disable=SC2154 # check_gpu.sh exports here, program, tests, suffix, mpirun, rehearse, output and line_name.
exit_skipped=77
# The same bits in every run, and cuDNN's algorithms by its own ranking instead of a measurement.
exact=(run.reproducible=true run.virtual_shards=1 device.threads=1)

# skip <what the line needs>: ends a line that this machine cannot show.
skip() {
  echo "needs $*"
  exit "$exit_skipped"
}

# only_with <what>: ends a line whose command has run on the fake GPU, where its result means nothing.
only_with() {
  if $rehearse; then skip "$*; a small form of its command ran on the fake GPU"; fi
}

# run_under <tool> <argument>...: sets the array `under` to the tool that the program is to run under; empty in a rehearsal.
run_under() {
  under=()
  if $rehearse; then return; fi
  command -v "$1" >/dev/null || skip "$1 in PATH"
  under=("$@")
  # The program restarts itself to set OpenMP's wait policy unless it has one, which not every tool follows.
  export OMP_WAIT_POLICY=passive
}

# needs_torch: ends a line that cannot be compared with PyTorch here.
needs_torch() {
  python3 -c 'import torch, torchvision' 2>/dev/null || skip "torch and torchvision, which no python3 in PATH has"
  python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' ||
    skip "a torch that sees a GPU: $(python3 -c 'import torch; print(torch.__version__)') of $(command -v python3) sees none"
}

# launch <ranks> <argument>...: the program, alone without a launcher
launch() {
  local ranks=$1
  shift
  if ((ranks == 1)); then "$program" "$@"; else "$mpirun" -n "$ranks" "$program" "$@"; fi
}

# deck_of <model>: sets the array `deck` to what is trained. In a rehearsal batches are small, and a small network of
# convolutions stands for ResNet-50, which the fake GPU would compute for minutes.
deck_of() {
  local size=64 batch=32
  if $rehearse; then size=32 batch=16; fi
  case $1 in
    mlp) deck=("$here/inputs/mnist_mlp.toml" train.global_batch_size=32) ;;
    resnet18) deck=("$here/inputs/resnet50_synthetic.toml" model.depth=18 model.classes=10 "data.shape=[3,$size,$size]"
      train.global_batch_size="$batch" schedule.learning_rate=0.00001) ;;
    resnet50) deck=("$here/inputs/resnet50_synthetic.toml" train.global_batch_size=256) ;;
    ctr) deck=("$here/inputs/ctr_dnn_criteo.toml" data.train.path="$output/clicks.tsv" data.validation.path="$output/clicks.valid.tsv") ;;
  esac
  if $rehearse; then
    case $1 in
      resnet50) deck=("$here/inputs/cnn_mnist.toml" train.global_batch_size=4) ;;
      ctr) deck+=(train.batch_size=20) ;;
    esac
  fi
  deck+=(run.log_every=1 validation.every=0)
}

# train <ranks> <model> <run> <cpu|cuda> <key=value>...: eight steps, into $output/runs/RUN
train() {
  local ranks=$1 run=$output/runs/$3 kind=$4 deck
  deck_of "$2"
  shift 4
  if [[ $kind == cuda && "$*" != *device.precision=* ]]; then deck+=(device.tf32=none); fi
  launch "$ranks" train "${deck[@]}" train.epochs=0 train.steps=8 device.kind="$kind" run.output="$run" "$@"
}

# expect_losses <run> <run> <relative difference>: eight losses each, none further apart
expect_losses() {
  paste <(step_losses "$output/runs/$1") <(step_losses "$output/runs/$2") | awk -v most="$3" '
    { d = $1 > $2 ? $1 - $2 : $2 - $1; off = d / $1; print "losses " $1 " " $2 ", relative difference " off }
    NF == 2 && off <= most { ++near }
    END { printf "%d of 8 losses are no further apart than %s\n", near, most; exit !(near == 8 && NR == 8) }'
}

# cpu_losses <ranks> <model>: trains on this machine's CPU, once a part, what GPUs are compared with.
cpu_losses() {
  if [[ ! -e $output/runs/$2-cpu-$1/checkpoints/step-00000008.h5 ]]; then
    train "$1" "$2" "$2-cpu-$1" cpu run.resume=never
  fi
}

# like_cpu <ranks> <model> <relative difference> <key=value>...: trains as the CPU does
like_cpu() {
  local ranks=$1 model=$2 most=$3
  shift 3
  cpu_losses "$ranks" "$model"
  train "$ranks" "$model" "$line_name" cuda run.resume=never "$@"
  expect_losses "$model-cpu-$ranks" "$line_name" "$most"
}

device_test() {
  NVIDIA_TF32_OVERRIDE=0 "$tests/$1$suffix" | tee "$output/runs/said"
  if grep -F "no GPU here" "$output/runs/said"; then return 1; fi
}

the_card() {
  if $rehearse; then skip 'a GPU, this is the fake one'; fi
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv
}

# Uses cuDNN's own ranking of algorithms (run.reproducible), because a measurement would include the profiler.
profiled_step() {
  local deck under
  run_under ncu --cache-control none --clock-control none --target-processes all --csv --print-summary per-kernel --print-units base \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,launch__registers_per_thread \
    --log-file "$output/kernels.csv"
  deck_of resnet50
  "${under[@]}" "$program" train "${deck[@]}" train.epochs=0 train.steps=1 device.kind=cuda device.precision=bfloat16 \
    "${exact[@]}" run.output="$output/runs/profiled" run.resume=never
  only_with 'a GPU and ncu'
  grep -q dram__bytes_read "$output/kernels.csv"
}

# How far the losses of eight steps may be from the CPU's, relatively: 1e-4 in float32, whose sums have another order (fake GPU:
# 2e-6 at most); in half precision, compared with a CPU that computes in float32, what rounding to 8 and 11 bits adds up to, 3e-2
# and 1e-2 (fake GPU: 9e-3 and 7e-4). The learning rate of ResNet-18 is small, because training amplifies differences from step to
# step.
part_a() {
  local test model graphs
  line version 60 launch 1 --version
  line card 30 the_card
  for test in linear conv2d device order overflow_guard resnet; do line "test_gpu_$test" 120 device_test "test_gpu_$test"; done
  for model in mlp resnet18; do
    for graphs in false true; do
      line "$model-float32-graphs-$graphs" 120 like_cpu 1 "$model" 1e-4 device.graphs="$graphs"
      line "$model-bfloat16-graphs-$graphs" 120 like_cpu 1 "$model" 3e-2 device.precision=bfloat16 device.graphs="$graphs"
      line "$model-float16-graphs-$graphs" 120 like_cpu 1 "$model" 1e-2 device.precision=float16 device.loss_scale.initial=128 \
        device.graphs="$graphs"
    done
  done
  line kernels-of-a-step 200 profiled_step
}

# step_figures <ranks> <model> <file> <key=value>...: figures into $output/FILE.json
step_figures() {
  local ranks=$1 file=$3 deck steps=100
  deck_of "$2"
  shift 3
  if $rehearse; then steps=2; fi
  launch "$ranks" bench step "${deck[@]}" device.kind=cuda --operations --steps "$steps" --json "$output/$file.json" "$@"
}

# bench_step <ranks> <model> <key=value>...
bench_step() {
  local ranks=$1 model=$2
  shift 2
  step_figures "$ranks" "$model" "$line_name" "$@"
  only_with 'a GPU for its time'
}

torch_step() {
  needs_torch
  python3 "$here/scripts/compare_torch_speed.py" step --device cuda --rounds 1 --steps 100 "$@"
}

torch_small() {
  needs_torch
  python3 "$here/scripts/compare_torch_mlp.py" --device cuda "$@"
}

# torch_layers <precision>: compares PyTorch's layers with the operations that bench_step has measured
torch_layers() {
  needs_torch
  python3 "$here/scripts/compare_torch_speed.py" layers --device cuda --precision "$1" --operations "$output/resnet50-$1.json"
}

make_clicks() {
  local rows=200000
  if $rehearse; then rows=20000; fi
  "$program" make-data criteo --rows "$rows" --valid-rows 1000 --seed 3 --output "$output/clicks.tsv"
}

# npy <shape> <source of bytes> <count> <file>: a NumPy array of bytes; its header takes 128
npy() {
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': $1, }" >"$4"
  head -c "$3" "$2" >>"$4"
}

# Trains on images of noise that travel as bytes, as photographs do; its end says what share of the time it waited for them.
train_on_bytes() {
  local images=2048 size=224 steps=40 batch=256 depth=50
  if $rehearse; then images=8 size=32 steps=4 batch=4 depth=18; fi
  mkdir -p "$output/runs/images"
  npy "($images, 3, $size, $size)" /dev/urandom $((images * 3 * size * size)) "$output/runs/images/inputs.npy"
  npy "($images,)" /dev/zero "$images" "$output/runs/images/targets.npy"
  launch 1 train "$here/inputs/resnet50_synthetic.toml" model.depth="$depth" train.global_batch_size="$batch" data.kind=numpy \
    data.inputs=inputs data.targets=targets data.train.path="$output/runs/images" data.threads=4 train.epochs=0 train.steps="$steps" \
    device.kind=cuda device.precision=bfloat16 run.output="$output/runs/bytes" run.resume=never
  only_with 'a GPU for its time'
}

part_b() {
  local precision graphs
  line card 30 the_card
  for precision in float16 bfloat16 float32; do
    line "resnet50-$precision" 60 bench_step 1 resnet50 device.precision="$precision"
    line "resnet50-$precision-torch" 90 torch_step --precision "$precision"
  done
  for precision in float16 bfloat16 float32; do
    line "resnet50-$precision-graphs" 60 bench_step 1 resnet50 device.precision="$precision" device.graphs=true
  done
  line layers-beside-torch 60 torch_layers bfloat16
  for graphs in false true; do
    line "mlp-graphs-$graphs" 30 bench_step 1 mlp train.global_batch_size=64 device.graphs="$graphs"
  done
  line mlp-torch 40 torch_small
  line clicks 30 make_clicks
  line ctr 40 bench_step 2 ctr
  line ctr-pipeline 40 bench_step 2 ctr server.pipeline=1
  line ctr-torch 60 torch_small --model ctr --clicks "$output/clicks.tsv"
  line images-as-bytes 60 train_on_bytes
  line resnet50-bfloat16-torch-compile 120 torch_step --precision bfloat16 --compile
  line resnet50-float16-torch-autotune 240 torch_step --precision float16 --compile --mode max-autotune
}

cudnn_device() {
  if $rehearse; then skip 'a GPU, whose properties cuDNN reads'; fi
  python3 "$here/scripts/cudnn_device.py" "$output/cudnn_device.json"
}

# sanitized <tool> <model> <key=value>...: two steps under compute-sanitizer, without a validation and without a measurement of
# cuDNN's algorithms (run.reproducible): with them racecheck had not ended after 45 s on an H200.
sanitized() {
  local deck under
  run_under compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9
  deck_of "$2"
  if [[ $2 == mlp ]]; then deck+=(data.validation.images= data.validation.labels=); fi
  shift 2
  "${under[@]}" "$program" train "${deck[@]}" train.epochs=0 train.steps=2 train.global_batch_size=8 device.kind=cuda \
    "${exact[@]}" run.output="$output/runs/$line_name" run.resume=never "$@"
  only_with 'a GPU and compute-sanitizer'
}

one_rank_nccl() {
  launch 1 bench all-reduce --device cuda --max 64M --json "$output/nccl.json"
  grep -q '"nccl"' "$output/nccl.json"
}

# The watchdog ends a job that rests in a step, and gives up NCCL's communicators.
nccl_abort() {
  local code=0
  train 1 mlp nccl-abort cuda strategy.all_reduce=nccl run.watchdog_s=2 run.emulate_straggler.rank=0 \
    run.emulate_straggler.slow_factor=1e6 run.resume=never >"$output/runs/said" 2>&1 || code=$?
  cat "$output/runs/said"
  echo "ended with exit code $code"
  ((code == 3)) && grep -q 'nothing has moved for 2 s' "$output/runs/said"
}

out_of_memory() {
  local code=0 deck
  if $rehearse; then skip 'a GPU, whose memory is too small for 2,600 images of ResNet-50'; fi
  deck_of resnet50
  "$program" train "${deck[@]}" train.global_batch_size=2600 data.train.samples=2600 train.epochs=0 train.steps=1 device.kind=cuda \
    run.output="$output/runs/memory" run.resume=never >"$output/runs/said" 2>&1 || code=$?
  cat "$output/runs/said"
  echo "ended with exit code $code"
  ((code == 2)) && grep -q 'the GPU has no room for' "$output/runs/said"
}

# A run that is killed after its first checkpoint and resumed has the losses of one that was not.
killed_and_resumed() {
  local run=$output/runs/killed deck pid
  train 1 mlp unbroken cuda "${exact[@]}" run.resume=never
  deck_of mlp
  "$program" train "${deck[@]}" "${exact[@]}" train.epochs=0 train.steps=1000000 device.tf32=none device.kind=cuda run.output="$run" \
    checkpoint.every=4 checkpoint.keep=1000000 run.resume=never &
  pid=$!
  until [[ -e $run/checkpoints/step-00000004.h5 ]]; do
    kill -0 "$pid"
    sleep 0.05
  done
  kill -KILL "$pid"
  wait "$pid" || true
  find "$run/checkpoints" -name 'step-*' ! -name step-00000004.h5 -delete
  train 1 mlp killed cuda "${exact[@]}"
  expect_losses unbroken killed 0
}

# other_device <first> <second>: four steps on one, four on the other
other_device() {
  local run=$1-then-$2
  cpu_losses 1 mlp
  train 1 mlp "$run" "$1" train.steps=4 run.resume=never
  train 1 mlp "$run" "$2"
  expect_losses mlp-cpu-1 "$run" 1e-4
}

# Linear layers of many widths, as cuBLASLt's heuristic chooses their algorithms: times and GFLOP/s of each product.
linear_sweep() {
  local width precision widths=(256 1024 4096 8192) batch=4096
  if $rehearse; then widths=(64) batch=32; fi
  for precision in float16 bfloat16 float32; do
    for width in "${widths[@]}"; do
      step_figures 1 mlp "linear-$width-$precision" "model.widths=[$width,$width,$width]" train.global_batch_size="$batch" \
        device.precision="$precision" device.tf32=all
    done
  done
  only_with 'a GPU for its times'
}

graph_plans() {
  needs_torch
  python3 "$here/scripts/cudnn_graph_plans.py" "$output/graph_plans.json" --seconds 130
}

part_c() {
  local tool
  line card 30 the_card
  line cudnn-device 30 cudnn_device
  for tool in memcheck initcheck racecheck; do
    line "$tool-mlp" 60 sanitized "$tool" mlp
    line "$tool-resnet18" 90 sanitized "$tool" resnet18 device.precision=bfloat16
  done
  line memcheck-mlp-graphs 60 sanitized memcheck mlp device.graphs=true
  line nccl-one-rank 60 one_rank_nccl
  line nccl-abort 60 nccl_abort
  line two-ranks-share 60 like_cpu 2 mlp 1e-4 device.share=true
  line out-of-memory 90 out_of_memory
  line killed-and-resumed 90 killed_and_resumed
  line cpu-then-gpu 60 other_device cpu cuda
  line gpu-then-cpu 60 other_device cuda cpu
  line linear-sweep 120 linear_sweep
  line graph-plans 150 graph_plans
}
