// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/observe/failure_report.hpp"

namespace flotilla {

/// Ends the job from any thread with one clear line and failure.json. Lives as long as MPI.
class FailureHandler {
 public:
  FailureHandler(int rank, int ranks, std::string host);
  FailureHandler(const FailureHandler&) = delete;
  FailureHandler& operator=(const FailureHandler&) = delete;
  ~FailureHandler();
  /// From now on an exception that leaves what must not throw (a destructor, a thread, a function that is
  /// noexcept) ends the job as end_job() does, instead of by SIGABRT. Of one handler at a time.
  void end_job_at_terminate();
  void set_folder(const std::string& folder);  ///< The run's: from now on failure.json is written there.
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

  bool told() const;  ///< Whether some rank has told why the job ends (failure.json).
  /// The line alone, unless a rank has told already. Returns.
  void say_unless_told(const std::string& what) const;
  [[noreturn]] void end_job(const std::exception& error);
  [[noreturn]] void end_job(const std::string& what, int exit_code);
  /// For a failure that every rank sees alike: `speaker` speaks and ends the others, which wait for that.
  [[noreturn]] void end_job_together(const std::string& what, int exit_code, int speaker = 0);
  [[noreturn]] void end_job_for_current_exception();  ///< Inside a catch block.

 private:
  Failure failure(const std::string& what, int exit_code) const;
  std::string folder() const;

  int rank_;
  int ranks_;
  std::string host_;
  mutable std::mutex mutex_;
  std::string folder_;  ///< Under mutex_
  std::atomic<std::int64_t> step_{-1};
  std::atomic<bool> reported_{false};
};

/// Runs `work` and ends the job where it throws, while all that was made before is still alive: a
/// communication thread may be inside a collective over memory that unwinding would free. Throws on what all
/// ranks agreed on.
template <class Work>
auto end_job_on_failure(FailureHandler& failure, Work work);

/// A failure that every rank knows of and throws alike: the only orderly early exit. The root prints it.
struct AgreedFailure : std::runtime_error {
  AgreedFailure(const std::string& text, int code) : std::runtime_error(text), exit_code(code) {}
  int exit_code;
};

/// Collective. Runs `work`, which must not communicate, on every rank. If it threw anywhere, every rank
/// throws the error of the lowest rank that failed as an AgreedFailure, which names the host unless that is
/// rank 0, which often works alone.
void agree(const mpi::Communicator& world, const std::function<void()>& work, mpi::CallSite at = {});

/// Collective. The same for work that all ranks do: the error names the hosts on which it failed, where
/// others have none, or else the lowest rank that failed, where not all did.
/// @param places of all ranks of `world`
void agree(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
           const std::function<void()>& work, mpi::CallSite at = {});

/// Runs `work`, which throws the same UserError on every rank or on none, because nothing in it depends on
/// the rank or its host. What some ranks alone may lack (a file, memory, a device) belongs into agree().
void throw_alike(const std::function<void()>& work);

template <class Work>
auto end_job_on_failure(FailureHandler& failure, Work work) {
  try {
    return work();
  } catch (const AgreedFailure&) {
    throw;
  } catch (const std::exception& error) {
    failure.end_job(error);
  }
}

}  // namespace flotilla
