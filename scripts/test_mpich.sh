#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with MPICH in a folder of its own and runs the tests that talk to an MPI. Not part of the tests of a change.
#
#   scripts/test_mpich.sh [--no-setup] [what ctest takes, for example -R test_loader]
#
# Without arguments for ctest: all tests of several ranks (-L mpi), and those that start the program as a user does
# (-L runs), but for three cases that need Open MPI's launcher, and on fewer than 4 cores test_parameter_server.np6.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

case ${1:-} in
  --no-setup) shift ;;
  -h | --help)
    sed -n '3,8s/^# \{0,1\}//p' scripts/test_mpich.sh
    exit 0
    ;;
  *) scripts/setup.sh --mpi mpich ;;
esac

# If both are installed Debian gives each a name of its own.
first_of() {
  command -v "$1.mpich" || command -v "$1" || fail 2 "mpich: $1 is missing (scripts/setup.sh --mpi mpich)"
}
compiler=$(first_of mpicc)
launcher_of_mpi=$(first_of mpiexec)
build=build/mpich
mkdir -p build
find_ccache
began=$SECONDS
say "mpich: building in $build"
if ! { cmake --preset cpu -B "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DFLOTILLA_TESTS=ON "${launcher[@]}" \
  -DMPI_C_COMPILER="$compiler" -DMPIEXEC_EXECUTABLE="$launcher_of_mpi" &&
  cmake --build "$build" -j "$(build_jobs)"; } >"$build.log" 2>&1; then
  tail -n 30 "$build.log" >&2
  fail 1 "mpich: the build failed ($build.log)"
fi
mpi=$("$build/flotilla" --version | grep '^MPI ')
[[ $mpi == *MPICH* ]] || fail 1 "mpich: this build has another MPI: $mpi"
built_s=$((SECONDS - began))

# MPICH's launcher gives ranks no terminal. After a SIGUSR1, which it hands on, it ends with 0 or with the ranks' code, as it
# happens.
export GTEST_FILTER='-Live.ALineOfTheTerminalShowsWhereTheRunStands'
GTEST_FILTER+=':Resume.GoesOnAfterASignal:Resume.IsAskedForThoughMetricsWereLost'
began=$SECONDS
code=0
if (($# == 0)); then
  set -- -L '^(mpi|runs)$'
  if (($(nproc) < 4)); then
    say "mpich: test_parameter_server.np6 is left out: its ranks, which spin as they wait, need more than $(nproc) cores"
    set -- "$@" -E '^test_parameter_server[.]np6$'
  fi
fi
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error "$@" || code=$?
say "mpich: built in $(duration "$built_s"), tested in $(duration $((SECONDS - began)))"
exit "$code"
