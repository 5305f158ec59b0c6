// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/core/collective_log.hpp"
#include "mpi/core/stop_consensus.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "mpi/watchdog/watchdog.hpp"

// A job of three ranks that call two collectives, A and B, in each of ten steps. In step 5 the last rank
// makes a mistake: it leaves A out, calls it twice, or swaps the two. Or it makes none but comes late to
// both, or is stopped for a while.
namespace {

using namespace flotilla;
using namespace flotilla::mpi;

constexpr std::int64_t steps = 10;
constexpr std::int64_t bad_step = 5;
constexpr std::size_t count = 100;

/// Something with collective calls.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void a(std::int64_t step) = 0;
  virtual void b(std::int64_t step) = 0;
  virtual void end_step() {}
  virtual bool is_caller() const { return true; }
};

class OfCommunicator final : public Subject {
 public:
  explicit OfCommunicator(const Communicator& world) : group_(world.collective_clone()) {}
  void a(std::int64_t step) override { group_.all_reduce(std::span<float>(values_), Op::sum, step); }
  void b(std::int64_t step) override { group_.broadcast(std::span<float>(values_), 0, step); }

 private:
  Communicator group_;
  std::array<float, count> values_{};
};

std::unique_ptr<Collectives> make(const std::string& kind, const Communicator& world,
                                  SharedStorage& storage) {
  if (kind == "mpi") return make_mpi_all_reduce(world);
  if (kind == "slices") return make_mpi_all_reduce(world, Wire::float16);
  if (kind == "hierarchical")
    return make_hierarchical_all_reduce(world, world.split(world.rank() / 2), &storage);
  return make_shared_memory_all_reduce(world, storage);
}

class OfCollectives final : public Subject {
 public:
  OfCollectives(const std::string& kind, const Communicator& world)
      : storage_(world.split_by_host(), count), collectives_(make(kind, world, storage_)) {}
  void a(std::int64_t step) override { all_reduce_now(*collectives_, device_span(storage_.mine()), step); }
  void b(std::int64_t step) override { all_reduce_now(*collectives_, device_span(storage_.mine()), step); }

 private:
  SharedStorage storage_;
  std::unique_ptr<Collectives> collectives_;
};

/// Two at a time, each on a thread of its own.
class OfLanes final : public Subject {
 public:
  explicit OfLanes(const Communicator& world)
      : storage_(world.split_by_host(), count),
        owners_{make("mpi", world, storage_), make("shared-memory", world, storage_)},
        pointers_{owners_[0].get(), owners_[1].get()},
        lanes_(pointers_, 4, [] { end_for_current_exception(); }) {}
  void a(std::int64_t step) override { lanes_.start(device_span(storage_.mine().first(10)), step); }
  void b(std::int64_t step) override { lanes_.start(device_span(storage_.mine().last(10)), step); }
  void end_step() override { lanes_.finish(); }

 private:
  static void end_for_current_exception() {
    try {
      throw;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "flotilla: %s\n", error.what());
      abort_job(exit_internal_error);
    }
  }

  SharedStorage storage_;
  std::array<std::unique_ptr<Collectives>, 2> owners_;
  std::array<Collectives*, 2> pointers_;
  CommunicationLanes lanes_;
};

class OfStopConsensus final : public Subject {
 public:
  explicit OfStopConsensus(const Communicator& world)
      : group_(world.collective_clone()), consensus_(world, 1) {}
  void a(std::int64_t step) override { consensus_.gather(step, std::span(&mine_, 1), std::span(&sum_, 1)); }
  void b(std::int64_t step) override { group_.barrier(step); }

 private:
  Communicator group_;
  StopConsensus consensus_;
  double mine_ = 0.0;
  double sum_ = 0.0;
};

/// Rank 0 serves: it answers when both workers have pushed.
class OfPushPull final : public Subject {
 public:
  explicit OfPushPull(const Communicator& world) : group_(world.split(world.rank() == 0 ? 0 : 1)) {
    const PushPullWires wires{.together = true};
    if (world.rank() == 0) {
      server_.emplace(world, std::vector{1, 2}, count, wires);
      serve();
    } else {
      worker_.emplace(world, std::vector{ServerShare{.rank = 0, .runs = {{0, count}}}}, wires);
    }
  }
  void a(std::int64_t step) override {
    worker_->start_push_pull({step, 1, 0.1}, from_, to_);
    worker_->wait();
  }
  void b(std::int64_t step) override { group_.barrier(step); }
  bool is_caller() const override { return worker_.has_value(); }

 private:
  void serve() {
    std::vector<WorkerRequest> pushes;
    for (int answered = 0; answered < steps;) {
      pushes.push_back(*server_->next());
      if (pushes.size() < 2) continue;
      for (const WorkerRequest& push : pushes) {
        server_->answer(push.worker, to_);
        server_->release(push);
      }
      pushes.clear();
      ++answered;
    }
  }

  Communicator group_;
  std::vector<float> from_ = std::vector<float>(count);
  std::vector<float> to_ = std::vector<float>(count);
  std::optional<PushPullServer> server_;
  std::optional<PushPullWorker> worker_;
};

std::unique_ptr<Subject> make_subject(const std::string& kind, const Communicator& world) {
  if (kind == "communicator") return std::make_unique<OfCommunicator>(world);
  if (kind == "lanes") return std::make_unique<OfLanes>(world);
  if (kind == "consensus") return std::make_unique<OfStopConsensus>(world);
  if (kind == "push-pull") return std::make_unique<OfPushPull>(world);
  return std::make_unique<OfCollectives>(kind, world);
}

void come_late() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2300));
}

/// Stops this process, as a debugger or a suspended host would, and continues it after three seconds.
void be_stopped() {
  const pid_t process = getpid();
  if (fork() == 0) {
    sleep(3);
    kill(process, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

void call(Subject& subject, std::int64_t step, const std::string& mistake) {
  if (mistake == "late") come_late();
  if (mistake == "stopped") be_stopped();
  if (mistake == "swaps") subject.b(step);
  if (mistake != "leaves-out") subject.a(step);
  if (mistake == "doubles") subject.a(step);
  if (mistake == "late") come_late();
  if (mistake != "swaps") subject.b(step);
  subject.end_step();
}

void run(const Communicator& world, const std::string& kind, const std::string& mistake) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back("h" + std::to_string(rank));
  const auto say = [](const std::string& sentence) {
    std::fprintf(stderr, "flotilla: %s\n", sentence.c_str());
    abort_job(exit_library_error);
  };
  Watchdog watchdog(60.0, say, std::make_unique<RollCall>(world, hosts));
  const std::unique_ptr<Subject> subject = make_subject(kind, world);
  const bool last = world.rank() == world.size() - 1;
  for (std::int64_t step = 0; subject->is_caller() && step < steps; ++step) {
    if (last && step == bad_step && mistake == "leaves") break;
    call(*subject, step, last && step == bad_step ? mistake : "none");
  }
  world.patient_barrier(steps);  // the end of the run
}

}  // namespace

int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  set_collective_checks(std::string(argv[3]) == "checked");
  try {
    run(Communicator::world(), argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flotilla: %s\n", error.what());
    abort_job(exit_internal_error);
  }
  return 0;
}
