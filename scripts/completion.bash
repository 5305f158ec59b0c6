# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of flotilla's commands, options, files and keys of a deck: `. completion.bash`, or copied to
# ~/.local/share/bash-completion/completions/flotilla. It asks the program, so it knows what that knows.

# Paths of all keys of a deck, "train.epochs=".
_flotilla_keys() {
  "$1" keys --all 2>/dev/null | sed -n 's/^# //; /^\[/ { s/[][]//g; h; b }; /=/ { s/ =.*//; G; s/^\(.*\)\n\(.*\)$/\2.\1=/p }'
}

_flotilla() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} word help names
  local -a command=()
  # "key=val" is cut at "=" into words of its own; the commands come first.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == [a-z]* ]] || break
    "$program" "${command[@]}" "$word" --help >/dev/null 2>&1 || break
    command+=("$word")
    ((${#command[@]} < 2)) || break
    [[ ${command[0]} == bench || ${command[0]} == make-data ]] || break
  done
  help=$("$program" "${command[@]}" --help 2>/dev/null)
  if [[ $current == -* ]]; then
    names=$(grep -o -- '--[a-z][a-z-]*' <<<"$help" | sort -u)
  elif [[ $help == *Subcommands:* ]]; then
    names=$(sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
  elif [[ ${command[*]} == keys ]]; then
    names=$(_flotilla_keys "$program" | sed 's/=$//')
  elif [[ $help == *OVERRIDES* ]]; then
    names=$(_flotilla_keys "$program")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
  if [[ $help != *Subcommands:* && ${command[*]} != keys && $current != -* ]]; then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
  fi
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}
complete -o filenames -F _flotilla flotilla
