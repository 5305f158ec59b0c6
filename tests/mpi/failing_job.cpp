// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/watchdog/watchdog.hpp"

// A job in which the last rank fails while the others are inside a collective; test_failing_jobs launches it.
// It has main's shape: everything by scope, the exception caught at the end and the job aborted.
namespace {

using namespace std::chrono_literals;
using flotilla::mpi::Collectives;
using flotilla::mpi::CommunicationLanes;
using flotilla::mpi::CommunicationThread;
using flotilla::mpi::Communicator;
using flotilla::mpi::SharedStorage;

constexpr std::size_t count = 5'000'000;

/// An all-reduce as for a device with memory of its own; the copies must outlive failures.
std::unique_ptr<Collectives> make_staged(const Communicator& world, SharedStorage& storage) {
  static const std::unique_ptr<flotilla::Device> device = flotilla::make_device({.kind = "cpu"});
  static std::vector<float> mirror(count);
  return make_staged_all_reduce(device->queue(), make_mpi_all_reduce(world),
                                {flotilla::device_span(storage.mine()), mirror});
}

std::unique_ptr<Collectives> make(const std::string& kind, const Communicator& world,
                                  SharedStorage& storage) {
  if (kind == "staged") return make_staged(world, storage);
  if (kind == "float16") return make_mpi_all_reduce(world, flotilla::mpi::Wire::float16);
  if (kind == "hierarchical")
    return make_hierarchical_all_reduce(world, world.split(world.rank() / 2), &storage);
  return kind == "mpi" ? make_mpi_all_reduce(world) : make_shared_memory_all_reduce(world, storage);
}

/// The others are certainly inside when the last rank throws, and would stay there forever.
void wait_until_others_wait() {
  std::this_thread::sleep_for(200ms);
}

void fail_outside(const Communicator& world, Collectives& collectives, SharedStorage& storage) {
  if (world.rank() == world.size() - 1) {
    wait_until_others_wait();
    throw flotilla::UserError("the last rank gives up");
  }
  collectives.all_reduce(flotilla::device_span(storage.mine()));
}

/// The failing rank, too, has a collective in flight, on its communication thread.
void fail_with_collective_in_flight(const Communicator& world, Collectives& collectives,
                                    SharedStorage& storage) {
  CommunicationThread thread(collectives, 4, [] { flotilla::mpi::abort_job(flotilla::exit_library_error); });
  const auto start = [&](std::span<float> data) {
    collectives.ready(flotilla::device_span(data));
    thread.start(flotilla::device_span(data));
  };
  const auto finish = [&] {
    thread.finish();
    collectives.wait_on_stream();
  };
  start(storage.mine().first(count / 2));
  if (world.rank() == world.size() - 1) {
    finish();
    start(storage.mine());
    wait_until_others_wait();
    throw flotilla::UserError("the last rank gives up");
  }
  if (world.is_root()) {
    while (true) std::this_thread::sleep_for(1s);  // never starts the second one: it stays in flight
  }
  start(storage.mine());
  finish();
}

/// The communication thread itself fails.
void fail_inside_thread(const Communicator& world, Collectives& collectives, SharedStorage& storage) {
  CommunicationThread thread(collectives, 4, [] { flotilla::mpi::abort_job(flotilla::exit_internal_error); });
  std::vector<float> elsewhere(10);
  const bool last = world.rank() == world.size() - 1;
  if (last) wait_until_others_wait();
  thread.start(flotilla::device_span(last ? std::span<float>(elsewhere) : storage.mine()));
  thread.finish();
}

using OwnersOfLanes = std::array<std::unique_ptr<Collectives>, 2>;

/// The failing rank throws with collectives in flight on two lanes.
void fail_with_lanes_in_flight(const OwnersOfLanes& owners, const Communicator& world,
                               SharedStorage& storage) {
  const std::array<Collectives*, 2> lanes = {owners[0].get(), owners[1].get()};
  CommunicationLanes communication(lanes, 2, [] { flotilla::mpi::abort_job(flotilla::exit_library_error); });
  communication.start(flotilla::device_span(storage.mine().first(count / 2)));
  if (world.is_root()) {
    while (true) std::this_thread::sleep_for(1s);  // never starts the second one
  }
  communication.start(flotilla::device_span(storage.mine().last(count / 2)));
  if (world.rank() == world.size() - 1) {
    wait_until_others_wait();
    throw flotilla::UserError("the last rank gives up");
  }
  communication.finish();
}

/// The last rank is gone without a word: the launcher ends the others.
void leave(const Communicator& world, Collectives& collectives, SharedStorage& storage) {
  if (world.rank() == world.size() - 1) {
    wait_until_others_wait();
    _exit(9);
  }
  collectives.all_reduce(flotilla::device_span(storage.mine()));
}

void say_and_abort(const std::string& sentence) {
  std::fprintf(stderr, "flotilla: %s\n", sentence.c_str());
  flotilla::mpi::abort_job(flotilla::exit_library_error);
}

/// A rank that neither fails nor arrives: the first one's watchdog ends the job.
void hang(const Communicator& world, Collectives& collectives, SharedStorage& storage) {
  world.barrier();  // so that no other rank is late
  if (world.rank() == world.size() - 1) {
    while (true) std::this_thread::sleep_for(1s);
  }
  flotilla::mpi::Watchdog watchdog(world.is_root() ? 1.0 : 20.0, say_and_abort);
  const flotilla::mpi::MissingRanks missing(watchdog, [&] { return collectives.missing_ranks(); });
  watchdog.beat("all-reduce of bucket", 1, 0);
  collectives.all_reduce(flotilla::device_span(storage.mine()));
}

/// A hang in which the watchdogs ask each other: the last rank hangs elsewhere, or is stopped.
void hang_with_roll_call(const std::string& scenario, const Communicator& world, Collectives& collectives,
                         SharedStorage& storage) {
  const bool last = world.rank() == world.size() - 1;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back("h" + std::to_string(rank));
  flotilla::mpi::Watchdog watchdog(last ? 0.0 : 1.0, say_and_abort,
                                   std::make_unique<flotilla::mpi::RollCall>(world, hosts));
  const flotilla::mpi::MissingRanks missing(watchdog, [&] { return collectives.missing_ranks(); });
  watchdog.beat(last ? "computing" : "all-reduce of bucket", 1, last ? -1 : 0);
  if (last && scenario == "stopped") raise(SIGSTOP);
  while (last) std::this_thread::sleep_for(1s);
  collectives.all_reduce(flotilla::device_span(storage.mine()));
}

/// All but the last rank were asked to stop, and wait for it; it waits for its disk, for longer than they are
/// to wait.
void wait_for_disk(const std::string& scenario, const Communicator& world) {
  const bool last = world.rank() == world.size() - 1;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back("h" + std::to_string(rank));
  flotilla::mpi::Watchdog watchdog(60.0, say_and_abort,
                                   std::make_unique<flotilla::mpi::RollCall>(world, hosts));
  watchdog.beat(last ? "saving" : "all-reduce of bucket", 1, last ? -1 : 0);
  for (int i = 0; last && i < 40; ++i) {
    if (scenario != "no-disk") watchdog.beat_at_disk();
    std::this_thread::sleep_for(100ms);
  }
  if (!last) watchdog.set_deadline(1.5);
  if (scenario == "disk-stopped" && world.rank() == 1) raise(SIGSTOP);
  world.barrier();
  watchdog.clear_deadline();
  world.barrier();
}

int run(const std::string& scenario, const std::string& kind) {
  const auto world = Communicator::world();
  SharedStorage storage(world.split_by_host(), count);
  const auto collectives = make(kind, world, storage);
  OwnersOfLanes of_lanes;
  if (scenario == "in-lanes") of_lanes = {make(kind, world, storage), make(kind, world, storage)};
  try {
    if (scenario == "outside") fail_outside(world, *collectives, storage);
    if (scenario == "in-flight") fail_with_collective_in_flight(world, *collectives, storage);
    if (scenario == "in-lanes") fail_with_lanes_in_flight(of_lanes, world, storage);
    if (scenario == "in-thread") fail_inside_thread(world, *collectives, storage);
    if (scenario == "leave") leave(world, *collectives, storage);
    if (scenario == "hang") hang(world, *collectives, storage);
    if (scenario == "elsewhere" || scenario == "stopped")
      hang_with_roll_call(scenario, world, *collectives, storage);
    if (scenario == "disk" || scenario == "no-disk" || scenario == "disk-stopped")
      wait_for_disk(scenario, world);
  } catch (const flotilla::UserError& error) {
    // Here, where what a communication thread may still be using is alive.
    std::fprintf(stderr, "flotilla: %s\n", error.what());
    flotilla::mpi::abort_job(flotilla::exit_user_error);
  }
  return 0;  // "fine"
}

}  // namespace

int main(int argc, char** argv) {
  flotilla::mpi::Environment environment(argc, argv);
  return run(argv[1], argv[2]);
}
