#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes manual pages from --help: flotilla.1 and one for each command.
#
#   scripts/make_manual.sh FLOTILLA FOLDER
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
(($# == 2)) || fail 2 "make_manual: an executable and a folder are needed (see scripts/make_manual.sh)"
program=$(realpath "$1") folder=$2
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TZ=UTC SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

# commands <word>...: the names that --help lists below "Subcommands:".
commands() {
  "$program" "$@" --help | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# page <one line about it> <word>...: the page of a command.
page() {
  local about=$1 name
  shift
  name=$(IFS=-; echo "flotilla${*:+-$*}")
  printf '#!/bin/sh\nexec %q %s "$@"\n' "$program" "$*" >"$work/$name"
  chmod +x "$work/$name"
  help2man --no-info --no-discard-stderr --version-option=--version --name "$about" --section 1 \
    --version-string "$("$program" --version | head -n 1 | cut -d ' ' -f 2)" \
    --source flotilla --include "$work/see" "$work/$name" --output "$work/$name.1"
  gzip -9n <"$work/$name.1" >"$folder/$name.1.gz"
}

# about <word>...: what --help says that a command is for, its first line.
about() {
  "$program" "$@" --help | head -n 1
}

cat >"$work/see" <<'END'
[SEE ALSO]
.BR flotilla (1),
.B flotilla keys
for the keys of a deck, and the documents in
.I /usr/share/doc/flotilla
END
page "trains neural networks on clusters by data parallelism"
for command in $(commands); do
  page "$(about "$command")" "$command"
  for part in $(commands "$command"); do
    page "$(about "$command" "$part")" "$command" "$part"
  done
done
say "make_manual: $(find "$folder" -name '*.1.gz' | wc -l) pages in $folder"
