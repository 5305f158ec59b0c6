#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/custom_model, copied out of the installed tree, builds against it, and its program does all that flotilla does; so does
# the program of docs/library.md.
# Arguments: the installed tree, CMake's generator, C compiler, C++ compiler.
set -euo pipefail
tree=$1 generator=$2 c_compiler=$3 compiler=$4
# shellcheck source=tests/install/expect.sh
. "${0%/*}/expect.sh"
# shellcheck source=tests/scripts/commands_of.sh
. "${0%/*}/../scripts/commands_of.sh"
cd "$work"
deck=$tree/share/flotilla/examples/custom_model/digits.toml
run=runs/residual_digits

two_ranks() {
  "${MPIEXEC:?}" -n 2 build/custom_model "$@"
}

# build FROM TO
build() {
  "${CMAKE:?}" -S "$1" -B "$2" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$c_compiler" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$tree" >said 2>&1 || { cat said; exit 1; }
  "$CMAKE" --build "$2" >said 2>&1 || { cat said; exit 1; }
}

it_builds() {
  cp -r "$tree/share/flotilla/examples/custom_model" copy
  build copy build
}

the_program_of_the_page_builds_and_trains() {
  mkdir page
  (cd page && files_of "$tree/share/doc/flotilla/docs/library.md")
  expect 'files of the page' 'CMakeLists.txt main.cpp' "$(cd page && echo *)"
  build page page_build
  cp -r "$tree/share/flotilla/inputs" .
  sed -i -e '/^widths /d' -e '/^activation /d' -e '/^initializer /d' inputs/mnist_mlp.toml # keys of "mlp"
  expect_said 'done after step 20' 0 page_build/small train inputs/mnist_mlp.toml model.kind=small model.small.width=16 \
    train.steps=20 run.output=runs/page
}

it_trains_resumes_and_evaluates() {
  expect_said '[model.residual-mlp]' 0 two_ranks train "$deck" --check
  expect_said 'done after step 100' 0 two_ranks train "$deck" train.steps=100
  expect_said 'done after step 237' 0 two_ranks train "$deck"
  two_ranks evaluate "$run" >said
  # 88 to 90 % after three epochs of the 10,000 digits that come along.
  expect 'top-1 accuracy above 0.85' yes "$(awk '$1 == "top-1" { print ($2 > 0.85 ? "yes" : $2) }' said)"
  expect_said 'block3.fc2.weight' 0 build/custom_model inspect "$run"
  build/custom_model export "$run" model.h5 >/dev/null
  expect 'the exported model evaluates alike' "$(grep ^loss said)" "$(two_ranks evaluate model.h5 "$deck" | grep ^loss)"
}

it_has_its_own_name() {
  expect_said 'Usage: custom_model [OPTIONS]' 0 build/custom_model --help
  expect_said 'see custom_model train --help' 2 build/custom_model train
}

its_keys_are_checked() {
  expect_said 'did you mean "blocks"' 2 two_ranks train "$deck" model.residual-mlp.block=2
  expect_said 'model.residual-mlp.width must be at least 1' 2 two_ranks train "$deck" model.residual-mlp.width=0
  expect_said 'model.residual-mlp.blocks: 3 in the checkpoint, 4 now' 2 two_ranks train "$deck" model.residual-mlp.blocks=4
  expect_said 'one of "mlp", "resnet", "layers", "ctr-dnn", "residual-mlp"' 2 two_ranks train "$deck" model.kind=other
  expect_said 'one of "mlp", "resnet", "layers", "ctr-dnn", got "residual-mlp"' 2 "$tree/bin/flotilla" train "$deck"
}

it_needs_both_languages() {
  sed -i 's/LANGUAGES C CXX/LANGUAGES CXX/' copy/CMakeLists.txt
  expect_said 'LANGUAGES C CXX)' 1 "$CMAKE" -S copy -B other -G "$generator" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$tree"
}

it_builds
the_program_of_the_page_builds_and_trains
it_trains_resumes_and_evaluates
it_has_its_own_name
its_keys_are_checked
it_needs_both_languages
verdict
