#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the list files of image training: train.txt and val.txt (one image a line: path, space, label) and classes.txt
# (line k names label k, counted from 0).
#
#   scripts/make_lists.sh [options] FOLDER                  FOLDER holds a folder per class; classes in byte order
#   scripts/make_lists.sh [options] --table FILE FOLDER     FILE says per line: image, tab or comma, label
#
#   --validation F    what goes into val.txt: a fraction of each class (0.1, the default) or images per class (1, 2
#                     …); 0 makes no val.txt
#   --seed N          chooses other images for validation (default 0)
#   --out DIR         where the lists go (default: FOLDER)
#   --header          the table's first line is a heading
#   --force           replace lists that are there
#
# In a table images are named as they lie in FOLDER, labels are numbers or names, and become 0, 1, 2 … in their order;
# a third column "train" or "val" decides instead of --validation. The same files, options and seed give the same lists,
# and few images change sides when some are added. Paths are relative to the list; absolute if the list lies elsewhere
# or next to a folder train/ or val/, where Flotilla would look. JPEG and PNG by their ending (.jpg .jpeg .png, any case).
# Exit codes: 0 done; 2 a mistake, named with its line; nothing is written then.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=scripts/common.sh
. "$here/common.sh"
export LC_ALL=C

usage() {
  sed -n '3,/^set -euo/s/^# \{0,1\}//p' "$0"
}

mistake() {
  fail 2 "make_lists: $*"
}

validation=0.1 seed=0 out='' table='' folder='' header=0 force=false
while (($# > 0)); do
  case $1 in
    --validation | --seed | --out | --table)
      (($# > 1)) || mistake "$1 needs a value (see --help)"
      case $1 in
        --validation) validation=$2 ;;
        --seed) seed=$2 ;;
        --out) out=$2 ;;
        --table) table=$2 ;;
      esac
      shift 2
      ;;
    --header) header=1 && shift ;;
    --force) force=true && shift ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) mistake "unknown option '$1' (see --help)" ;;
    *)
      [[ -z $folder ]] || mistake "one folder at a time, got '$folder' and '$1' (see --help)"
      folder=$1
      shift
      ;;
  esac
done
[[ -n $folder ]] || mistake "say which folder holds the images (see --help)"
[[ -d $folder ]] || mistake "'$folder' is not a folder"
[[ $seed =~ ^[0-9]{1,15}$ ]] || mistake "--seed must be a whole number, got '$seed'"
[[ $validation =~ ^(0?\.[0-9]+|[0-9]{1,9})$ ]] ||
  mistake "--validation must be a fraction below 1 or a whole number of images, got '$validation'"
[[ -z $table || -f $table ]] || mistake "there is no table '$table'"
folder=$(cd -- "$folder" && pwd)
mkdir -p -- "${out:=$folder}" || mistake "cannot make the folder '$out'"
out=$(cd -- "$out" && pwd)
for name in train.txt val.txt classes.txt; do
  if [[ -e $out/$name ]] && ! $force; then
    mistake "'$out/$name' is there: give --force to replace it, or another --out"
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/rows"

unreadable() {
  mistake "'$folder' cannot be read as a whole, find says why: give yourself the right, or remove the link that leads back"
}

# From here on rows: label, tab, path in the folder, tab, "train", "val" or nothing.
rows_of_folders() {
  local odd others
  if [[ -d $folder/train && -d $folder/val ]]; then
    mistake "'$folder' is split into train/ and val/ already: data.kind = \"image-folder\" takes them without lists"
  fi
  odd=$(find -L "$folder" -mindepth 2 -name $'*[\t\n]*' -print -quit) || unreadable
  [[ -z $odd ]] || mistake "a name holds a tab or a line break, which a list cannot: '$odd'"
  # Hidden files (._a.jpg of some systems is not an image) and the contents of hidden folders are ignored.
  # shellcheck disable=SC2016
  others=$(find -L "$folder" -mindepth 2 -type f -printf '%P\n' | awk -F/ -v rows="$work/rows" '
    /(^|\/)\./ { next }
    tolower($0) ~ /\.(jpg|jpeg|png)$/ { print $1 "\t" $0 "\t" >rows; next }
    { ++others }
    END { print others + 0 }
  ') || unreadable
  ((others == 0)) || say "make_lists: left out $others files in class folders that do not end in .jpg, .jpeg or .png"
}

# Checks the table's form, then that each image is there: the folder is listed once, however long the table is.
rows_of_table() {
  # shellcheck disable=SC2016  # $1 … are awk's
  awk -v header="$header" -v name="$table" -v rows_file="$work/rows" '
    function trimmed(text) { gsub(/^[ \r]+|[ \r]+$/, "", text); return text }
    function mistake(text) { print name ":" NR ": " text; if (++mistakes == 10) exit }
    NR == 1 { sub(/^\357\273\277/, "") }
    NR <= header || /^[ \t\r]*$/ { next }
    {
      separator = index($0, "\t") ? "\t" : ","
      n = split($0, field, separator)
      side = trimmed(field[n])
      if (n > 2 && (side == "train" || side == "val")) --n
      else side = ""
      label = trimmed(field[n])
      path = field[1]
      for (i = 2; i < n; ++i) path = path separator field[i]
      path = trimmed(path)
      if (n < 2 || label == "" || path == "") { mistake("expected an image, a tab or comma, and a label"); next }
      if (path ~ /\t/) { mistake("the third column must be train or val"); next }
      sub(/^(\.\/)+/, "", path)
      if (path in line) { mistake("\"" path "\" stands in line " line[path] " already"); next }
      line[path] = NR
      if (rows++ && (side == "") != (sides == "")) { mistake("either all lines say train or val, or none"); next }
      sides = side
      print label "\t" path "\t" side >rows_file
    }' "$table" >"$work/mistakes"
  if [[ ! -s $work/mistakes ]]; then
    find -L "$folder" -type f -printf '%P\n' |
      awk -F '\t' -v name="$table" '
        NR == FNR { there[$0] = 1; next }
        !($2 in there) {
          print name ": there is no image \"" $2 "\" in the folder of images"
          if (++n == 10) exit
        }
      ' - "$work/rows" >"$work/mistakes" || unreadable
  fi
  [[ ! -s $work/mistakes ]] || mistake "$(cat "$work/mistakes")"
}

if [[ -n $table ]]; then
  rows_of_table
else
  rows_of_folders
fi
[[ -s $work/rows ]] || mistake "found no image: '$folder' should hold a folder per class (or give --table)"

if grep -qvE '^[0-9]+$' <(cut -f 1 "$work/rows"); then
  cut -f 1 "$work/rows" | sort -u >"$work/classes.txt"
else
  cut -f 1 "$work/rows" | sort -u | sort -n >"$work/classes.txt"
fi

# The order by a hash of the path, salted by the seed, decides which images of a class come first.
printf '%016d%048d' "$seed" 0 >"$work/salt"
awk -F '\t' -v OFS='\t' 'NR == FNR { label[$0] = FNR - 1; next } { print label[$1], $2, $3 }' "$work/classes.txt" \
  "$work/rows" | sort -t $'\t' -k 1,1n -k 2,2R -k 2,2 --random-source="$work/salt" >"$work/ordered"

prefix=''
if [[ $out != "$folder" || -d $out/train || -d $out/val ]]; then
  prefix=$folder/
fi
# shellcheck disable=SC2016
awk -F '\t' -v validation="$validation" -v prefix="$prefix" -v folder="$work" '
  NR == FNR { ++images[$1]; next }
  {
    part = validation ~ /\./ ? int(validation * images[$1] + 0.5) : validation
    side = $3 != "" ? $3 : seen[$1]++ < part ? "val" : "train"
    ++count[side, $1]
    print prefix $2 " " $1 >(folder "/" side)
  }
  END { for (label in images) if (!count["train", label]) print label >(folder "/untrained") }
' "$work/ordered" "$work/ordered"
if [[ -s $work/untrained ]]; then
  class=$(sed -n "$(($(sort -n "$work/untrained" | head -n 1) + 1))p" "$work/classes.txt")
  mistake "no image of class '$class' is left for training: choose a smaller --validation"
fi

images() {
  wc -l <"$1"
}
for side in train val; do
  rm -f -- "$out/$side.txt"
  [[ -s $work/$side ]] || continue
  sort "$work/$side" >"$out/$side.txt"
done
cp -- "$work/classes.txt" "$out/classes.txt"
in_validation='no val.txt'
[[ ! -s $out/val.txt ]] || in_validation="$(images "$out/val.txt") in val.txt"
say "make_lists: $(images "$out/classes.txt") classes, $(images "$out/train.txt") images in train.txt," \
  "$in_validation; the lists are in $out"
