#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every deck of inputs/ in every precision on the fake GPU, on small data: a few steps, whose losses stay near those of the
# device "reference".
#   tests/cuda/train_decks.sh PROGRAM [PATTERN]      PROGRAM: tests/cuda/flotilla_on_fake_gpu; a few minutes
set -euo pipefail
program=$(realpath "$1") pattern=${2:-.}
source=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/install/expect.sh
. "$source/tests/install/expect.sh"
# shellcheck source=scripts/common.sh
. "$source/scripts/common.sh"
cd "$work"

# An image of noise of which the decks cut out parts, two small click logs and a table of numbers.
mkdir -p train val
base64 -d >train/0.png <<'PNG'
iVBORw0KGgoAAAANSUhEUgAAABIAAAASCAIAAADZrBkAAAAD6UlEQVR42gHeAyH8AEQggjz95vHCazD5DsfdAeSIdTSiDwsNBMNu2A5x4P13sHZw65QL1TNf
lz2q2GGbkf/JEfV8zgDUWLu/LOA3U8m9+g/wFp3JV1Z0BmZ2z7C064kCxEJp2hz2umbT+LbUsQCp6g51WlwughAkKggA5wePf4k4XrCUI1VRglaLluik/vI6
DJ/Fr9dghDeBa90KcwnLShJS5Npw5nIPyqTaHphAbBicACQnnphR1YFCBBNv61cTwWaxMmndY/w1x5f/CKbNkAlQZqdFrdttiDHCsPh4IRQrRFZVbYmqggC8
ra46lXj6RTWkFNAlwktArjrBJ3IpiLqXOuqNNxeXBgcu0zoUYHrXUjvmVXtRNN7BloH0oTMAaqIUDQWXo+bIoMwgIKLpOYBu8LaEXWqdZX64KY8t5S6tdMed
Fadfopt9qzMvfXAKfM0liSQmAAsFlLf88E4zpydYW0xIo5w2lkBpSBChaVuZ3VAYfoEg5NyA4OgFyq1XhPgM1QkftUZARoSNywDNWC13+ANaouBzeqD99XPT
rIxwGCS8UWifmJm+VO0rP8FaT4Dabxr9ybLEVBQugjOIKkcp43sAw93LVKbgQPlsPdzRPJeOf8ECYeAKD3yFaViRS2aLn4DkVrb71z5qxGiRNww8BpdFJr+f
37alAAA/4uaznMyt/DnBw2gBjmXs0ZxX5mW4Acfaz6wi/H6UCtBPy4pbJQWyh9KbTeyE+FbvF4oy2AAjtSLiClRSL82Nm2pqeaqJIya87xlWmIq2dsjMWPeE
qHGEfQ/Oot1/iWElVONLhutTRkbhuJ4AzXs7aZwiNnTLpPwzXxccC24R/eKvjDxYMHHMd/3mwVZ2eJHsx2znhKn+OG0oFwcC9aPEk2TMAFFNDwfGSh3CgkIo
7JsHEh9CFYw83S5hDv9CjmLlx6iJhXx9Hlmz2x+002bZI4glgFoxTR5o2wAWGy7wvTKgFEAQ4kHK5AyKLoCmK5oRxB2FoEKFwjubMNl9aamtyPY1QuUPlVBm
vcemMdGwQCEAFpmg1ZijtIumBD5MoqanI+eP9ei6wigcRBj7gH2tub3One2uVQ5LgHFEOV7SGTKINmiFIiglAG9Y3Qu8+ZFwZvx42ee7YPYlg9BnBML5J87Z
FLTqA2GZAj2aoZDS0Z3nmkPjR1OBBNkSvNfNkAAJLi4CxInti772rMbpO/e1StRLCViFvEGT04ST14zdq/hu+83ZLiBCaUx1DTSBT/UyzF8BLdoAGm/YsRg0
1jyHjlv1GG0sxz/llv7JO/U2TMVnVYPVk/xtrPg0BLGIHOGZM3WMin7SS0KDY9AdgOziWnpoeLAAAAAASUVORK5CYII=
PNG
for ((i = 1; i < 8; ++i)); do cp train/0.png "train/$i.png"; done
cp train/?.png .
cp train/?.png val/
for ((i = 0; i < 8; ++i)); do echo "$i.png $i"; done >list.txt
for ((i = 0; i < 64; ++i)); do echo "$((i % 2 * 2 - 1)) $((i % 7 + 1)):1 $((i % 11 + 20)):1 $((i % 5 + 40)):1"; done >a9a.txt
"$program" make-data criteo --rows 64 --valid-rows 16 --vocabulary 20 --seed 3 --output clicks.tsv >/dev/null
"$program" make-data borehole --rows 64 --valid-rows 16 --seed 3 --output borehole.h5 >/dev/null

images=(data.train.path=list.txt data.validation.path=list.txt data.image_size=32 data.short_side=32 'data.crop_area=[0.1,0.4]'
  train.batch_size=4 model.depth=18 model.classes=10 schedule.learning_rate=0.0001)
# What makes a deck small: ranks, then overrides.
small_of() {
  case $1 in
    borehole) echo 2 data.train.path=borehole.h5 data.validation.path=borehole.valid.h5 train.global_batch_size=16 ;;
    ctr_a9a) echo 2 data.train.path=a9a.txt data.validation.path=a9a.txt train.global_batch_size=16 ;;
    ctr_dnn_criteo) echo 2 data.train.path=clicks.tsv data.validation.path=clicks.valid.tsv train.batch_size=16 ;;
    mlp_parameter_server) echo 2 train.batch_size=16 server.mode=sync ;;
    mlp_random | mnist_mlp) echo 1 train.batch_size=16 ;;
    cnn_mnist) echo 1 train.global_batch_size=8 ;;
    resnet18_photos) echo 1 "${images[@]/train.batch_size=/train.global_batch_size=}" schedule.warmup_epochs=0 ;;
    resnet50_imagenet) echo 1 "${images[@]}" schedule.scale_with_batch=false schedule.warmup_epochs=0 ;;
    resnet50_flowers) echo 1 "${images[@]}" ;;
    resnet50_synthetic) echo 1 'data.shape=[3,32,32]' "${images[@]:5}" ;;
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
  step_losses "$run"
}

printf '%-22s %-9s %s\n' deck precision 'losses on the fake GPU'
for path in "$source"/inputs/*.toml; do
  deck=$(basename "$path" .toml)
  if [[ $deck == reference || ! $deck =~ $pattern ]]; then continue; fi
  for precision in float32 float16 bfloat16; do
    losses "$deck" reference "$precision" >expected
    losses "$deck" cuda "$precision" >found
    printf '%-22s %-9s %s\n' "$deck" "$precision" "$(tr '\n' ' ' <found)"
    expect "$deck, $precision: steps" 4 "$(grep -c . found)"
    # Two networks of halves round differently: they come about as far apart as either is from float32.
    if [[ $precision == float32 ]]; then cp expected exact; fi
    expect "$deck, $precision: as near to the reference as that is to float32" '' \
      "$(paste expected found exact | awk 'function size(x) { return x < 0 ? -x : x }
        { off += size($1 - $2); rounding += size($1 - $3); all += $1 }
        END { if (!(off <= 2 * rounding + 0.005 * all)) print off, rounding, all }')"
    rm -rf ./*."$precision"
  done
done
verdict
