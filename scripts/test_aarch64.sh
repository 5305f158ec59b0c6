#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for aarch64 (Grace, Graviton, Ampere) and runs the unit tests by qemu. Not part of the tests of a change.
#
#   scripts/test_aarch64.sh [what ctest takes, for example -R test_loader]
#
# Needs Debian, g++-aarch64-linux-gnu, qemu-user and mmdebstrap, and root or a user who may make namespaces; the libraries
# of that architecture are unpacked into build/aarch64-root, nothing of them is installed. Tests of several ranks do not
# run: a launcher of that architecture would start processes that qemu does not follow.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '3,9s/^# \{0,1\}//p' scripts/test_aarch64.sh
  exit 0
fi
for command in aarch64-linux-gnu-g++ qemu-aarch64 mmdebstrap; do
  command -v "$command" >/dev/null ||
    fail 2 "aarch64: $command is missing: apt-get install g++-aarch64-linux-gnu qemu-user mmdebstrap"
done

root=$PWD/build/aarch64-root
build=build/aarch64
libraries=$root/usr/lib/aarch64-linux-gnu
if [[ ! -e $root/complete ]]; then
  say "aarch64: unpacking the libraries into $root"
  rm -rf "$root"
  mkdir -p build
  # shellcheck source=/dev/null
  read -r system suite < <(. /etc/os-release && echo "$ID" "${VERSION_CODENAME:-}")
  [[ $system == debian && -n $suite ]] || fail 2 "aarch64: the libraries of that architecture come from the package sources of a Debian release"
  mapfile -t sources < <(find /etc/apt/sources.list.d -name 'debian.sources')
  ((${#sources[@]})) || sources=(/etc/apt/sources.list)
  packages=libc6-dev,libstdc++-12-dev,libgomp1,libopenmpi-dev,libdnnl-dev,ocl-icd-opencl-dev,libhdf5-dev
  packages+=,libtomlplusplus-dev,libcli11-dev,libspdlog-dev,libfmt-dev,nlohmann-json3-dev,libxxhash-dev,zlib1g-dev
  packages+=,libjpeg-dev,libpng-dev,libonnx-dev,libprotobuf-dev,libgtest-dev,libbenchmark-dev
  mmdebstrap --variant=extract --architectures=arm64 --include="$packages" "$suite" "$root" "${sources[@]}" \
    >"$build-root.log" 2>&1 || fail 1 "aarch64: the libraries could not be unpacked ($build-root.log)"
  # Links that begin at the root of the file system would lead out of the folder.
  find "$root" -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
  done
  touch "$root/complete"
fi

find_ccache
say "aarch64: building in $build"
began=$SECONDS
if ! { cmake --preset cpu -B "$build" --toolchain "$PWD/cmake/aarch64.cmake" -DFLOTILLA_SYSROOT="$root" \
  -DFLOTILLA_ARCHITECTURE=armv8.2-a -DFLOTILLA_TESTS=ON "${launcher[@]}" \
  -DMPI_C_LIB_NAMES=mpi -DMPI_C_HEADER_DIR="$libraries/openmpi/include" -DMPI_mpi_LIBRARY="$libraries/openmpi/lib/libmpi.so" \
  -DHDF5_C_LIBRARY_hdf5="$libraries/hdf5/serial/libhdf5.so" -DHDF5_C_INCLUDE_DIR="$root/usr/include/hdf5/serial" &&
  cmake --build "$build" -j "$(build_jobs)"; } >"$build.log" 2>&1; then
  grep -m 1 -A 20 -E 'FAILED|CMake Error' "$build.log" >&2 || tail -n 20 "$build.log" >&2
  fail 1 "aarch64: the build failed ($build.log)"
fi
built_s=$((SECONDS - began))
began=$SECONDS
code=0
# Left out: what starts processes of that architecture, which this kernel does not know; what measures memory, of which qemu
# takes some.
export GTEST_FILTER='-WatchdogDeathTest.*:CheckpointWriter.ReportsALimitOnFileSizesAndLivesOn'
never='^test_(failing_jobs|mismatched_jobs|bad_memory|(idx|image|table)_memory|click_allocations)$'
ctest --test-dir "$build" -j "$(nproc)" -L '^unit$' -E "$never" --output-on-failure --no-tests=error "$@" || code=$?
say "aarch64: built in $(duration "$built_s"), tested in $(duration $((SECONDS - began)))"
exit "$code"
