#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a trained network: installs what is missing, builds Flotilla, trains the MLP of
# inputs/mnist_mlp.toml on 2 ranks for 3 epochs on the digits that the repository ships, and shows what to try next.
#
#   scripts/quickstart.sh [--no-setup]
#
# Can be run again; the run's folder, runs/quickstart, is then recreated.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

with_setup=true
case ${1:-} in
  '') ;;
  --no-setup) with_setup=false ;;
  -h | --help)
    sed -n '3,8s/^# \{0,1\}//p' scripts/quickstart.sh
    exit 0
    ;;
  *) fail 2 "quickstart: unknown argument '$1' (see scripts/quickstart.sh --help)" ;;
esac

build=build/cpu
output=runs/quickstart
if $with_setup; then
  say "quickstart, 1 of 3: installing what is missing"
  scripts/setup.sh
fi

began=$SECONDS
jobs=$(build_jobs)
say "quickstart, 2 of 3: building in $build, $jobs compilers at once (the details are in $build/build.log)"
mkdir -p "$build"
if ! { cmake --preset cpu && cmake --build "$build" --target flotilla -j "$jobs"; } >"$build/build.log" 2>&1; then
  grep -m 5 -A 5 -E 'error:|CMake Error|FAILED:' "$build/build.log" >&2 || tail -n 20 "$build/build.log" >&2
  fail 1 "quickstart: the build failed; all that it said is in $build/build.log"
fi
say "quickstart: built in $(duration $((SECONDS - began)))"

open_mpi_settings
rm -rf "$output"
command="mpirun -n 2 $build/flotilla train inputs/mnist_mlp.toml train.epochs=3 run.output=$output"
say "quickstart, 3 of 3: training on 2 ranks"
printf '\n  $ %s\n\n' "$command"
code=0
$command || code=$?
if ((code != 0)); then
  fail "$code" "quickstart: the training ended with exit code $code (docs/reference.md, \"Exit codes\"); its log is in $output/log"
fi

cat <<END

flotilla: quickstart: done. The run is in $output: metrics.jsonl, deck.toml, checkpoints/, log/.

What to try next:
  export PATH="\$PWD/$build:\$PATH"
  flotilla --help
  mpirun -n 2 flotilla evaluate $output                             # the newest checkpoint on the test digits
  flotilla report $output                                           # its curves, as a page for a browser
  flotilla inspect $output/checkpoints/step-*.h5                    # what is in it
  mpirun -n 2 flotilla train inputs/mnist_mlp.toml --check          # what a run would do, without running
  mpirun -n 2 flotilla train inputs/mnist_mlp.toml optimizer.kind=momentum schedule.learning_rate=0.05 run.output=runs/momentum
  mpirun -n 2 flotilla train inputs/mlp_random.toml                 # no data needed
  mpirun -n 2 flotilla bench all-reduce                             # how fast ranks add their gradients here
  jobscripts/local.sh inputs/mnist_mlp.toml run.output=runs/local   # ranks and threads to fit this machine
Keys of a deck are found by words, those of other programs too: flotilla keys learning rate
docs/guide.md goes on from here, to your own data.
END
if (($(id -u) == 0)); then
  echo "As root Open MPI wants: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
fi
