// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/collective_log.hpp"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

static_assert(std::is_trivially_copyable_v<CollectiveHistory>, "travels as bytes");

std::mutex log_mutex;
CollectiveLog* newest_log = nullptr;  // under log_mutex
std::atomic<bool> checks{false};

/// A number for each thread that calls collectives.
std::int32_t this_thread() {
  static std::atomic<std::int32_t> threads{0};
  static thread_local const std::int32_t number = threads.fetch_add(1);
  return number;
}

/// The end of a text that is too long: the most telling part of a path.
template <std::size_t Size>
void set_text(std::array<char, Size>& to, std::string_view text) {
  const std::string_view end = text.substr(text.size() - std::min(text.size(), Size - 1));
  std::ranges::copy(end, to.begin());
}

/// SplitMix64's last part (Steele, Lea and Flood 2014): neighbouring numbers come out far from each other.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

std::string CollectiveCall::text() const {
  std::string text = kind.data();
  if (count >= 0 && type.front() != '\0') text += cat(" of ", count, " ", type.data(), " values");
  text += " (";
  if (step >= 0) text += cat("step ", step, ", ");
  return text + cat(file.data(), ":", line, ")");
}

CollectiveCall CollectiveLog::Entry::call() const {
  CollectiveCall call;
  set_text(call.kind, kind.load(std::memory_order_relaxed));
  set_text(call.type, type.load(std::memory_order_relaxed));
  set_text(call.file, file.load(std::memory_order_relaxed));
  call.line = line.load(std::memory_order_relaxed);
  call.count = count.load(std::memory_order_relaxed);
  call.step = step.load(std::memory_order_relaxed);
  return call;
}

CollectiveLog::CollectiveLog(std::uint64_t communicator) : communicator_(communicator) {
  const std::lock_guard lock(log_mutex);
  next_ = newest_log;
  newest_log = this;
}

CollectiveLog::~CollectiveLog() {
  const std::lock_guard lock(log_mutex);
  CollectiveLog** link = &newest_log;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void CollectiveLog::begin(const char* kind, const char* type, std::int64_t count, const CallSite& at) {
  // A reader that sees parts of a new entry must also see the number of the call before it.
  std::atomic_thread_fence(std::memory_order_release);
  const std::int64_t number = begun_.load(std::memory_order_relaxed) + 1;
  Entry& entry = entries_[static_cast<std::size_t>(number) % entries_.size()];
  entry.kind.store(kind, std::memory_order_relaxed);
  entry.type.store(type, std::memory_order_relaxed);
  entry.file.store(at.where.file_name(), std::memory_order_relaxed);
  entry.line.store(at.where.line(), std::memory_order_relaxed);
  entry.count.store(count, std::memory_order_relaxed);
  entry.step.store(at.step, std::memory_order_relaxed);
  thread_.store(this_thread(), std::memory_order_relaxed);
  begun_.store(number, std::memory_order_release);
}

CollectiveCall CollectiveLog::last() const {
  return entries_[static_cast<std::size_t>(begun_.load(std::memory_order_relaxed)) % entries_.size()].call();
}

std::uint64_t CollectiveLog::made(int first_rank) const {
  const auto number = static_cast<std::uint64_t>(begun_.load(std::memory_order_relaxed));
  return mixed(mixed(mixed(communicator_) + number) + static_cast<std::uint64_t>(first_rank));
}

CollectiveHistory CollectiveLog::history() const {
  CollectiveHistory history{.communicator = communicator_};
  history.begun = begun_.load(std::memory_order_acquire);
  history.thread = thread_.load(std::memory_order_relaxed);
  history.waiting = waiting_.load(std::memory_order_relaxed) ? 1 : 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) history.calls[i] = entries_[i].call();
  std::atomic_thread_fence(std::memory_order_acquire);
  // Entries overwritten by later calls, and by one that may just be starting, are lost.
  const std::int64_t now = begun_.load(std::memory_order_relaxed);
  history.first = std::max<std::int64_t>(1, now + 2 - static_cast<std::int64_t>(entries_.size()));
  if (now != history.begun) history.waiting = 0;
  return history;
}

std::vector<CollectiveHistory> CollectiveLog::all() {
  const std::lock_guard lock(log_mutex);
  std::vector<CollectiveHistory> histories;
  for (const CollectiveLog* log = newest_log; log != nullptr; log = log->next_)
    histories.push_back(log->history());
  return histories;
}

std::vector<std::pair<std::uint64_t, std::int64_t>> CollectiveLog::waiting() {
  const std::lock_guard lock(log_mutex);
  std::vector<std::pair<std::uint64_t, std::int64_t>> calls;
  for (const CollectiveLog* log = newest_log; log != nullptr; log = log->next_)
    if (log->waiting_.load(std::memory_order_relaxed))
      calls.emplace_back(log->communicator_, log->begun_.load(std::memory_order_relaxed));
  return calls;
}

void set_collective_checks(bool on) {
  checks.store(on, std::memory_order_relaxed);
}

bool collective_checks() {
  return checks.load(std::memory_order_relaxed);
}

}  // namespace flotilla::mpi
