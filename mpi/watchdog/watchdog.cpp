// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/watchdog.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/clock.hpp"
#include "mpi/core/collective_log.hpp"
#include "mpi/core/environment.hpp"
#include "mpi/watchdog/roll_call.hpp"

namespace flotilla::mpi {

namespace {

using Seconds = std::chrono::duration<double>;

// Together less than the 5 s within which the process must end.
constexpr unsigned on_hang_limit_s = 3;
constexpr double roll_call_limit_s = 1.0;
constexpr double state_request_limit_s = 0.75;
constexpr double other_report_limit_s = 2.0;
constexpr double longest_period_s = 0.25;
// A launcher asks to end and kills a second later. Together less than that.
constexpr double look_for_requests_s = 0.05;
constexpr double quiet_before_asking_s = 0.1;
constexpr double before_kill_limit_s = 0.45;
constexpr double recently_s = 10.0;  // in which another rank has moved

constexpr double calls_per_limit = 8.0;

std::string not_there(const std::vector<int>& missing) {
  std::string text;
  for (const int rank : missing) text += cat(text.empty() ? "not there: rank " : ", ", rank);
  return text;
}

/// The collective calls in which threads of this process wait: the communication thread's is not the training
/// thread's.
std::string waits_in() {
  std::string text;
  for (const CollectiveHistory& history : CollectiveLog::all())
    if (history.waiting != 0)
      text += (text.empty() ? "here a thread waits in " : ", in ") + history.call(history.begun).text();
  return text;
}

/// The time at which a job that was asked to stop must have done so.
class Deadline {
 public:
  // Called by the training thread.
  void set(double seconds) {
    const double granted = seconds + postponed_s_;
    granted_s_.store(granted, std::memory_order_relaxed);
    at_s_.store(now_s() + granted, std::memory_order_release);
  }
  void postpone(double seconds) {
    postponed_s_ += seconds;
    if (at_s_.load(std::memory_order_relaxed) > 0)
      set(granted_s_.load(std::memory_order_relaxed) + seconds - postponed_s_);
  }
  void clear() {
    postponed_s_ = 0;
    at_s_.store(0, std::memory_order_release);
  }

  // Called by the watchdog's thread. Meanwhile the training thread may set or clear the deadline.
  double at_s() const { return at_s_.load(std::memory_order_acquire); }  ///< By now_s(); 0: there is none
  double granted_s() const { return granted_s_.load(std::memory_order_relaxed); }
  /// Grants the time again from `now` on, unless the deadline is another than `at_s` by now.
  void extend(double at_s, double now) { at_s_.compare_exchange_strong(at_s, now + granted_s()); }

 private:
  std::atomic<double> at_s_{0};
  std::atomic<double> granted_s_{0};
  double postponed_s_ = 0;  ///< Time that the training thread postponed
};

/// Functions by which other parts answer the watchdog's thread. None is called any more once set() has
/// replaced it.
class Hooks {
 public:
  template <class Function>
  void set(Function Hooks::*hook, Function function) {
    const std::lock_guard lock(mutex_);
    this->*hook = std::move(function);
  }
  /// The result of the hook; an empty value if it is not set.
  template <class Answer>
  Answer ask(std::function<Answer()> Hooks::*hook) {
    const std::lock_guard lock(mutex_);
    return this->*hook ? (this->*hook)() : Answer();
  }
  /// Whether a request to end has arrived that was not handled yet.
  bool asked_to_end() {
    const std::lock_guard lock(mutex_);
    return on_loss && asked();
  }
  std::function<void(const std::string&)> take_on_loss() {
    const std::lock_guard lock(mutex_);
    return std::exchange(on_loss, nullptr);
  }

  std::function<std::vector<int>()> missing;  ///< Ranks that have not arrived where this one waits
  std::function<bool()> asked;
  std::function<void(const std::string&)> on_loss;  ///< Empty once it was called
  std::function<bool()> failure_reported;
  std::function<std::string()> failure;  ///< An asynchronous error; empty: none

 private:
  std::mutex mutex_;
};

}  // namespace

struct Watchdog::Impl {
  double limit_s;
  std::function<void(const std::string&)> on_hang;
  std::unique_ptr<RollCall> roll_call;  // of the watchdog's thread
  double looked_s = now_s();            // of the watchdog's thread: its last look; set before it starts
  double quiet_s = 0;                   // of the watchdog's thread: seconds without progress
  double live_until_s = 0;              // of the watchdog's thread: until then the others need not be asked
  double woke_s = -recently_s;          // of the watchdog's thread: after it was stopped beyond the limit

  // Written by the training thread.
  ThreadActivity progress;
  Deadline deadline;

  Hooks hooks;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;  // under mutex
  std::atomic<bool> orphaned{false};
  std::thread thread;

  Presence presence(bool ending) const {
    Presence presence = progress.presence();
    presence.quiet_s = quiet_s;
    presence.ending = ending ? 1 : 0;
    return presence;
  }

  /// After an MPI error the other ranks are no longer asked.
  template <class Work>
  void with_roll_call(Work work) {
    if (!roll_call || orphaned.load()) return;
    try {
      work(*roll_call);
    } catch (const LibraryError&) {
      roll_call.reset();
    }
  }

  /// The watchdog's thread.
  void run() {
    const double period_s = limit_s > 0 ? std::min(longest_period_s, limit_s / 8) : longest_period_s;
    std::uint64_t seen = progress.beats();
    double watched_s = 0;
    while (!sleep_until_asked(period_s)) {
      const double now = now_s();
      // A process that was stopped (SIGSTOP, a suspended machine) did not see that time pass: a look counts
      // for one second at most.
      const double looked_away_s = std::min(now - looked_s, std::max(1.0, period_s));
      quiet_s += looked_away_s;
      watched_s += looked_away_s;
      if (limit_s > 0 && now - looked_s > std::max(1.0, limit_s)) woke_s = now;
      looked_s = now;
      if (now - woke_s < recently_s && hooks.ask(&Hooks::failure_reported)) _exit(exit_library_error);
      if (const std::string wrong = hooks.ask(&Hooks::failure); !wrong.empty())
        return end_job(cat(wrong, "; ", presence(true).text()));
      const std::uint64_t beat = progress.beats();
      const bool moved = progress.worked() || beat != seen;
      if (moved) quiet_s = 0;
      seen = beat;
      std::string mismatch;
      with_roll_call([&](RollCall& call) {
        call.set_time(watched_s);
        if (moved) call.begin_silences();
        call.answer(presence(false));
        mismatch = call.mismatch();
        const double call_every_s = limit_s / calls_per_limit;
        if (limit_s > 0 && quiet_s >= call_every_s) call.call(state_request_limit_s, call_every_s);
      });
      if (!mismatch.empty()) return say_and_leave(mismatch);
      // While the others were asked, this process may have progressed, and they may have ended.
      const auto still_quiet = [&] { return progress.beats() == beat && !progress.worked(); };
      if (limit_s > 0 && quiet_s > limit_s && !others_live() && still_quiet()) {
        return end_job(
            cat("nothing has moved for ", limit_s, " s (run.watchdog_s): ", presence(true).text()));
      }
      if (hooks.asked_to_end()) look_for_lost_ranks(beat);
      if (const double at_s = deadline.at_s(); at_s > 0 && now > at_s) {
        const double granted = deadline.granted_s();
        if (files_go_on()) {
          deadline.extend(at_s, now);
        } else if (deadline.at_s() == at_s) {
          return end_job(cat("did not reach the agreed stop within ", granted, " s: ", presence(true).text(),
                             "; leaving without saving"));
        }
      }
    }
  }

  /// A worker that is ahead waits as long as the others take: nothing hangs while all answer and one of them
  /// moves. quiet_s keeps counting, or workers that wait for each other would never find a hang.
  /// One that does not answer may be short of processor time, until that has lasted for as long as a hang.
  bool others_live() {
    if (looked_s < live_until_s) return true;
    double left_s = 0;
    with_roll_call([&](RollCall& call) {
      call.ask(presence(false), state_request_limit_s);
      left_s = limit_s - (call.silent() ? call.silence_s() : call.quiet_s());
    });
    live_until_s = looked_s + std::min(left_s, limit_s / calls_per_limit);
    return left_s > 0;
  }

  /// Whether this rank, or another, waits for files that make progress, which is not a hang. A rank that does
  /// not answer cannot agree on a stop.
  bool files_go_on() {
    const double seconds = limit_s > 0 ? limit_s : std::numeric_limits<double>::infinity();
    const Presence here = presence(false);
    if (here.files != 0 && here.quiet_s < seconds) return true;
    bool go_on = false;
    with_roll_call([&](RollCall& call) {
      call.ask(here, state_request_limit_s);
      go_on = !call.silent() && call.files_quiet_s() < seconds;
    });
    return go_on;
  }

  /// A process that progresses is not ended here: it stops in order.
  void look_for_lost_ranks(std::uint64_t beat) {
    if (sleep(quiet_before_asking_s) || progress.beats() != beat) return;
    const std::function<void(const std::string&)> say = hooks.take_on_loss();
    const Presence here = presence(true);
    with_roll_call([&](RollCall& call) {
      call.ask(here, before_kill_limit_s);
      if (call.silent() && !call.left_to_another())
        say(cat(call.text(here, {}), "; asked to end at: ", here.text()));
    });
  }

  /// True if the watchdog is to end.
  bool sleep(double seconds) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, Seconds(seconds), [this] { return stop; });
  }

  /// Sleeps for `seconds`, or until a request to end arrives that was not handled yet, and answers others.
  /// @returns whether this thread is to end
  bool sleep_until_asked(double seconds) {
    bool ends = false;
    for (double left_s = seconds; !ends && left_s > 0; left_s -= look_for_requests_s) {
      ends = sleep(std::min(left_s, look_for_requests_s));
      if (!ends) with_roll_call([&](RollCall& call) { call.answer(presence(false)); });
      if (hooks.asked_to_end()) break;
    }
    return ends;
  }

  /// Answers the rank that reports, for `seconds`.
  void answer_for(double seconds, RollCall& call, const Presence& here) {
    for (double left_s = seconds; left_s > 0; left_s -= look_for_requests_s) {
      sleep(look_for_requests_s);
      call.answer(here);
    }
  }

  void end_job(std::string sentence) {
    if (orphaned.load()) _exit(exit_library_error);  // what the callbacks refer to may be gone
    leave_within(on_hang_limit_s, exit_library_error);
    const Presence here = presence(true);
    const std::vector<int> not_arrived = hooks.ask(&Hooks::missing);
    std::string details = not_there(not_arrived);
    with_roll_call([&](RollCall& call) {
      call.ask(here, roll_call_limit_s);
      if (call.left_to_another()) answer_for(other_report_limit_s, call, here);
      call.ask_for_stacks(here);
      details = call.text(here, not_arrived);
    });
    for (const std::string& detail : {details, waits_in()})
      if (!detail.empty()) sentence += "; " + detail;
    say_and_leave(sentence);
  }

  /// Ends the process with a sentence that needs no more details.
  void say_and_leave(const std::string& sentence) {
    leave_within(on_hang_limit_s, exit_library_error);
    on_hang(sentence);
    _exit(exit_library_error);
  }
};

Watchdog::Watchdog(double limit_s, std::function<void(const std::string&)> on_hang,
                   std::unique_ptr<RollCall> roll_call)
    : impl_(std::make_unique<Impl>()) {
  impl_->limit_s = limit_s;
  impl_->on_hang = std::move(on_hang);
  impl_->roll_call = std::move(roll_call);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Watchdog::~Watchdog() {
  if (!impl_) return;
  if (std::uncaught_exceptions() == 0) {
    stop();
  } else {
    impl_->orphaned.store(true);
    impl_->thread.detach();
    impl_.release();
  }
}

void Watchdog::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
  if (impl_->roll_call) impl_->roll_call->receive_rest();
  impl_.reset();
}

void Watchdog::report_lost_ranks(std::function<bool()> asked, std::function<void(const std::string&)> say) {
  impl_->hooks.set(&Hooks::asked, std::move(asked));
  impl_->hooks.set(&Hooks::on_loss, std::move(say));
}

void Watchdog::leave_when_reported(std::function<bool()> reported) {
  impl_->hooks.set(&Hooks::failure_reported, std::move(reported));
}

void Watchdog::beat(const char* what, std::int64_t step, std::int64_t index) {
  impl_->progress.beat(ActivityState::moving, what, step, index);
}

void Watchdog::beat_at_disk() {
  impl_->progress.beat(ActivityState::at_disk);
}

void Watchdog::set_deadline(double seconds) {
  impl_->deadline.set(seconds);
}

void Watchdog::postpone_deadline(double seconds) {
  impl_->deadline.postpone(seconds);
}

void Watchdog::clear_deadline() {
  impl_->deadline.clear();
}

Activity Watchdog::activity() const {
  return impl_->progress.activity();
}

CpuProgressScope::CpuProgressScope(Watchdog& watchdog, const char* what, std::int64_t step)
    : watchdog_(watchdog) {
  Watchdog::Impl& impl = *watchdog_.impl_;
  clockid_t clock = CLOCK_MONOTONIC;
  if (const int error = pthread_getcpuclockid(pthread_self(), &clock); error != 0)
    throw LibraryError("pthread_getcpuclockid", cat("error ", error));
  impl.progress.set_working_thread(clock);
  impl.progress.beat(ActivityState::working, what, step, -1);
}

CpuProgressScope::~CpuProgressScope() {
  watchdog_.impl_->progress.beat(ActivityState::done);
}

void CpuProgressScope::next(const char* what) {
  watchdog_.impl_->progress.beat(ActivityState::working, what, watchdog_.activity().step, -1);
}

MissingRanks::MissingRanks(Watchdog& watchdog, std::function<std::vector<int>()> find) : watchdog_(watchdog) {
  watchdog_.impl_->hooks.set(&Hooks::missing, std::move(find));
}

MissingRanks::~MissingRanks() {
  // Done also while an exception is being thrown, because what `find` reads is destroyed.
  watchdog_.impl_->hooks.set(&Hooks::missing, {});
}

AsyncErrorMonitor::AsyncErrorMonitor(Watchdog& watchdog, std::function<std::string()> find)
    : watchdog_(watchdog) {
  watchdog_.impl_->hooks.set(&Hooks::failure, std::move(find));
}

AsyncErrorMonitor::~AsyncErrorMonitor() {
  // Done also while an exception is being thrown, because what `find` reads is destroyed.
  watchdog_.impl_->hooks.set(&Hooks::failure, {});
}

}  // namespace flotilla::mpi
