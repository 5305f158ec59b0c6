#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What goes into packages in addition to the program: manual pages from --help, completion in bash, recipes. A package of a build
# for this machine's own processor is refused. Arguments: (a folder that other tests use), source folder, build folder.
set -euo pipefail
source=$2 build=$3
# shellcheck source=tests/install/expect.sh
. "${0%/*}/expect.sh"

manual_pages_are_made_of_the_help() {
  command -v help2man >/dev/null || { echo "no help2man: manual pages were not made"; return; }
  "$source/scripts/make_manual.sh" "$build/flotilla" "$work/manual" >/dev/null
  local page
  for page in flotilla flotilla-train flotilla-bench flotilla-bench-step flotilla-make-data-criteo; do
    expect "the page $page" yes "$([[ -s $work/manual/$page.1.gz ]] && echo yes)"
  done
  zcat "$work/manual/flotilla-train.1.gz" >"$work/train.1"
  expect 'the option of the page' 1 "$(grep -c '^\\fB\\-\\-check\\fR' "$work/train.1")"
  expect 'the name in the page' 'flotilla-train \- Train the network of a deck' "$(sed -n '/^.SH NAME/{n;p}' "$work/train.1")"
  expect 'folders of this machine in the pages' 0 "$(zcat "$work"/manual/*.gz | grep -cF -e "$work" -e "$build" || true)"
}

# complete <word>...: what Tab offers after these words, in one line.
complete_words() {
  PATH=$build:$PATH bash -c '
    . "$1/scripts/completion.bash"
    compopt() { :; }
    shift
    COMP_WORDS=(flotilla "$@") COMP_CWORD=$# COMPREPLY=()
    _flotilla
    echo "${COMPREPLY[*]}"' bash "$source" "$@"
}

completion_asks_the_program() {
  expect 'commands' 'train' "$(complete_words tr)"
  expect 'parts of a command' 'all-reduce input step' "$(complete_words bench '' | tr ' ' '\n' | sort | xargs)"
  expect 'options' '--check' "$(complete_words train deck.toml --ch)"
  expect 'keys of a deck' 'train.epochs=' "$(complete_words train deck.toml train.epo)"
  expect 'names for flotilla keys' 'strategy.period' "$(complete_words keys strategy.period)"
}

a_build_for_this_processor_is_not_packed() {
  grep -q '^FLOTILLA_ARCHITECTURE:[A-Z]*=native$' "$build/CMakeCache.txt" ||
    { echo "this build may be packed: the refusal was not tried"; return; }
  local said
  said=$( (cd "$work" && cpack --config "$build/CPackConfig.cmake" 2>&1) || true)
  expect 'the refusal' 1 "$(grep -c 'build is for the processor of this machine' <<<"$said")"
  expect 'packages' 0 "$(find "$work" "$build" -maxdepth 1 -name '*.deb' | wc -l)"
}

recipes_are_well_formed() {
  if command -v python3 >/dev/null; then
    expect "Spack's recipe" 0 "$(python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' \
      "$source/packaging/spack/package.py" >/dev/null 2>&1; echo $?)"
  fi
  expect 'sections of the Apptainer definition that it does not know' '' \
    "$(grep -oE '^%[a-z]+' "$source/packaging/flotilla.def" |
      grep -vxE '%(files|post|environment|runscript|startscript|test|labels|help|setup|arguments)' || true)"
  expect 'stages of the Apptainer definition' 2 "$(grep -c '^Bootstrap: docker$' "$source/packaging/flotilla.def")"
}

manual_pages_are_made_of_the_help
completion_asks_the_program
a_build_for_this_processor_is_not_packed
recipes_are_well_formed
verdict
