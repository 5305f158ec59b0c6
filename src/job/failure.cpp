// SPDX-License-Identifier: Apache-2.0
#include "src/job/failure.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

constexpr std::chrono::seconds patience_with_speaker{10};

std::atomic<FailureHandler*> at_terminate{nullptr};
thread_local AgreedFailure* newest_agreed_failure = nullptr;

/// Collective. What `work` threw on each rank: "2message"; empty: all well.
std::vector<std::string> errors_of(const mpi::Communicator& world, const std::function<void()>& work,
                                   const mpi::CallSite& at) {
  std::string mine;
  try {
    work();
  } catch (const std::exception& error) {
    mine = cat(exit_code_of(error), text_of(error));
  }
  return world.all_gather(mine, at);
}

}  // namespace

FailureHandler::FailureHandler(int rank, int ranks, std::string host)
    : rank_(rank), ranks_(ranks), host_(std::move(host)), start_s_(seconds_since_epoch()) {}

FailureHandler::~FailureHandler() {
  FailureHandler* own = this;
  at_terminate.compare_exchange_strong(own, nullptr);
}

void FailureHandler::end_job_at_terminate() {
  at_terminate = this;
  std::set_terminate([] {
    FailureHandler* const handler = at_terminate;
    if (handler != nullptr && std::current_exception()) handler->end_job_for_current_exception();
    std::abort();
  });
}

void FailureHandler::set_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
}

std::string FailureHandler::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

bool FailureHandler::told() const {
  const std::string folder = this->folder();
  try {
    return !folder.empty() && read_failure(folder, start_s_).has_value();
  } catch (const std::exception&) {
    return false;  // the disk may be what failed
  }
}

void FailureHandler::say_unless_told(const std::string& what) const {
  if (folder().empty() || told()) return;
  report_failure(failure(what, exit_library_error), folder());
}

Failure FailureHandler::failure(const std::string& what, int exit_code) const {
  return {.rank = rank_,
          .ranks = ranks_,
          .host = host_,
          .step = step_.load(std::memory_order_relaxed),
          .what = what,
          .exit_code = exit_code};
}

void FailureHandler::end_job(const std::exception& error) {
  end_job(text_of(error), exit_code_of(error));
}

void FailureHandler::end_job(const std::string& what, int exit_code) {
  // Two threads may fail at once (one because of the other): the first one reports, and ends the job. The
  // other one does so where that takes too long, or where reporting itself failed in this thread.
  if (reported_.exchange(true)) {
    std::this_thread::sleep_for(patience_with_speaker);
  } else {
    report_failure(failure(what, exit_code), folder());
  }
  mpi::abort_job(exit_code);
}

void FailureHandler::end_job_together(const std::string& what, int exit_code, int speaker) {
  if (rank_ != speaker) std::this_thread::sleep_for(patience_with_speaker);
  end_job(what, exit_code);
}

void FailureHandler::end_job_for_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    end_job(error);
  } catch (...) {
    end_job("an exception of unknown type", exit_internal_error);
  }
}

void FailureHandler::end_job_unless_agreed() {
  try {
    throw;
  } catch (const AgreedFailure&) {
    throw;
  } catch (...) {
    end_job_for_current_exception();
  }
}

AgreedFailure::AgreedFailure(const std::string& text, int code) : std::runtime_error(text), exit_code(code) {
  newest_agreed_failure = this;
}

AgreedFailure::AgreedFailure(const AgreedFailure& other)
    : std::runtime_error(other), exit_code(other.exit_code) {
  newest_agreed_failure = this;
}

AgreedFailure::~AgreedFailure() {
  if (newest_agreed_failure == this) newest_agreed_failure = nullptr;
}

AgreedFailure* AgreedFailure::being_thrown() {
  return std::uncaught_exceptions() > 0 ? newest_agreed_failure : nullptr;
}

void agree(const mpi::Communicator& world, const std::function<void()>& work, mpi::CallSite at) {
  const std::vector<std::string> errors = errors_of(world, work, at);
  const auto failed = std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
  if (failed == errors.end()) return;
  std::string text = failed->substr(1);
  if (failed != errors.begin()) {
    const std::vector<std::string> hosts = world.all_gather(mpi::host_name(), at);
    text = cat("on ", hosts[static_cast<std::size_t>(failed - errors.begin())], ": ", text);
  }
  throw AgreedFailure(text, failed->front() - '0');
}

void agree(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
           const std::function<void()>& work, mpi::CallSite at) {
  const std::vector<std::string> errors = errors_of(world, work, at);
  const auto failed = std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
  if (failed == errors.end()) return;
  std::set<int> good;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) good.insert(places[rank].host_index);
  std::vector<std::string> bad;
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (!errors[rank].empty() && good.erase(places[rank].host_index) > 0) bad.push_back(places[rank].host);
  std::string text = failed->substr(1);
  if (!good.empty()) {
    text = cat("on ", mpi::text_of_hosts(bad), ", not on the other hosts: ", text);
  } else if (std::ranges::count(errors, "") > 0) {
    const mpi::Place& place = places[static_cast<std::size_t>(failed - errors.begin())];
    text = cat("rank ", place.rank, " on ", place.host, ": ", text);
  }
  throw AgreedFailure(text, failed->front() - '0');
}

std::function<void()> after_long_work(const mpi::Communicator& world, const std::function<void()>& work) {
  std::exception_ptr failed;
  try {
    work();
  } catch (const std::exception&) {
    failed = std::current_exception();
  }
  world.patient_barrier();
  return [failed] {
    if (failed) std::rethrow_exception(failed);
  };
}

void throw_alike(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    throw AgreedFailure(error.what(), exit_user_error);
  }
}

}  // namespace flotilla
