#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares two executables: a change that is meant to change no behaviour shows here that it does not.
#
#   scripts/compare_builds.sh [options] OLD NEW
#
#   --a9a FOLDER    holds a9a and a9a.t in LIBSVM's format; without, that deck is left out
#   --photos FOLDER holds train.txt and val.txt of images in 10 classes; without, that deck is left out
#   --only REGEX    only cases whose name matches
#   --rounds N      of `bench step` and `bench all-reduce`, the two in turn (default 5; 0: none)
#   --keep FOLDER   where the runs lie (default: a temporary folder that is removed)
#
# Trains 50 steps of each deck with each strategy on 1, 2 and 4 ranks; stops, kills and resumes runs; resumes with NEW what
# OLD saved; gives wrong decks; asks for --check. Compared are every tensor of every checkpoint bit by bit, every value of
# metrics.jsonl but times and sizes of checkpoints (they hold the deck, which gets new keys), exit codes, the lines
# "resumed …" and "… diverged", the place (file:line:column) and keys of each mistake of wrong decks. NEW may write metrics
# that OLD lacks. Workers of asynchronous modes depend on timing: with more than one, only the names of metrics are compared.
# Needs h5diff (scripts/setup.sh --tools). Exit codes: 0 no difference; 1 differences; 2 a mistake.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=scripts/common.sh
. "$here/common.sh"
open_mpi_settings
export LC_ALL=C OMPI_MCA_btl_vader_single_copy_mechanism=none
inputs=$here/../inputs

usage() {
  sed -n '3,/^set -euo/s/^# \{0,1\}//p' "$0" | head -n -1
}

a9a='' photos='' only='' rounds=5 keep=''
while (($# > 0)); do
  case $1 in
    --a9a | --photos | --only | --rounds | --keep)
      (($# > 1)) || fail 2 "compare_builds: $1 needs a value (see --help)"
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) fail 2 "compare_builds: unknown option '$1' (see --help)" ;;
    *) break ;;
  esac
done
(($# == 2)) || fail 2 "compare_builds: needs two executables (see --help)"
[[ $rounds =~ ^[0-9]+$ ]] || fail 2 "compare_builds: --rounds must be a number, got '$rounds'"
command -v h5diff >/dev/null || fail 2 "compare_builds: h5diff is not installed (scripts/setup.sh --tools)"
declare -A executable
[[ -z $a9a ]] || a9a=$(readlink -f "$a9a")
[[ -z $photos ]] || photos=$(readlink -f "$photos")
executable[old]=$(readlink -f "$1") executable[new]=$(readlink -f "$2")
for build in old new; do
  [[ -x ${executable[$build]} ]] || fail 2 "compare_builds: '${executable[$build]}' is not an executable"
done
if [[ -n $keep ]]; then
  mkdir -p "$keep"
  folder=$(readlink -f "$keep")
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
cd "$folder"

cases=0 differing=0

# report <case> <what differs, empty: nothing>: a row of the table.
report() {
  cases=$((cases + 1))
  if [[ -z $2 ]]; then
    printf '%-68s same, exit code %s\n' "$1" "$(<new.code)"
  else
    differing=$((differing + 1))
    printf '%-68s DIFFERS: %s\n' "$1" "$2"
  fi
}

# run <build> <ranks> <arguments>...: output into <build>.out and .err of the folder, the exit code into <build>.code.
run() {
  local build=$1 ranks=$2 code=0
  shift 2
  timeout 300 mpirun -n "$ranks" "${executable[$build]}" "$@" >"$build.out" 2>"$build.err" </dev/null || code=$?
  echo "$code" >"$build.code"
}

# metrics <metrics.jsonl> <detail>: "event.key", each once and sorted ("names"); or "event step number key value" for each value
# that does not depend on time ("values"), number counting the lines of that event and step; or the values that a resumed run
# shares with an undisturbed one ("steps"): those of steps and validations that sum nothing up since the last report.
metrics() {
  [[ -f $1 ]] || return 0
  awk -v detail="$2" '
    function strip(text) { gsub(/^"|"$/, "", text); return text }
    {
      rest = $0; event = ""; step = "-"; count = 0
      while (match(rest, /"[a-z_0-9]+": ?("([^"\\]|\\.)*"|\[[^]]*\]|[^,}]+)/)) {
        pair = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
        colon = index(pair, ":"); key = strip(substr(pair, 1, colon - 1))
        value = substr(pair, colon + 1); sub(/^ /, "", value)
        if (key == "event") event = strip(value)
        if (key == "step") step = value
        keys[++count] = key; values[count] = value
      }
      if (detail == "steps" && event != "step" && event != "validation") next
      number = seen[event, step]++
      for (i = 1; i <= count; ++i) {
        if (detail == "names") { print event "." keys[i]; continue }
        if (keys[i] ~ /(^time|^bytes|^seconds|^path|^deck|_s|_us|memory_bytes|samples_per_s)$|^(slowest|network)_/) continue
        if (detail == "steps" && keys[i] ~ /^(loss_mean|batch_auc|sent_bytes)$/) continue
        if (detail == "steps" && event == "step" && keys[i] == "auc") continue
        print event, step, number, keys[i], values[i]
      }
    }' "$1" | sort -u
}

# first_lost <old file> <new file> <detail>: the first of OLD's metrics that NEW lacks or gives another value.
first_lost() {
  comm -23 <(metrics "$1" "$3") <(metrics "$2" "$3") | sed -n 1p
}

# stable_lines <build>: what scripts read of the console, without paths and times.
stable_lines() {
  cat "$1.out" "$1.err" | grep -E '^(flotilla: )?(resumed|.*diverged)' | sed -E "s#[^ ']*/(old|new)/#/#g; s/ in [0-9.]+ s//" || true
}

# different_values <old run> <new run>: names the first checkpoint whose tensors differ.
different_values() {
  local file name group
  diff <(cd "$1" 2>/dev/null && find checkpoints -name '*.h5' | sort) <(cd "$2" 2>/dev/null && find checkpoints -name '*.h5' | sort) \
    >/dev/null || {
    echo "checkpoints' names"
    return
  }
  while IFS= read -r file; do
    for group in $(h5ls "$1/$file" | awk '{ print $1 }'); do
      h5diff -q "$1/$file" "$2/$file" "/$group" >/dev/null 2>&1 || {
        name=${file#checkpoints/}
        echo "/$group of $name"
        return
      }
    done
  done < <(cd "$1" 2>/dev/null && find checkpoints -name '*.h5' | sort)
}

# compare_runs <case> <old run> <new run> [names|values|steps]: what the two runs left. The last argument is the detail in which
# metrics are compared ("values" if left out); with "names" tensors may differ, too.
compare_runs() {
  local differences='' found lost detail=${4:-values}
  [[ $(<old.code) == "$(<new.code)" ]] || differences+="exit code $(<old.code) / $(<new.code); "
  lost=$(first_lost "$2/metrics.jsonl" "$3/metrics.jsonl" "$detail")
  [[ -z $lost ]] || differences+="metrics without $lost; "
  [[ $(stable_lines old) == "$(stable_lines new)" ]] || differences+="console lines; "
  if [[ $detail != names ]]; then
    found=$(different_values "$2" "$3")
    [[ -z $found ]] || differences+="$found; "
  fi
  report "$1" "$differences"
}

wanted() {
  [[ -z $only || $1 =~ $only ]]
}

# train_both <case> <ranks> <detail of compare_runs> <deck> <overrides>...
train_both() {
  local name=$1 ranks=$2 detail=$3 build
  wanted "$name" || return 0
  shift 3
  rm -rf old new
  for build in old new; do
    run "$build" "$ranks" train "$@" run.output="$folder/$build/run"
  done
  if [[ $(<old.code) != 0 && $name != *diverges ]]; then
    report "$name" "OLD ends with $(<old.code), so that nothing is compared: $(grep -m 1 '^flotilla:' old.err)"
    return
  fi
  compare_runs "$name" old/run new/run "$detail"
}

common=(device.threads=1 run.log_every=10 run.watchdog_s=120 train.epochs=0 train.steps=50 checkpoint.every=25 checkpoint.keep=9)
"${executable[old]}" make-data criteo --rows 4000 --valid-rows 500 --vocabulary 100 --seed 3 --output clicks.tsv >/dev/null

# Decks: a name, then what is given to `train`.
declare -A decks=(
  [mnist_mlp]="mnist_mlp.toml"
  [mlp_random]="mlp_random.toml data.validation.samples=512"
  [mlp_parameter_server]="mlp_parameter_server.toml"
  [resnet_synthetic]="resnet50_synthetic.toml model.depth=18 model.classes=10 data.shape=[3,32,32] train.batch_size=4"
  [criteo]="ctr_dnn_criteo.toml data.train.path=clicks.tsv data.validation.path=clicks.valid.tsv train.batch_size=32 model.widths=[32,16]"
)
if [[ -n $a9a ]]; then
  decks[a9a]="ctr_a9a.toml data.train.path=$a9a/a9a data.validation.path=$a9a/a9a.t validation.every=0"
fi
if [[ -n $photos ]]; then
  decks[photos]="resnet18_photos.toml model.classes=10 data.image_size=32 data.short_side=32 train.global_batch_size=16
    data.train.path=$photos/train.txt data.validation.path=$photos/val.txt validation.every=0"
fi

declare -A collective=(
  [mpi]="strategy.all_reduce=mpi"
  [shared]="strategy.all_reduce=shared-memory strategy.bucket_mb=0.1 strategy.last_bucket_mb=0.05 strategy.communicators=2"
  [hierarchical]="strategy.all_reduce=hierarchical strategy.ranks_per_group=2"
  [half-wire]="strategy.wire=bfloat16 optimizer.kind=adam"
  [lamb]="optimizer.kind=lamb train.gradient_clip_norm=1 train.accumulate_steps=2"
  [lars]="optimizer.kind=lars"
  [local-sgd]="strategy.kind=local-sgd strategy.period=4"
  [outer-step]="strategy.kind=local-sgd strategy.period=4 strategy.outer.kind=nesterov strategy.outer.momentum=0.9 optimizer.kind=adam"
  [guide]="optimizer.kind=momentum strategy.kind=adaptive-local-sgd strategy.initial_period=4"
  [fleet2]="optimizer.kind=momentum strategy.kind=adaptive-local-sgd strategy.rule=fleet2 strategy.initial_period=4"
  [paper]="optimizer.kind=momentum strategy.kind=adaptive-local-sgd strategy.rule=paper strategy.initial_period=4"
)
declare -A served=(
  [sync]="server.mode=sync"
  [async]="server.mode=async"
  [half-async]="server.mode=half-async server.push_every=4"
  [geo]="server.mode=geo server.push_every=4"
)

names() {
  printf '%s\n' "$@" | sort
}

for deck in $(names "${!decks[@]}"); do
  read -r -a given <<<"${decks[$deck]//$'\n'/ }"
  given[0]=$inputs/${given[0]}
  if [[ $deck != criteo && $deck != a9a && $deck != mlp_parameter_server ]]; then
    for strategy in $(names "${!collective[@]}"); do
      read -r -a with <<<"${collective[$strategy]}"
      for ranks in 1 2 4; do
        [[ $strategy != hierarchical || $ranks != 1 ]] || continue # a group needs two ranks
        train_both "$deck $strategy np$ranks" "$ranks" values "${given[@]}" "${common[@]}" "${with[@]}"
      done
    done
  fi
  [[ $deck == photos ]] && continue
  for mode in $(names "${!served[@]}"); do
    read -r -a with <<<"${served[$mode]}"
    for ranks in 2 4; do
      detail=values
      [[ $mode == sync || $ranks == 2 ]] || detail=names
      train_both "$deck $mode np$ranks" "$ranks" "$detail" "${given[@]}" "${common[@]}" strategy.kind=parameter-server \
        roles.kind=symmetric "${with[@]}"
    done
  done
done
train_both "mnist_mlp reproducible np1" 1 values "$inputs/mnist_mlp.toml" "${common[@]}" run.reproducible=true train.global_batch_size=64
train_both "mnist_mlp reproducible np4" 4 values "$inputs/mnist_mlp.toml" "${common[@]}" run.reproducible=true train.global_batch_size=64
train_both "mnist_mlp diverges" 2 values "$inputs/mnist_mlp.toml" "${common[@]}" model.activation=relu schedule.learning_rate=1e30 optimizer.kind=sgd
small_cnn="model.layers=conv 16 3, batch_norm, relu, residual projection, conv 32 3 stride 2 padding 1, gelu, end, relu, dropout 0.1, linear 10"
for ranks in 1 2 4; do
  train_both "cnn_mnist np$ranks" "$ranks" values "$inputs/cnn_mnist.toml" "${common[@]}" "$small_cnn"
done
train_both "cnn_mnist local-sgd np2" 2 values "$inputs/cnn_mnist.toml" "${common[@]}" "$small_cnn" strategy.kind=local-sgd strategy.period=4
for precision in float16 bfloat16; do
  train_both "mnist_mlp reference $precision" 2 values "$inputs/mnist_mlp.toml" "${common[@]}" device.kind=reference \
    device.precision=$precision
done
if grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then
  for ranks in 1 2; do
    train_both "mnist_mlp bfloat16 np$ranks" "$ranks" values "$inputs/mnist_mlp.toml" "${common[@]}" device.precision=bfloat16
    train_both "cnn_mnist bfloat16 np$ranks" "$ranks" values "$inputs/cnn_mnist.toml" "${common[@]}" "$small_cnn" device.precision=bfloat16
  done
  read -r -a given <<<"${decks[resnet_synthetic]}"
  train_both "resnet_synthetic bfloat16 np2" 2 values "$inputs/${given[0]}" "${given[@]:1}" "${common[@]}" device.precision=bfloat16
else
  echo "bfloat16 on the CPU: left out, this processor has no AVX512_BF16 or AMX"
fi

# Stopped after 25 steps and resumed by either build; then killed and resumed. All end as OLD does undisturbed.
# resumed <case> <ranks> <deck> <overrides>...
resumed() {
  local name=$1 ranks=$2 build
  wanted "$name" || return 0
  shift 2
  rm -rf old new stopped
  run old "$ranks" train "$@" run.output="$folder/old/run"
  run old "$ranks" train "$@" run.output="$folder/stopped/run" train.steps=25
  for build in old new; do
    mkdir -p "$build"
    rm -rf "$build/resumed"
    cp -r stopped/run "$build/resumed"
    run "$build" "$ranks" train "$@" run.output="$folder/$build/resumed"
  done
  compare_runs "$name: both resume what OLD saved" old/resumed new/resumed
  compare_runs "$name: NEW's resumed run, OLD's undisturbed one" old/run new/resumed steps
}

# killed <case> <ranks> <deck> <overrides>...: NEW is killed after its first checkpoint, and resumes.
killed() {
  local name=$1 ranks=$2 pid
  wanted "$name" || return 0
  shift 2
  rm -rf old new
  run old "$ranks" train "$@" run.output="$folder/old/run"
  mpirun -n "$ranks" "${executable[new]}" train "$@" run.output="$folder/new/run" run.emulate_straggler.rank=0 \
    run.emulate_straggler.pause_s=0.05 >new.out 2>new.err </dev/null &
  pid=$!
  for _ in {1..600}; do
    compgen -G "new/run/checkpoints/step-*.h5" >/dev/null && break
    sleep 0.05
  done
  kill -KILL "$(pgrep -P "$pid" | head -n 1)"
  wait "$pid" || true
  run new "$ranks" train "$@" run.output="$folder/new/run"
  grep -q '^resumed' new.out || report "$name: resumes at all" "no line 'resumed'"
  cp old.out new.out # The line "resumed" is meant to differ.
  cp old.err new.err
  compare_runs "$name: NEW killed and resumed, OLD undisturbed" old/run new/run steps
}

for ranks in 1 2 4; do
  resumed "resume all-reduce np$ranks" "$ranks" "$inputs/mnist_mlp.toml" "${common[@]}"
done
resumed "resume local-sgd np2" 2 "$inputs/mnist_mlp.toml" "${common[@]}" strategy.kind=local-sgd strategy.period=4
resumed "resume sync servers np4" 4 "$inputs/mlp_parameter_server.toml" "${common[@]}" server.mode=sync
resumed "resume clicks np2" 2 "$inputs/ctr_dnn_criteo.toml" "${common[@]}" data.train.path=clicks.tsv \
  data.validation.path=clicks.valid.tsv train.batch_size=32 'model.widths=[32,16]' server.mode=geo server.push_every=4
killed "kill all-reduce np2" 2 "$inputs/mnist_mlp.toml" "${common[@]}"
killed "kill local-sgd np2" 2 "$inputs/mnist_mlp.toml" "${common[@]}" strategy.kind=local-sgd strategy.period=4

# Wrong decks end with 2 and leave nothing. Sentences may become clearer, but each mistake stays where it was, at the same keys.
# mistakes <build>: for each line of stderr, sorted, the place and the keys that it names.
mistakes() {
  sed -E "s#[^ '\"]*/(old|new)/#/#g" "$1.err" |
    awk '/^flotilla:/ {
      found = ""
      while (match($0, /[^ :]*:[0-9]+:[0-9]+|(run|device|model|data|train|optimizer|schedule|strategy|roles|server|checkpoint|validation)(\.[a-z_0-9]+)+/)) {
        found = found " " substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH)
      }
      print found
    }' | sort
}

# refused <case> <ranks> <arguments>...
refused() {
  local name=$1 ranks=$2 build differences=''
  wanted "$name" || return 0
  shift 2
  rm -rf old new
  for build in old new; do
    run "$build" "$ranks" "$@" run.output="$folder/$build/run"
    [[ $(<$build.code) == 2 ]] || differences+="$build ends with $(<$build.code); "
    [[ ! -e $build/run ]] || differences+="$build leaves a folder; "
  done
  mistakes old >old.mistakes
  mistakes new >new.mistakes
  cmp -s old.mistakes new.mistakes || differences+="mistakes:$(diff old.mistakes new.mistakes | sed -n 2p || true)"
  report "$name" "$differences"
}

printf '[train]\nbatch_size = -4\nbatch_sise = 3\n[model]\nwidths = "x"\n' >wrong.toml
refused "wrong: several mistakes" 1 train wrong.toml
# Every key of the reference deck, as a table, which none takes; as a number out of most ranges.
for value in '{}' '-1e300'; do
  sed -nE "/^\[/p; s/^(# )?([a-z_0-9]+) =.*/\2 = $value/p" "$inputs/reference.toml" >every.toml
  for kind in mlp resnet layers ctr-dnn; do
    sed "/^\[model\]/,/^\[/s/^kind =.*/kind = \"$kind\"/" every.toml >"every-$kind.toml"
    refused "wrong: every key = $value, $kind" 1 train "every-$kind.toml"
  done
done
refused "wrong: no such deck" 1 train absent.toml
refused "wrong: no such key" 2 train "$inputs/mnist_mlp.toml" optimizer.momentun=0.9
refused "wrong: no such word" 2 train "$inputs/mnist_mlp.toml" strategy.kind=gossip
refused "wrong: key of another kind" 2 train "$inputs/mnist_mlp.toml" strategy.period=4
refused "wrong: batch that workers cannot share" 2 train "$inputs/mnist_mlp.toml" train.global_batch_size=65
refused "wrong: no data" 2 train "$inputs/mnist_mlp.toml" data.train.images=absent.gz
refused "wrong: servers without workers" 1 train "$inputs/mlp_parameter_server.toml"
refused "wrong: no such layer" 1 train "$inputs/cnn_mnist.toml" "model.layers=conv 16 3, relux, flatten, linear 10"
refused "wrong: image that a convolution uses up" 1 train "$inputs/cnn_mnist.toml" "model.layers=conv 16 31, flatten, linear 10"
refused "wrong: rules over several keys" 2 train "$inputs/mnist_mlp.toml" run.reproducible=true train.mixup=0.2 train.cutmix=0.2 \
  strategy.wire=bfloat16
refused "wrong: local SGD" 2 train "$inputs/mnist_mlp.toml" strategy.kind=adaptive-local-sgd strategy.initial_period=0 strategy.wire=float8

# plan <build>: what --check printed, without the version, the table of layers, what the process takes and the disk has at the moment.
plan() {
  sed -E '/^layer  /,/^all  /d; s/[0-9.]+ [kMGT]?B are free/are free/' "$1.out" | grep -vE '^flotilla |process and libraries|peak, all together'
}

# checked <case> <ranks> <deck> <overrides>...
checked() {
  local name=$1 ranks=$2 build differences=''
  wanted "$name" || return 0
  shift 2
  for build in old new; do
    run "$build" "$ranks" train "$@" --check run.output="$folder/same/run"
  done
  [[ $(<old.code) == "$(<new.code)" ]] || differences="exit code $(<old.code) / $(<new.code)"
  diff <(plan old) <(plan new) >plan.diff || differences+=" the plan: $(sed -n 2p plan.diff)"
  report "$name" "$differences"
}

for deck in $(names "${!decks[@]}"); do
  read -r -a given <<<"${decks[$deck]//$'\n'/ }"
  checked "check $deck" 2 "$inputs/${given[0]}" "${given[@]:1}"
done
checked "check cnn_mnist" 2 "$inputs/cnn_mnist.toml"

# ratio <name> <json key pattern> <ranks> <arguments>...: OLD and NEW in turn; the median of NEW's times over that of OLD's.
# Threads of both spin for equally long, GNU OpenMP's own default unless GOMP_SPINCOUNT is set: builds before a4f46a9 keep that
# default and later ones let threads sleep soon (docs/appendix/performance.md, "Shared cores"), which is no difference of the operations.
ratio() {
  local name=$1 key=$2 ranks=$3 round build
  wanted "$name" && ((rounds > 0)) || return 0
  shift 3
  rm -f times.txt
  for ((round = 0; round < rounds; ++round)); do
    for build in old new; do
      GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-300000} run "$build" "$ranks" bench "$@" --json "$folder/$build.json"
      [[ $(<$build.code) == 0 ]] || { report "$name" "$build ends with $(<$build.code)"; return; }
      echo "$build $(grep -oE "\"$key\": ?[0-9.e+-]+" "$build.json" | grep -oE '[0-9.e+-]+$' | sort -g | head -n 1)" >>times.txt
    done
  done
  sort -k1,1 -k2,2g times.txt | awk -v name="$name" '{ value[$1, n[$1]++] = $2 }
    END { middle = int(n["old"] / 2); printf "%-68s time NEW ÷ OLD %.3f\n", name, value["new", middle] / value["old", middle] }'
}

ratio "speed: step of the MNIST MLP, 1 rank" step_us 1 step "$inputs/mnist_mlp.toml" device.threads=1 --steps 2000
ratio "speed: step of the MNIST MLP, 2 ranks" step_us 2 step "$inputs/mnist_mlp.toml" device.threads=1 --steps 2000
ratio "speed: step of ResNet-50, 2 threads" step_us 1 step "$inputs/resnet50_synthetic.toml" device.threads=2 train.batch_size=4 --steps 3
ratio "speed: all-reduce of 16 MiB, 2 ranks" time_us 2 all-reduce --bytes 16M

echo "$cases cases, $differing differ"
((differing == 0))
