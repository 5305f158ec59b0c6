#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every deck of inputs/ in every precision on the fake GPU, on small data: a few steps, whose losses stay near those of the
# device "reference" (bfloat16: 8 bits of precision).
#   tests/cuda/train_decks.sh PROGRAM [PATTERN]      PROGRAM: tests/cuda/flotilla_on_fake_gpu; a few minutes
set -euo pipefail
program=$(realpath "$1") pattern=${2:-.}
source=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/install/expect.sh
. "$source/tests/install/expect.sh"
cd "$work"

# An image of 40 x 40 pixels, again and again, and two small click logs.
mkdir -p train val
base64 -d >train/0.png <<'PNG'
iVBORw0KGgoAAAANSUhEUgAAACgAAAAoCAIAAAADnC86AAACAklEQVR42sXPhyIQAAAE0CulRCmlSCllRUREVkREZO8tIiIrIiIiSimlFJFRSintSXsZhZZo
h2gP7RKfce8PHqBoK6jqLKLpKaa7SMJoibTZMlmr5Ur2K9VcV2t5r9UP2GAcssU8Yod1bJFj4h731AO+mUcCs0+F5lZH5V+JK76VVH4nrfL++mNtm8+82H7h
9a5r70vrvu5v+nX44f8TTwadezXsUvfIGx/HNnybcPfPlEdQfCao2iGi+VZMFwLKDkLqbqLaPuIGi6VMlspYRCrYrFBxWqXhsUbHb51h0CbTsG2W0QV28SUu
yfu80g/5Zx0PzjkbnncxpvB6Qll9SkVzRlXLxpNPt55v33n5ze6bn/be/n7w3t+jrQNOPx9S0zn86rvRtV8kG39OetAr91hA+aWQepeo9gdxA1C6nyWMQOn2
SJmA0v0hbQZK97eMBSjdf7JWoHT7FGxA6Q5UsgelO1jFCZTuUDVXULrCGh6gdEdoeYPSHaXjB0p3jH4AKN1xhkGgdMcbh4DSnWgaBkp3snkEKN2pltGgdOWt
Y0HpTrOLB6U73TERlO4Ml2RQujPdU0HpzvJKB6U72zcTlK6efxYo3TmB2aB05wbngNKdF5oLSnd+eB4o3QVR+aB0F8YUgtK1jSsGpeuQUAZK1zmpHJSuW0oF
KF3PtEpQuj4ZVf2v730o37Je9AAAAABJRU5ErkJggg==
PNG
for ((i = 1; i < 8; ++i)); do cp train/0.png "train/$i.png"; done
cp train/?.png .
cp train/?.png val/
for ((i = 0; i < 8; ++i)); do echo "$i.png $i"; done >list.txt
for ((i = 0; i < 64; ++i)); do echo "$((i % 2 * 2 - 1)) $((i % 7 + 1)):1 $((i % 11 + 20)):1 $((i % 5 + 40)):1"; done >a9a.txt
"$program" make-data criteo --rows 64 --valid-rows 16 --vocabulary 20 --seed 3 --output clicks.tsv >/dev/null

images=(data.train.path=list.txt data.validation.path=list.txt data.image_size=32 data.short_side=32 train.batch_size=4
  model.depth=18 model.classes=10 schedule.learning_rate=0.0001)
# What makes a deck small: ranks, then overrides.
small_of() {
  case $1 in
    ctr_a9a) echo 2 data.train.path=a9a.txt data.validation.path=a9a.txt train.global_batch_size=16 ;;
    ctr_dnn_criteo) echo 2 data.train.path=clicks.tsv data.validation.path=clicks.valid.tsv train.batch_size=16 ;;
    mlp_parameter_server) echo 2 train.batch_size=16 server.mode=sync ;;
    mlp_random | mnist_mlp) echo 1 train.batch_size=16 ;;
    resnet18_photos) echo 1 "${images[@]/train.batch_size=/train.global_batch_size=}" schedule.warmup_epochs=0 ;;
    resnet50_imagenet) echo 1 "${images[@]}" schedule.scale_with_batch=false schedule.warmup_epochs=0 ;;
    resnet50_flowers) echo 1 "${images[@]}" ;;
    resnet50_synthetic) echo 1 'data.shape=[3,32,32]' "${images[@]:4}" ;;
    *) echo 1 ;;
  esac
}

# losses <deck> <device> <precision>: of four steps
losses() {
  local deck=$1 run=$1.$2.$3 small
  read -ra small < <(small_of "$1")
  # A first scale at which no step overflows and is left out.
  if [[ $3 == float16 ]]; then small+=(device.loss_scale.initial=128); fi
  "${MPIEXEC:-mpirun}" -n "${small[0]}" "$program" train "$source/inputs/$deck.toml" "${small[@]:1}" device.kind="$2" \
    device.precision="$3" device.threads=1 train.epochs=0 train.steps=4 run.log_every=1 validation.every=0 checkpoint.every=0 \
    run.output="$run" >"$run.said" 2>&1 || {
    grep -m 4 . "$run.said" >&2
    return
  }
  sed -n 's/.*"event": *"step".*"loss": *\([0-9.e+-]*\).*/\1/p' "$run/metrics.jsonl"
}

printf '%-22s %-9s %s\n' deck precision 'losses on the fake GPU'
for path in "$source"/inputs/*.toml; do
  deck=$(basename "$path" .toml)
  if [[ $deck == reference || ! $deck =~ $pattern ]]; then continue; fi
  for precision in float32 float16 bfloat16; do
    # Batch norm over a few values makes more of a rounding.
    case $precision/$deck in
      float32/resnet*) most=0.01 ;;
      float16/resnet*) most=0.05 ;;
      bfloat16/resnet*) most=0.3 ;;
      float32/*) most=0.001 ;;
      float16/*) most=0.005 ;;
      *) most=0.02 ;;
    esac
    losses "$deck" reference "$precision" >expected
    losses "$deck" cuda "$precision" >found
    printf '%-22s %-9s %s\n' "$deck" "$precision" "$(tr '\n' ' ' <found)"
    expect "$deck, $precision: steps" 4 "$(grep -c . found)"
    expect "$deck, $precision: losses that differ by more than $most" '' \
      "$(paste expected found | awk -v most="$most" '{ d = $1 - $2; if (d < 0) d = -d } NF != 2 || d > most * (1 + $1)')"
    rm -rf ./*."$precision"
  done
done
verdict
