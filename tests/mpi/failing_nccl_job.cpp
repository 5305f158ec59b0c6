// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/collective_log.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "tests/mpi/fake_nccl/fake_cuda.hpp"
#include "tests/mpi/fake_nccl/fake_nccl.hpp"

// A job in which something fails while NCCL has work under way; test_failing_nccl_jobs launches it.
namespace {

using namespace std::chrono_literals;
using flotilla::NativeStream;
using flotilla::mpi::Communicator;

void end_job(const std::string& sentence, int exit_code) {
  std::fprintf(stderr, "flotilla: %s\n", sentence.c_str());
  flotilla::mpi::abort_job(exit_code);
}

/// The last rank throws with an all-reduce in flight; what it made is left while the exception goes by.
void give_up(const Communicator& world, NativeStream stream) {
  std::vector<float> memory(1000);
  const auto collectives = flotilla::mpi::make_nccl_all_reduce(world, stream);
  all_reduce_now(*collectives, {memory.data(), memory.size()});
  if (world.rank() == world.size() - 1) {
    std::this_thread::sleep_for(200ms);
    throw flotilla::UserError("the last rank gives up");
  }
  collectives->wait();
}

/// The network breaks for the last rank. It learns of that while its training thread continues to queue work,
/// as on a real device.
void lose_the_network(const Communicator& world, NativeStream stream) {
  std::vector<float> memory(1000);
  const auto collectives = flotilla::mpi::make_nccl_all_reduce(world, stream);
  flotilla::mpi::Watchdog watchdog(
      0, [](const std::string& sentence) { end_job(sentence, flotilla::exit_library_error); });
  const flotilla::mpi::AsyncErrorMonitor failures(watchdog, [&] { return collectives->failure(); });
  if (world.rank() == world.size() - 1) flotilla::test::break_fake_network();
  for (int step = 0;; ++step) {
    watchdog.beat("all-reduce of bucket", 1, 0);
    if (step < 10) all_reduce_now(*collectives, {memory.data(), memory.size()});
    std::this_thread::sleep_for(10ms);
  }
}

/// The network breaks for the last rank, whose device has sums to take that no rank waits for.
void lose_the_network_of_norms(const Communicator& world, NativeStream stream) {
  std::vector<double> values(100);
  const auto sums = flotilla::mpi::make_nccl_sums(world, stream);
  flotilla::mpi::Watchdog watchdog(
      0, [](const std::string& sentence) { end_job(sentence, flotilla::exit_library_error); });
  const flotilla::mpi::AsyncErrorMonitor failures(watchdog, [&] { return sums->failure(); });
  watchdog.beat("synchronised batch norm among the workers", 1);
  sums->all_reduce({values.data(), values.size()});
  if (world.rank() == world.size() - 1) flotilla::test::break_fake_network();
  while (true) std::this_thread::sleep_for(1s);
}

/// The job is aborted while the watchdog asks for errors.
void abort_while_asked(const Communicator& world, NativeStream stream) {
  const auto collectives = flotilla::mpi::make_nccl_all_reduce(world, stream);
  flotilla::test::slow_fake_down();
  std::thread([&] {
    while (true) collectives->failure();
  }).detach();
  std::this_thread::sleep_for(50ms);
  flotilla::mpi::abort_job(flotilla::exit_user_error);
}

/// In step 5 the last rank leaves an all-reduce out; all wait for the device in the end.
void leave_one_out(const Communicator& world, NativeStream stream, bool checked) {
  flotilla::mpi::set_collective_checks(checked);
  flotilla::mpi::Watchdog watchdog(
      60.0, [](const std::string& sentence) { end_job(sentence, flotilla::exit_library_error); },
      std::make_unique<flotilla::mpi::RollCall>(world, std::vector<std::string>{"h0", "h1"}));
  std::vector<float> memory(1000);
  const auto collectives = flotilla::mpi::make_nccl_all_reduce(world, stream);
  try {
    for (int step = 0; step < 10; ++step)
      if (step != 5 || world.rank() == 0) all_reduce_now(*collectives, {memory.data(), memory.size()}, step);
  } catch (const flotilla::InternalError& error) {
    end_job(error.what(), flotilla::exit_internal_error);  // while what is queued on the device is there
  }
  collectives->wait();
  while (world.rank() != 0) std::this_thread::sleep_for(1s);
}

}  // namespace

int main(int argc, char** argv) {
  flotilla::mpi::Environment environment(argc, argv);
  const Communicator world = Communicator::world();
  const NativeStream stream{.handle = flotilla::test::make_fake_stream(), .ordinal = 0};
  try {
    if (std::string(argv[1]) == "give-up") give_up(world, stream);
    if (std::string(argv[1]) == "network") lose_the_network(world, stream);
    if (std::string(argv[1]) == "norms") lose_the_network_of_norms(world, stream);
    if (std::string(argv[1]) == "asked") abort_while_asked(world, stream);
    if (std::string(argv[1]) == "leaves-out") leave_one_out(world, stream, std::string(argv[2]) == "checked");
  } catch (const flotilla::UserError& error) {
    end_job(error.what(), flotilla::exit_user_error);
  }
  return 0;
}
