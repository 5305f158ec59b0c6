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
  /// From now on std::terminate (an exception that leaves a destructor, a thread or a noexcept function) ends
  /// the job as end_job() does, instead of by SIGABRT. For one handler at a time.
  void end_job_at_terminate();
  void set_folder(
      const std::string& folder);  ///< Sets the run's folder: failure.json is written there from now on.
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

  bool told() const;  ///< Whether a rank of this attempt has reported why the job ends (failure.json).
  /// For a job that the launcher ends: the line and failure.json, unless a rank has reported a failure
  /// already. Returns.
  void say_unless_told(const std::string& what) const;
  [[noreturn]] void end_job(const std::exception& error);
  [[noreturn]] void end_job(const std::string& what, int exit_code);
  /// For a failure that every rank has found: `speaker` reports it and ends the job, the others wait for
  /// that.
  [[noreturn]] void end_job_together(const std::string& what, int exit_code, int speaker = 0);
  [[noreturn]] void end_job_for_current_exception();  ///< Inside a catch block.
  /// Inside a catch block, while all that the failed work used is alive: a communication thread may be inside
  /// a collective over memory that unwinding would free. Throws on an AgreedFailure, ends the job for any
  /// other exception.
  [[noreturn]] void end_job_unless_agreed();

 private:
  Failure failure(const std::string& what, int exit_code) const;
  std::string folder() const;

  int rank_;
  int ranks_;
  std::string host_;
  double start_s_;  ///< Since the epoch: failure.json of an earlier attempt is older
  mutable std::mutex mutex_;
  std::string folder_;  ///< Under mutex_
  std::atomic<std::int64_t> step_{-1};
  std::atomic<bool> reported_{false};
};

/// Runs `work` and ends the job where it throws, as FailureHandler::end_job_unless_agreed() does.
template <class Work>
auto end_job_on_failure(FailureHandler& failure, Work work);

/// A failure that every rank throws: the only orderly early exit. Rank 0 prints it.
struct AgreedFailure : std::runtime_error {
  AgreedFailure(const std::string& text, int code);
  AgreedFailure(const AgreedFailure& other);
  AgreedFailure& operator=(const AgreedFailure&) = delete;
  ~AgreedFailure() override;
  /// The failure that this thread throws at the moment; null: none. Destructors, which must not communicate
  /// while another exception is being thrown, may do so during this one, because every rank throws it.
  static AgreedFailure* being_thrown();
  void rephrase(const std::string& text) { std::runtime_error::operator=(std::runtime_error(text)); }
  int exit_code;
};

/// Collective. Runs `work`, which must not communicate, on every rank. If it threw anywhere, every rank
/// throws the error of the lowest rank that failed as an AgreedFailure, which names the host unless that is
/// rank 0, where work is often done alone.
void agree(const mpi::Communicator& world, const std::function<void()>& work, mpi::CallSite at = {});

/// Collective. Runs `work`, which must not communicate, on every rank. If it threw anywhere, every rank
/// throws an AgreedFailure, which names the hosts on which it failed if others succeeded, or else the lowest
/// rank that failed if not all did.
/// @param places of all ranks of `world`
void agree(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
           const std::function<void()>& work, mpi::CallSite at = {});

/// Collective. Runs `work`, which may take minutes, and waits for the other ranks without keeping a
/// processor.
/// @returns work for agree(): it throws what `work` threw
std::function<void()> after_long_work(const mpi::Communicator& world, const std::function<void()>& work);

/// Runs `work`, which throws the same UserError on every rank or on none, because it does not depend on the
/// rank or its host. Work that may fail on some ranks only (files, memory, devices) belongs in agree().
void throw_alike(const std::function<void()>& work);

template <class Work>
auto end_job_on_failure(FailureHandler& failure, Work work) {
  try {
    return work();
  } catch (...) {
    failure.end_job_unless_agreed();
  }
}

}  // namespace flotilla
