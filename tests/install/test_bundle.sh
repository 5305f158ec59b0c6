#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/bundle.sh makes a folder that trains from anywhere with its own libraries only. Arguments: where the bundle is
# moved to, source folder, build folder.
set -euo pipefail
moved=$1 source=$2 build=$3
# shellcheck source=tests/install/expect.sh
. "${0%/*}/expect.sh"

# Libraries that every Linux has; all others must come from the bundle.
core='/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_[a-z]+)[.]so[.0-9]*$'

rm -rf "$moved"
case $(ompi_info --version 2>/dev/null) in
  'Open MPI v4.'*) ;;
  *)
    echo "SKIPPED: a bundle can carry Open MPI 4 only, which is not here"
    exit 0
    ;;
esac
"$source/scripts/bundle.sh" --build "$build" "$work/made" >"$work/said"
mv "$work/made" "$moved"

it_trains_with_its_own_libraries() {
  local strangers
  cd "$work"
  mkdir loaded
  LD_DEBUG=libs LD_DEBUG_OUTPUT=$work/loaded/trace "$moved/bin/mpirun" -n 2 "$moved/bin/flotilla" \
    train "$moved/inputs/mnist_mlp.toml" train.steps=10 >said 2>&1 || cat said
  expect 'a run below the current folder' 'runs/mnist/checkpoints/step-00000010.h5' "$(compgen -G 'runs/mnist/checkpoints/*.h5')"
  # Traces of the programs, without those of the shells that start them.
  grep -l "$moved/libexec/" loaded/* >programs || true
  expect 'mpirun and two ranks were traced' 1 "$(($(wc -l <programs) >= 3))"
  strangers=$(xargs sed -n 's/.*calling init: //p' <programs | grep '^/' | grep -v "^$moved/" | grep -vE "$core" | sort -u || true)
  expect 'libraries that are not the bundle'"'"'s' '' "$strangers"
}

nothing_in_it_names_where_it_was_made() {
  expect 'scripts that name the folder it was made in' '' "$(grep -rlIF "$work" "$moved" || true)"
}

it_leaves_mpi_to_the_site() {
  "$source/scripts/bundle.sh" --build "$build" --mpi site "$work/site" >"$work/said"
  expect 'MPI libraries in it' '' "$(compgen -G "$work/site/lib/libmpi*" || true)"
  cd "$work"
  "${MPIEXEC:?}" -n 2 "$work/site/bin/flotilla" train "$work/site/inputs/mnist_mlp.toml" train.steps=10 \
    run.output=site-run >said 2>&1 || cat said
  expect 'a run' 'site-run/checkpoints/step-00000010.h5' "$(compgen -G 'site-run/checkpoints/*.h5')"
}

# The program with CUDA of the tests stands for a build with CUDA, and a test on the fake GPU for one of a real GPU.
it_leaves_cuda_to_the_site() {
  local cuda=$work/cuda folder=$work/empty name path
  if [[ ! -x $build/tests/cuda/flotilla_with_cuda ]]; then
    echo "no program with CUDA in $build: --cuda site was not tried"
    return
  fi
  mkdir -p "$cuda/tests/cuda" "$folder"
  ln -s "$build/tests/cuda/flotilla_with_cuda" "$cuda/flotilla"
  expect_said 'holds no tests for a GPU' 2 "$source/scripts/bundle.sh" --build "$cuda" --gpu-check "$work/other"
  ln -s "$build/tests/cuda/test_gpu_order" "$cuda/tests/cuda/test_gpu_order_really"
  XZ_OPT=-0 "$source/scripts/bundle.sh" --build "$cuda" --cuda site --gpu-check "$work/packed.tar.xz" >"$work/said"
  cd "$folder"
  tar -xJf "$work/packed.tar.xz"
  expect 'the archive holds one folder' packed "$(ls)"
  expect 'libraries of CUDA in it' libcudart \
    "$(find packed/lib -name 'libcu[bd]*' -o -name 'libnccl*' -o -name 'libnv*' | sed 's|.*/||; s|[.].*||' | xargs)"

  # Lays the libraries out as PyTorch's packages do.
  for name in cudnn cublasLt; do
    path=$(ldd "$cuda/flotilla" | awk -v name="lib$name.so" 'index($1, name) == 1 { print $3 }')
    mkdir -p "$work/packages/nvidia/$name/lib"
    ln -s "$path" "$work/packages/nvidia/$name/lib/"
  done
  expect 'cuDNN of the packages' "$work/packages/nvidia/cudnn/lib" "$(folder_of_cudnn PYTHONPATH="$work/packages")"
  expect 'cuDNN of a folder that is named' "$work/packages/nvidia/cudnn/lib" \
    "$(folder_of_cudnn FLOTILLA_CUDA_LIBS="$work/packages/nvidia/cudnn/lib")"
  # This machine's loader knows where they are: an ldd that finds none stands for one whose loader does not.
  mkdir "$work/without"
  printf '#!/bin/sh\necho "libcudnn.so.9 => not found"\n' >"$work/without/ldd"
  chmod +x "$work/without/ldd"
  expect_said 'this machine has no libcudnn.so.9, which this bundle leaves to it: name the folders' 2 \
    env -i PATH="$work/without:/usr/bin:/bin" packed/bin/flotilla --version

  expect_said 'done after step 5 ' 0 env -i packed/bin/flotilla train packed/inputs/mnist_mlp.toml train.steps=5 run.output=alone
  mkdir "$work/tools"
  for name in awk basename dirname ldd readlink; do ln -s "$(command -v "$name")" "$work/tools/"; done
  expect_said 'done after step 5 ' 0 env -i PATH="$work/tools" packed/bin/flotilla train packed/inputs/mnist_mlp.toml train.steps=5 \
    run.output=without-ssh
  if [[ ! -e /dev/nvidia0 ]]; then
    expect_said 'sees no GPU' 2 env -i packed/bin/flotilla train packed/inputs/mnist_mlp.toml device.kind=cuda run.output=none
  fi
  expect_said '2 held, 0 failed' 0 env -i PATH=/usr/bin:/bin packed/scripts/check_gpu.sh --only '^(version|test_gpu_order)$' a checked
}

# folder_of_cudnn <variable>: from where the bundle's program loads cuDNN
folder_of_cudnn() {
  env -i "$1" LD_DEBUG=libs packed/bin/flotilla --version 2>&1 | sed -n 's|.*calling init: \(.*\)/libcudnn.so.*|\1|p' | sort -u
}

it_refuses_what_it_cannot_do() {
  expect_said 'is there already' 2 "$source/scripts/bundle.sh" --build "$build" "$moved"
  expect_said 'no executable' 2 "$source/scripts/bundle.sh" --build "$work" "$work/other"
  expect_said 'must be carried or site' 2 "$source/scripts/bundle.sh" --mpi none "$work/other"
  expect_said 'must be carried or site' 2 "$source/scripts/bundle.sh" --build "$build" --cuda none "$work/other"
  if [[ $(ldd "$build/flotilla") != *libcudart.so* ]]; then
    expect_said 'was built without CUDA' 2 "$source/scripts/bundle.sh" --build "$build" --cuda site "$work/other"
  fi
  expect_said 'name the folder' 2 "$source/scripts/bundle.sh"
}

it_trains_with_its_own_libraries
nothing_in_it_names_where_it_was_made
it_leaves_mpi_to_the_site
it_leaves_cuda_to_the_site
it_refuses_what_it_cannot_do
verdict
