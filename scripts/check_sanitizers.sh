#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests under sanitizers, each kind in a build folder of its own.
#
#   scripts/check_sanitizers.sh address|thread [TEST...]
#
#   address   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer of GCC, over the whole suite
#   thread    ThreadSanitizer of clang-19, over the tests that have threads
#   TEST      only tests of these names, "test_loader" or "test_push_pull.np2" (see ctest -N)
#
# Ends with a table of the tests, their findings and times; with 1 if there was a finding, or a test failed. The findings
# lie in build/cpu-…sanitize/findings. tests/support/suppressions says what is passed over, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

# Why clang for threads: GCC's OpenMP (libgomp) synchronises with futexes that no sanitizer sees, so that each loop that
# threads share looks like a race. LLVM's (libomp) tells ThreadSanitizer where threads meet (libarcher), and oneDNN, which
# asks for libgomp, finds libomp's functions of that name first. GCC's other kinds need no such help, and are of the
# compiler that builds the program; -fexpensive-optimizations fuses multiplications with additions as -O2 does, without which
# tests of equal bits would compare other sums.
kind=${1:-}
case $kind in
  address)
    preset=cpu-sanitize
    ;;
  thread)
    preset=cpu-thread-sanitize
    command -v clang++-19 >/dev/null ||
      fail 2 "sanitizers: clang++-19 is missing: apt-get install clang-19 libclang-rt-19-dev libomp-19-dev"
    ;;
  *)
    sed -n '3,12s/^# \{0,1\}//p' scripts/check_sanitizers.sh
    [[ $kind == -h || $kind == --help ]] && exit 0
    exit 2
    ;;
esac
shift
build=build/$preset
findings=$PWD/$build/findings

# Tests with threads of our own: loaders, staging and readers of shards; communication threads, watchdogs and their roll
# calls, workers and servers; writers of checkpoints; listeners for signals; the console, logs, traces and readers of
# metrics, which several threads use; and loops that OpenMP's threads share. The others compute on one thread, or count
# allocations with operators of their own, which ThreadSanitizer replaces.
with_threads=(
  test_loader test_byte_samples test_images test_image_transform test_arrays
  test_shards test_clicks test_staging
  test_communication_lanes test_staged_all_reduce test_all_reduce test_collectives
  test_stop_consensus test_collective_log test_roll_call test_watchdog test_failing_jobs test_mismatched_jobs test_nccl
  test_push_pull test_payloads test_row_exchange test_parameter_server test_click_training test_local_sgd
  test_checkpoint_writer test_checkpoint_folder test_save_sequences test_saving test_save_clock
  test_reporter test_console test_trace_file test_report_reader
  test_trainer test_beginning test_far_memory test_synchronised_norm test_straggler_monitor
  test_flat_math test_row_update test_half test_softmax_loss test_layer_norm test_image_operations test_bfloat16_images
  test_cpu_bfloat16 test_loops test_openmp_waiting
  test_runs_train test_runs_resume test_runs_faults test_runs_local_sgd test_runs_parameter_server test_runs_clicks
  test_runs_staging test_runs_images test_runs_arrays test_runs_pack test_runs_report test_runs_predict
)
# Tests that do not run under a sanitizer: those that read the sources or build others; those that measure memory, of which
# sanitizers take more; and those that make a call fail by a library between program and system, where the sanitizer's own
# functions are.
never='^(style|install|cuda|hosts|scripts|processor)\.|^test_((idx|image|table)_memory|click_allocations|failures)$|^test_gpu_|^test_fake_gpu$'
# Tests among others of a program, under ThreadSanitizer only: one that measures memory; and one whose process may only write
# small files, while the sanitizer keeps its marks of constants in a large one.
[[ $kind == address ]] ||
  export GTEST_FILTER='-Check.PredictsTheMemoryWithinATenth:Fault.AFullDiskWhileSavingKeepsTheLastGoodCheckpoint'

find_ccache
began=$SECONDS
mkdir -p build
cmake --preset "$preset" "${launcher[@]}" >"$build.log" 2>&1 || fail 1 "sanitizers: cmake failed ($build.log)"

# The names of ctest, a line each; a program that runs on several rank counts, or in parts, has one for each: NAME.np2
mapfile -t all < <(ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p' | grep -vE "$never")
wanted=("$@")
[[ $kind == address ]] || (($#)) || wanted=("${with_threads[@]}")
((${#wanted[@]})) || wanted=("${all[@]}")
tests=()
for name in "${wanted[@]}"; do
  mapfile -t found < <(printf '%s\n' "${all[@]}" | grep -xE "${name//./\\.}(\.np[0-9]+)?" || true)
  if ((${#found[@]})); then
    tests+=("${found[@]}")
  elif (($#)); then
    fail 2 "sanitizers: there is no test '$name' (see ctest --test-dir $build -N)"
  else
    say "sanitizers: $name is left out: this machine lacks what it needs"
  fi
done

# A test that is skipped because this machine lacks something has no program.
mapfile -t targets < <(comm -12 <(printf '%s\n' "${tests[@]%%.*}" | sort -u) \
  <(cmake --build "$build" --target help | sed -n 's/: .*//p' | sort -u))
say "sanitizers: building ${#targets[@]} programs in $build"
cmake --build "$build" -j "$(build_jobs)" --target flotilla "${targets[@]}" >>"$build.log" 2>&1 || {
  tail -n 30 "$build.log" >&2
  fail 1 "sanitizers: the build failed ($build.log)"
}
built_s=$((SECONDS - began))

open_mpi_settings
rm -rf "$findings"
mkdir -p "$findings"
export findings build
export races=$PWD/tests/support/suppressions/thread.txt reads=$PWD/tests/fuzz/reads.txt

# run_test <name>: a file of its own for each process with findings, NAME.PID, and "NAME outcome seconds" as NAME.row
run_test() {
  local name=$1 outcome=passed began=$SECONDS symbolizer
  local common="log_path='$findings/$name':print_suppressions=0"
  # Allocations that fail must return an error, as without a sanitizer; libraries that tests preload come first.
  # A leak does not change the exit code, which tests check: leaks are counted afterwards. A test reads memory that
  # the host cannot reach, and must end by that signal.
  local address="$common:exitcode=0:abort_on_error=1:handle_segv=0"
  # What libraries read past what they were given.
  export ASAN_OPTIONS="$address:suppressions='$reads':allocator_may_return_null=1:verify_asan_link_order=0:detect_stack_use_after_return=1"
  export UBSAN_OPTIONS="$address:print_stacktrace=1"
  # MPI's launcher starts programs from processes that have threads. What libomp does with its own mutexes is passed over
  # (LLVM's advice), the loops that it calls are not.
  export TSAN_OPTIONS="$common:suppressions='$races':die_after_fork=0:second_deadlock_stack=1"
  TSAN_OPTIONS+=":ignore_noninstrumented_modules=1"
  ! symbolizer=$(command -v llvm-symbolizer-19 || command -v llvm-symbolizer) ||
    TSAN_OPTIONS+=":external_symbolizer_path=$symbolizer"
  ctest --test-dir "$build" -R "^${name//./\\.}\$" --output-on-failure >"$findings/$name.out" 2>&1 ||
    outcome=FAILED
  ! grep -q '\*\*\*Skipped' "$findings/$name.out" || outcome=skipped
  echo "$name $outcome $((SECONDS - began))" >"$findings/$name.row"
}
export -f run_test

# findings_of <name>: errors, and leaks whose allocation was asked for by a function of this tree. Open MPI unloads its
# components before leaks are looked for, so that leaks in them have no names that could be passed over one by one.
findings_of() {
  find "$findings" -name "$1.[0-9]*" -exec cat {} + |
    here=$PWD awk 'BEGIN { RS = ""; split("kernels models mpi src tests", folders, " ") }
      function ours(folder) {
        for (folder in folders) if (index($0, ENVIRON["here"] "/" folders[folder] "/")) return 1
        return 0
      }
      /WARNING: ThreadSanitizer|ERROR: AddressSanitizer|runtime error:/ || (/leak of/ && ours()) { ++count }
      END { print count + 0 }'
}
began=$SECONDS
printf '%s\n' "${tests[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'run_test {}'

failures=0
printf '%-34s %-8s %8s %8s\n' test outcome findings seconds
for name in "${tests[@]}"; do
  read -r _ outcome seconds <"$findings/$name.row"
  count=$(findings_of "$name")
  ((count == 0)) && [[ $outcome != FAILED ]] || failures=$((failures + 1))
  printf '%-34s %-8s %8s %8s\n' "$name" "$outcome" "$count" "$seconds"
done
say "sanitizers: built in $(duration "$built_s"), tested in $(duration $((SECONDS - began)))"
((failures == 0)) || fail 1 "sanitizers: $failures of ${#tests[@]} tests have findings or failed ($build/findings)"
