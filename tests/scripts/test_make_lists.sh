#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/make_lists.sh on small folders and tables of all kinds. Argument: the source folder.
set -euo pipefail
script=$1/scripts/make_lists.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

# expect <what> <expected> <found>
expect() {
  if [[ $2 != "$3" ]]; then
    printf 'FAILED: %s\n  expected: %s\n  found:    %s\n' "$1" "$2" "$3"
    failures=$((failures + 1))
  fi
}

# expect_mistake <part of the message> <argument>...: exit code 2, and no list was written.
expect_mistake() {
  local part=$1 code=0 said
  shift
  said=$("$script" --out "$work/none" "$@" 2>&1) || code=$?
  expect "exit code for: $part" 2 "$code"
  [[ $said == *"$part"* ]] || expect "message" "$part" "$said"
  expect "lists after: $part" '' "$(find none -name '*.txt' 2>/dev/null || true)"
}

make_photos() {
  mkdir -p photos/zebra 'photos/arctic fox/deep' photos/Bear
  for i in {1..20}; do
    touch "photos/zebra/$i.jpg" "photos/arctic fox/deep/no $i.PNG" "photos/Bear/b$i.jpeg"
  done
  mkdir photos/zebra/.thumbnails photos/.trash
  touch photos/zebra/notes.txt photos/readme.txt photos/at_the_top.jpg
  touch photos/zebra/._1.jpg photos/zebra/.thumbnails/1.jpg photos/.trash/1.jpg photos/zebra/.hidden
}

a_folder_per_class() {
  make_photos
  said=$("$script" --validation 0.25 photos)
  expect 'classes in byte order' 'Bear arctic fox zebra' "$(paste -sd ' ' photos/classes.txt)"
  expect 'a quarter of each class' '5 Bear 5 arctic 5 zebra' \
    "$(cut -d / -f 1 photos/val.txt | cut -d ' ' -f 1 | uniq -c | xargs)"
  expect 'the others' 45 "$(wc -l <photos/train.txt)"
  expect 'nothing twice' 60 "$(cat photos/train.txt photos/val.txt | sort -u | wc -l)"
  expect 'paths with spaces, labels at the end' 20 \
    "$(cat photos/train.txt photos/val.txt | grep -c '^arctic fox/deep/no [0-9]*\.PNG 1$')"
  [[ $said == *'left out 1 files'* ]] || expect 'tells what was left out' 'left out 1 files' "$said"
}

the_same_again_and_others_with_another_seed() {
  "$script" --validation 0.25 --out again photos >/dev/null
  expect 'the same split, absolute paths elsewhere' "$(sed "s|^|$work/photos/|" photos/val.txt)" "$(cat again/val.txt)"
  "$script" --validation 0.25 --out other --seed 7 photos >/dev/null
  [[ $(cat other/val.txt) != "$(cat again/val.txt)" ]] || expect 'another seed, another split' different same
  touch photos/zebra/{new,newer}.jpg
  "$script" --validation 0.25 --out more photos >/dev/null
  expect 'two images added to a class: at most two of the old change sides' 1 \
    "$(($(comm -23 <(sort again/val.txt) <(sort more/val.txt) | wc -l) <= 2))"
  rm photos/zebra/{new,newer}.jpg
}

a_count_per_class_or_none() {
  "$script" --validation 3 --out three photos >/dev/null
  expect 'three of each class' 9 "$(wc -l <three/val.txt)"
  "$script" --validation 0 --out none_left photos >/dev/null
  expect 'no validation list' 'classes.txt train.txt' "$(find none_left -type f -printf '%f\n' | sort | xargs)"
  mkdir three/train
  "$script" --validation 3 --out three --force photos >/dev/null
  expect 'replaced on request' 51 "$(wc -l <three/train.txt)"
}

# 102 classes, labels from 1, image_00001.jpg …: as the flowers of Oxford come.
flowers() {
  mkdir flowers
  for i in {1..1020}; do
    printf -v name 'image_%05d.jpg' "$i"
    touch "flowers/$name"
    printf '%s\t%d\n' "$name" $((i % 102 + 1))
  done >flowers.tsv
  "$script" --table flowers.tsv --validation 1 flowers >/dev/null
  expect '102 classes' 102 "$(wc -l <flowers/classes.txt)"
  expect 'named by their numbers' '1 2 3' "$(head -n 3 flowers/classes.txt | xargs)"
  expect 'label 1 of the table is 0' 'image_00102.jpg 0' \
    "$(cat flowers/train.txt flowers/val.txt | grep '^image_00102.jpg')"
  expect 'one per class' "$(seq -s ' ' 0 101)" "$(cut -d ' ' -f 2 flowers/val.txt | sort -n | xargs)"
}

a_table_that_says_the_side() {
  mkdir birds
  touch birds/{'a, b',c,d,e}.jpg
  printf '\357\273\277file,label,part\r\n' >birds.csv
  printf 'a, b.jpg,wren,train\r\n\r\n./c.jpg, owl ,val\r\nd.jpg,owl,train\r\ne.jpg,wren,val\r\n' >>birds.csv
  "$script" --header --table birds.csv birds >/dev/null
  expect 'names in byte order' 'owl wren' "$(xargs <birds/classes.txt)"
  expect 'training as told' 'a, b.jpg 1 d.jpg 0' "$(xargs <birds/train.txt)"
  expect 'validation as told' 'c.jpg 0 e.jpg 1' "$(xargs <birds/val.txt)"
}

mistakes() {
  mkdir -p empty split/train split/val tabs/a loop/a
  ln -s .. loop/a/back
  touch $'tabs/a/b\tc.jpg'
  expect_mistake 'is not a folder' nowhere
  expect_mistake 'found no image' empty
  expect_mistake 'image-folder' split
  expect_mistake 'tab or a line break' tabs
  expect_mistake 'link that leads back' loop
  expect_mistake 'unknown option' --fraction 1 photos
  expect_mistake 'must be a fraction' --validation 1.5 photos
  expect_mistake 'whole number' --seed x photos
  expect_mistake "no image of class 'Bear' is left" --validation 20 photos
  expect_mistake 'there is no table' --table nowhere.csv birds
  printf 'c.jpg owl\n' >bad.csv
  expect_mistake 'bad.csv:1: expected an image' --table bad.csv birds
  printf 'c.jpg,owl\nc.jpg,wren\n' >bad.csv
  expect_mistake 'bad.csv:2: "c.jpg" stands in line 1' --table bad.csv birds
  printf 'c.jpg,owl\nx.jpg,wren\n' >bad.csv
  expect_mistake 'no image "x.jpg"' --table bad.csv birds
  printf 'c.jpg,owl,val\nd.jpg,wren\n' >bad.csv
  expect_mistake 'bad.csv:2: either all lines' --table bad.csv birds
  code=0
  "$script" photos >/dev/null 2>&1 || code=$?
  expect 'lists that are there stay' 2 "$code"
}

a_folder_per_class
the_same_again_and_others_with_another_seed
a_count_per_class_or_none
flowers
a_table_that_says_the_side
mistakes
grep -q -- '--validation F' <<<"$("$script" --help)" || expect help '--validation F' 'another text'
((failures == 0)) || exit 1
echo 'make_lists: as expected'
