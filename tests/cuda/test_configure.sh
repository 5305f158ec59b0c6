#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A build with FLOTILLA_CUDA=ON can be configured; without the toolkit it says what to do. Arguments: source folder, generator.
set -euo pipefail
source=$1 generator=$2
# shellcheck source=tests/install/expect.sh
. "$source/tests/install/expect.sh"

# configure <folder> <option>...
configure() {
  "${CMAKE:?}" -S "$source" -B "$work/$1" -G "$generator" -DFLOTILLA_TESTS=OFF -DFLOTILLA_CUDA=ON "${@:2}"
}

expect_said 'Build files have been written' 0 configure with
# CMake breaks the lines of a message anywhere between two words.
without() {
  configure without -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON 2>&1 | tr -s ' \n' '  '
  return "${PIPESTATUS[0]}"
}
expect_said 'FLOTILLA_CUDA=ON needs the CUDA toolkit 12 or newer' 1 without
verdict
