#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cmake --install lays out a tree that can be moved, names no folder of the build, and trains from anywhere. The tree stays
# for the other tests. Arguments: where it ends up, source folder, build folder, compiler.
set -euo pipefail
tree=$1 source=$2 build=$3 compiler=$4
# shellcheck source=tests/install/expect.sh
. "${0%/*}/expect.sh"

rm -rf "$tree" "$work/installed"
"${CMAKE:?}" --install "$build" --prefix "$work/installed" >"$work/said"
mv "$work/installed" "$tree"

everything_is_there() {
  local file
  for file in bin/flotilla bin/flotilla_job.sh lib*/libflotilla_train.a lib*/cmake/Flotilla/FlotillaConfig.cmake \
    include/flotilla/src/run.hpp include/flotilla/models/layer.hpp share/flotilla/inputs/mnist_mlp.toml \
    share/flotilla/inputs/data/mnist/train-images-idx3-ubyte.gz share/flotilla/jobscripts/local.sh \
    share/flotilla/scripts/make_lists.sh share/flotilla/examples/custom_model/main.cpp \
    share/doc/flotilla/LICENSE share/doc/flotilla/README.md share/doc/flotilla/docs/install.md \
    share/modulefiles/flotilla/*; do
    expect "installed: $file" 1 "$(compgen -G "$tree/$file" | wc -l)"
  done
  expect 'a job script is executable' yes "$([[ -x $tree/share/flotilla/jobscripts/local.sh ]] && echo yes)"
}

# Debug information may name sources; what is used may not.
nothing_names_the_build() {
  local file
  find "$tree" -name '*.a' -o -path '*/bin/flotilla' | while read -r file; do
    strip --strip-debug -o "$work/stripped-${file##*/}" "$file"
  done
  # The place that it was installed to first lies below "$work".
  expect 'files that name the source or build folder, or the prefix' '' \
    "$( (
      grep -rlIF -e "$source/" -e "$build" -e "$work" "$tree"
      grep -laF -e "$source/" -e "$build" -e "$work" "$work"/stripped-*
    ) || true)"
}

# A project that compiles against the tree has its headers and the compiler's, none of a vendor's.
every_header_compiles() {
  (cd "$tree/include/flotilla" && find . -name '*.hpp' | sort | sed 's|^\./\(.*\)|#include "\1"|') >"$work/all.cpp"
  expect 'headers were found' 1 "$(($(wc -l <"$work/all.cpp") > 100))"
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra "-I$tree/include/flotilla" "$work/all.cpp" >"$work/said" 2>&1 ||
    expect 'all headers together' '' "$(cat "$work/said")"
}

it_trains_from_anywhere() {
  cd "$work"
  "${MPIEXEC:?}" -n 2 "$tree/bin/flotilla" train "$tree/share/flotilla/inputs/mnist_mlp.toml" train.steps=20 >said 2>&1 ||
    cat said
  expect 'a run below the current folder' 'runs/mnist/checkpoints/step-00000020.h5' "$(compgen -G 'runs/mnist/checkpoints/*.h5')"
}

# dead_links FOLDER: file and target of each link in its Markdown files to a file that is not there.
dead_links() {
  local file target
  grep -roE --include='*.md' ']\([^)#]+' "$1" | grep -v '](http' | while IFS= read -r line; do
    file=${line%%:*} target=${line##*](}
    [[ -e ${file%/*}/$target ]] || echo "${file#"$1/"} $target"
  done
}

every_link_of_the_documents_holds() {
  expect 'links were looked at' 1 "$(($(grep -roE --include='*.md' ']\([^)#]+' "$tree/share/doc/flotilla" | wc -l) > 20))"
  expect 'dead links' '' "$(dead_links "$tree/share")"
}

# No flotilla is on PATH here.
its_job_script_for_one_machine_finds_it() {
  cd "$work"
  PATH=${MPIEXEC%/*}:/usr/bin:/bin RANKS=2 "$tree/share/flotilla/jobscripts/local.sh" "$tree/share/flotilla/inputs/mnist_mlp.toml" \
    run.output=local train.steps=5 validation.every=0 >said 2>&1 || cat said
  expect 'a run of local.sh' 1 "$(grep -c '^done after step 5 ' said)"
}

everything_is_there
nothing_names_the_build
every_header_compiles
it_trains_from_anywhere
every_link_of_the_documents_holds
its_job_script_for_one_machine_finds_it
verdict
