// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/roll_call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/native.hpp"
#include "mpi/watchdog/mismatch_detector.hpp"
#include "mpi/watchdog/thread_stack.hpp"

namespace flotilla::mpi {

namespace {

constexpr int roll_question_tag = 3;
constexpr int roll_answer_tag = 4;
constexpr int stack_tag = 8;  // 5 to 7 are the mismatch detector's
constexpr int max_stacks = 4;
constexpr std::size_t max_named_ranks = 8;
constexpr std::int64_t min_patience_ns = 500'000'000;

/// Processor time of a thread, seconds; 0: it has ended.
double processor_time_s(clockid_t thread) {
  timespec time{};
  if (clock_gettime(thread, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

void Presence::set_what(const char* text) {
  const std::string_view cut = std::string_view(text).substr(0, what.size() - 1);
  what.fill('\0');
  std::ranges::copy(cut, what.begin());
}

bool Presence::is_with(const Presence& other) const {
  return what == other.what && step == other.step && index == other.index && done == other.done;
}

std::string Presence::text() const {
  std::string text = what.data();
  if (index >= 0) text += cat(" ", index);
  if (step >= 0) text += cat(", step ", step);
  if (done != 0) text += ", done here";
  return text;
}

struct RollCall::Impl {
  Communicator world;
  std::vector<std::string> hosts;
  std::vector<std::optional<Presence>> answers;
  std::vector<bool> owing;                    // was asked, has not answered
  std::vector<double> heard_s;                // by the caller's clock
  std::vector<std::optional<Presence>> last;  // of this silence
  double now_s = 0;
  ThreadStack stack{};
  SmallMessages messages{world};
  MismatchDetector mismatches{messages, world.rank(), place_names()};

  void note(int rank, const Presence& presence) {
    answers[static_cast<std::size_t>(rank)] = presence;
    last[static_cast<std::size_t>(rank)] = presence;
    heard_s[static_cast<std::size_t>(rank)] = now_s;
  }
  bool is_mine(std::size_t rank) const { return static_cast<int>(rank) == world.rank(); }
  std::string place(std::size_t rank) const {
    return hosts[rank].empty() ? cat("rank ", rank) : cat("rank ", rank, " on ", hosts[rank]);
  }
  std::vector<std::string> place_names() const {
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) names.push_back(place(rank));
    return names;
  }
  std::string places(const std::vector<std::size_t>& ranks) const;
  void print_stack() const {
    stack.print(cat("flotilla: stack of the training thread of ",
                    place(static_cast<std::size_t>(world.rank())), ":"));
  }
};

std::string RollCall::Impl::places(const std::vector<std::size_t>& ranks) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), max_named_ranks); ++i)
    text += (i == 0 ? "" : ", ") + place(ranks[i]);
  if (ranks.size() > max_named_ranks) text += cat(" and ", ranks.size() - max_named_ranks, " more");
  return text;
}

RollCall::RollCall(const Communicator& world, std::vector<std::string> hosts)
    : impl_(new Impl{.world = world.collective_clone(),
                     .hosts = std::move(hosts),
                     .answers = std::vector<std::optional<Presence>>(static_cast<std::size_t>(world.size())),
                     .owing = std::vector<bool>(static_cast<std::size_t>(world.size())),
                     .heard_s = std::vector<double>(static_cast<std::size_t>(world.size())),
                     .last = std::vector<std::optional<Presence>>(static_cast<std::size_t>(world.size()))}) {
  require(impl_->hosts.size() == impl_->answers.size(), "a roll call of ", impl_->answers.size(),
          " ranks with ", impl_->hosts.size(), " hosts");
}

RollCall::~RollCall() = default;

void RollCall::set_time(double now_s) {
  impl_->now_s = now_s;
}

void RollCall::answer(const Presence& mine) {
  impl_->messages.release_sent();
  while (const auto question = impl_->messages.receive<Presence>(roll_question_tag)) {
    impl_->note(question->first, question->second);  // a question holds the state of its sender
    impl_->messages.send(mine, question->first, roll_answer_tag);
  }
  while (const auto reply = impl_->messages.receive<Presence>(roll_answer_tag)) {
    impl_->note(reply->first, reply->second);
    impl_->owing[static_cast<std::size_t>(reply->first)] = false;
  }
  while (impl_->messages.receive<char>(stack_tag)) impl_->print_stack();
  impl_->mismatches.poll(mine.quiet_s);
}

void RollCall::receive_rest() {
  impl_->messages.receive_rest();
}

const std::string& RollCall::mismatch() const {
  return impl_->mismatches.finding();
}

void RollCall::call(const Presence& mine) {
  for (std::size_t rank = 0; rank < impl_->answers.size(); ++rank) {
    if (impl_->is_mine(rank) || impl_->owing[rank]) continue;
    impl_->messages.send(mine, static_cast<int>(rank), roll_question_tag);
    impl_->owing[rank] = true;
  }
}

void RollCall::ask(const Presence& mine, double patience_s) {
  for (auto& answer : impl_->answers) answer.reset();
  impl_->note(impl_->world.rank(), mine);
  call(mine);
  const std::int64_t begin_ns = trace::now_ns();
  const std::int64_t deadline_ns = begin_ns + std::llround(patience_s * 1e9);
  while (trace::now_ns() < deadline_ns) {
    answer(mine);
    if (!silent() && trace::now_ns() > begin_ns + min_patience_ns) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void RollCall::ask_for_stacks(const Presence& mine) {
  int asked = 0;
  for (std::size_t rank = 0; rank < impl_->answers.size() && asked < max_stacks; ++rank) {
    const auto& answer = impl_->answers[rank];
    if (impl_->is_mine(rank) || !answer || answer->is_with(mine)) continue;
    impl_->messages.send('s', static_cast<int>(rank), stack_tag);
    ++asked;
  }
  const std::int64_t end_ns = trace::now_ns() + min_patience_ns;
  while (asked > 0 && trace::now_ns() < end_ns) {
    answer(mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

bool RollCall::silent() const {
  return !std::ranges::all_of(impl_->answers, [](const auto& answer) { return answer.has_value(); });
}

void RollCall::begin_silences() {
  std::ranges::fill(impl_->heard_s, impl_->now_s);
  std::ranges::fill(impl_->last, std::nullopt);
}

double RollCall::silence_s() const {
  double longest = 0;
  for (std::size_t rank = 0; rank < impl_->heard_s.size(); ++rank)
    if (!impl_->is_mine(rank)) longest = std::max(longest, impl_->now_s - impl_->heard_s[rank]);
  return longest;
}

bool RollCall::any_moved_within(double seconds) const {
  for (std::size_t rank = 0; rank < impl_->answers.size(); ++rank) {
    const auto& answer = impl_->answers[rank];
    if (!impl_->is_mine(rank) && answer && answer->quiet_s < seconds) return true;
  }
  return false;
}

bool RollCall::any_at_files_within(double seconds) const {
  for (std::size_t rank = 0; rank < impl_->answers.size(); ++rank) {
    const auto& answer = impl_->answers[rank];
    if (!impl_->is_mine(rank) && answer && answer->files != 0 && answer->quiet_s < seconds) return true;
  }
  return false;
}

bool RollCall::left_to_another() const {
  for (int rank = 0; rank < impl_->world.rank(); ++rank) {
    const auto& answer = impl_->answers[static_cast<std::size_t>(rank)];
    if (answer && answer->ending != 0) return true;
  }
  return false;
}

std::string RollCall::text(const Presence& mine, const std::vector<int>& missing) const {
  std::vector<std::size_t> silent;
  std::vector<std::size_t> not_arrived;
  std::vector<std::size_t> elsewhere;
  std::size_t with_me = 0;
  for (std::size_t rank = 0; rank < impl_->answers.size(); ++rank) {
    const auto& answer = impl_->answers[rank];
    if (impl_->is_mine(rank)) continue;
    if (!answer) {
      silent.push_back(rank);
    } else if (!answer->is_with(mine)) {
      elsewhere.push_back(rank);
    } else if (std::ranges::count(missing, static_cast<int>(rank)) > 0) {
      not_arrived.push_back(rank);
    } else {
      ++with_me;
    }
  }
  std::vector<std::string> parts;
  if (!silent.empty())
    parts.push_back(impl_->places(silent) + (silent.size() == 1 ? " does not answer" : " do not answer"));
  if (silent.size() == 1 && impl_->last[silent.front()])
    parts.back() += ", last heard of: " + impl_->last[silent.front()]->text();
  for (std::size_t i = 0; i < std::min(elsewhere.size(), max_named_ranks); ++i) {
    const Presence& there = *impl_->answers[elsewhere[i]];
    parts.push_back(cat(impl_->place(elsewhere[i]), " is elsewhere: ", there.text(), ", for ",
                        std::llround(there.quiet_s), " s"));
  }
  if (elsewhere.size() > max_named_ranks)
    parts.push_back(cat(elsewhere.size() - max_named_ranks, " more are elsewhere"));
  if (!not_arrived.empty())
    parts.push_back(impl_->places(not_arrived) + (not_arrived.size() == 1 ? " has" : " have") +
                    " not arrived there");
  if (with_me > 0) parts.push_back(cat(parts.empty() ? "all" : "the others", " wait in the same place"));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

/// One thread beats: no read-modify-write needed.
void ThreadActivity::beat(ActivityState is) {
  state_.store(is, std::memory_order_relaxed);
  beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ThreadActivity::beat(ActivityState is, const char* what, std::int64_t step, std::int64_t index) {
  what_.store(what, std::memory_order_relaxed);
  step_.store(step, std::memory_order_relaxed);
  index_.store(index, std::memory_order_relaxed);
  beat(is);
}

void ThreadActivity::set_working_thread(clockid_t clock) {
  working_thread_.store(clock, std::memory_order_relaxed);
}

Activity ThreadActivity::activity() const {
  return {what_.load(std::memory_order_relaxed), step_.load(std::memory_order_relaxed),
          index_.load(std::memory_order_relaxed)};
}

Presence ThreadActivity::presence() const {
  const Activity now = activity();
  const ActivityState is = state_.load(std::memory_order_relaxed);
  Presence presence{.step = now.step,
                    .index = now.index,
                    .done = is == ActivityState::done ? 1 : 0,
                    .files = is == ActivityState::working || is == ActivityState::at_disk ? 1 : 0};
  presence.set_what(now.what);
  return presence;
}

bool ThreadActivity::worked() {
  if (state_.load(std::memory_order_relaxed) != ActivityState::working) return false;
  const double time_s = processor_time_s(working_thread_.load(std::memory_order_relaxed));
  return std::exchange(worked_s_, time_s) != time_s;
}

}  // namespace flotilla::mpi
