// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/roll_call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/rank_tree.hpp"
#include "mpi/watchdog/mismatch_detector.hpp"
#include "mpi/watchdog/thread_stack.hpp"

namespace flotilla::mpi {

namespace {

constexpr int roll_question_tag = 3;
constexpr int roll_answer_tag = 4;
constexpr int stack_tag = 8;  // 5 to 7 and 11 are the mismatch detector's
constexpr int roll_request_tag = 9;
constexpr int roll_result_tag = 10;
constexpr int max_stacks = 4;
constexpr std::size_t max_named_ranks = 8;
constexpr std::int64_t min_patience_ns = 500'000'000;
constexpr double takeover_step_s = 0.02;
constexpr int max_takeover_steps = 20;

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

namespace {

/// The states of some ranks, sent as bytes.
struct Attendance {
  /// Ranks that are at the same place.
  struct Group {
    Presence at{};  ///< Presence of the first one
    std::int32_t count = 0;
    std::array<std::int32_t, max_named_ranks> ranks{};
  };

  std::array<std::int32_t, 64> silent{};  ///< As many as there is room for
  std::int32_t silent_count = 0;
  std::int32_t ungrouped = 0;  ///< Ranks for whose places there was no room
  std::int32_t group_count = 0;
  std::int32_t ending = std::numeric_limits<std::int32_t>::max();  ///< The lowest rank that ends the job
  double quiet_s = std::numeric_limits<double>::infinity();        ///< Since a rank last moved
  double files_quiet_s = std::numeric_limits<double>::infinity();  ///< Since one moved that waits for files
  std::array<Group, 8> groups{};

  Attendance() = default;
  Attendance(int rank, const Presence& presence) : group_count(1), quiet_s(presence.quiet_s) {
    if (presence.ending != 0) ending = rank;
    if (presence.files != 0) files_quiet_s = quiet_s;
    groups[0] = {.at = presence, .count = 1, .ranks = {rank}};
  }
  std::span<const std::int32_t> silent_ranks() const {
    return std::span(silent).first(std::min(silent.size(), static_cast<std::size_t>(silent_count)));
  }
  bool is_silent(int rank) const { return std::ranges::count(silent_ranks(), rank) > 0; }
  std::span<const Group> places() const {
    return std::span(groups).first(static_cast<std::size_t>(group_count));
  }
  void add_silent(int rank) {
    if (const auto at = static_cast<std::size_t>(silent_count++); at < silent.size()) silent[at] = rank;
  }
  void add(const Attendance& other);
};

std::span<const std::int32_t> named(const Attendance::Group& group) {
  return std::span(group.ranks).first(std::min(max_named_ranks, static_cast<std::size_t>(group.count)));
}

void Attendance::add(const Attendance& other) {
  for (const int rank : other.silent_ranks()) add_silent(rank);
  silent_count += other.silent_count - static_cast<std::int32_t>(other.silent_ranks().size());
  ungrouped += other.ungrouped;
  ending = std::min(ending, other.ending);
  quiet_s = std::min(quiet_s, other.quiet_s);
  files_quiet_s = std::min(files_quiet_s, other.files_quiet_s);
  for (const Group& group : other.places()) {
    const auto end = groups.begin() + group_count;
    const auto same =
        std::find_if(groups.begin(), end, [&](const Group& own) { return own.at.is_with(group.at); });
    if (same == groups.end()) {
      ungrouped += group.count;
      continue;
    }
    if (same == end) {
      ++group_count;
      *same = {.at = group.at};
    }
    for (const int rank : named(group))
      if (const auto at = static_cast<std::size_t>(same->count++); at < max_named_ranks)
        same->ranks[at] = rank;
    same->count += group.count - static_cast<std::int32_t>(named(group).size());
  }
}

struct Question {
  std::int64_t round = 0;   ///< The answer brings it back
  double patience_s = 0.0;  ///< The sender waits so long
  std::int64_t alone = 0;   ///< 1: about that rank only; 0: about its subtree
};

struct Answer {
  std::int64_t round = 0;
  Attendance attendance{};
};

/// Questions of one rank to others, and what it has learned from the answers.
class Round {
 public:
  bool is_open() const { return open_; }
  const Attendance& attendance() const { return attendance_; }
  void begin(const Attendance& first) {
    static std::int64_t rounds = 0;  // rounds of this process, of one thread
    number_ = ++rounds;
    open_ = true;
    attendance_ = first;
    pending_.clear();
  }
  void ask(SmallMessages& messages, int rank, double patience_s, bool alone) {
    messages.send(Question{number_, patience_s, alone ? 1 : 0}, rank, roll_question_tag);
    pending_[rank] = {trace::now_ns() + std::llround(patience_s * 1e9), patience_s, alone};
  }
  void take(int from, const Answer& answer) {
    if (open_ && answer.round == number_ && pending_.erase(from) > 0) attendance_.add(answer.attendance);
  }
  /// Asks the children of ranks that have not answered in time. @returns whether the round ends by this
  bool ends(SmallMessages& messages, int ranks) {
    if (!open_) return false;
    const std::int64_t now_ns = trace::now_ns();
    while (true) {
      const auto late =
          std::ranges::find_if(pending_, [&](const auto& asked) { return asked.second.until_ns < now_ns; });
      if (late == pending_.end()) break;
      const auto [rank, asked] = *late;
      pending_.erase(late);
      attendance_.add_silent(rank);
      if (asked.alone) continue;
      for (const int child : RankTree(rank, ranks).children)
        ask(messages, child, asked.patience_s / 2.0, false);
    }
    open_ = !pending_.empty();
    return !open_;
  }

 private:
  struct Asked {
    std::int64_t until_ns = 0;
    double patience_s = 0.0;
    bool alone = false;
  };

  bool open_ = false;
  std::int64_t number_ = 0;
  Attendance attendance_;
  std::map<int, Asked> pending_;  ///< By rank
};

/// What a rank knows of the others.
struct Known {
  Attendance result{};               ///< The newest one
  bool fresh = false;                ///< It has come since ask()
  double heard_s = 0;                ///< When it came, by the caller's clock
  std::map<int, double> silences{};  ///< Since when ranks are silent
  std::string last{};                ///< What the only silent rank said last
};

}  // namespace

struct RollCall::Impl {
  Communicator world;
  std::vector<std::string> hosts;
  RankTree tree{world.rank(), world.size()};
  double now_s = 0;
  double patience_s = 0.0;        // of the request
  std::int64_t requested_ns = 0;  // since then this rank wants a result; 0: it does not, or one is under way
  Round subtree{};                // for those in `askers`
  std::vector<std::pair<int, std::int64_t>> askers{};  // and the numbers of their rounds
  Round all{};                                         // of a rank that finds out for all
  Known known{};
  ThreadStack stack{};
  SmallMessages messages{world};
  MismatchDetector mismatches{messages, world, [this] { return place_names(); }};

  /// Time before this rank takes over where rank 0 is silent: first ranks of hosts come first.
  double takeover_s() const {
    std::map<std::string, int> ranks;
    int firsts = 0;
    for (int rank = 0; rank < world.rank(); ++rank)
      firsts += ranks[hosts[static_cast<std::size_t>(rank)]]++ == 0;
    const int before = ranks[hosts[static_cast<std::size_t>(world.rank())]];
    const int all_firsts = static_cast<int>(std::set(hosts.begin(), hosts.end()).size());
    return takeover_step_s * std::min(max_takeover_steps, before == 0 ? firsts : all_firsts + before - 1);
  }
  /// Asks for a result. Rank 0 finds it out, or one that takes over.
  void request(double patience) {
    patience_s = patience;
    if (requested_ns != 0) return;
    requested_ns = trace::now_ns();
    if (tree.parent >= 0) return messages.send(patience, tree.parent, roll_request_tag);
    if (!all.is_open()) find_out(false);
  }
  void find_out(bool take_over) {
    requested_ns = 0;
    all.begin({});
    all.ask(messages, 0, take_over ? patience_s : 2.0 * patience_s, take_over);
    if (!take_over) return;
    for (const int rank : RankTree(0, world.size()).children) all.ask(messages, rank, patience_s, false);
  }
  void take_questions(const Presence& mine) {
    while (const auto question = messages.receive<Question>(roll_question_tag)) {
      requested_ns = 0;
      const auto& [from, asked] = *question;
      if (asked.alone != 0) {
        messages.send(Answer{asked.round, Attendance(world.rank(), mine)}, from, roll_answer_tag);
        continue;
      }
      askers.emplace_back(from, asked.round);
      if (subtree.is_open()) continue;
      subtree.begin(Attendance(world.rank(), mine));
      for (const int child : tree.children) subtree.ask(messages, child, asked.patience_s / 2.0, false);
    }
  }
  void take(const Attendance& found) {
    std::map<int, double> before = std::exchange(known.silences, {});
    for (const int rank : found.silent_ranks())
      known.silences[rank] = before.contains(rank) ? before[rank] : known.heard_s;
    if (known.silences.size() != 1 || !before.contains(known.silences.begin()->first)) {
      known.last.clear();
      for (const Attendance::Group& group : known.result.places())
        if (known.silences.size() == 1 && std::ranges::count(named(group), known.silences.begin()->first) > 0)
          known.last = group.at.text();
    }
    known.result = found;
    known.fresh = true;
    known.heard_s = now_s;
    requested_ns = 0;
    spread(found, world.rank());
  }
  /// Sends a result to the children of `rank`, and in the place of silent ones to theirs.
  void spread(const Attendance& found, int rank) {
    for (const int child : RankTree(rank, world.size()).children) {
      if (found.is_silent(child))
        spread(found, child);
      else
        messages.send(found, child, roll_result_tag);
    }
  }
  void progress() {
    if (requested_ns != 0 && tree.parent >= 0 && !all.is_open() &&
        trace::now_ns() > requested_ns + std::llround((patience_s / 4.0 + takeover_s()) * 1e9))
      find_out(true);
    if (subtree.ends(messages, world.size()))
      for (const auto& [rank, round] : std::exchange(askers, {}))
        messages.send(Answer{round, subtree.attendance()}, rank, roll_answer_tag);
    if (!all.ends(messages, world.size())) return;
    const Attendance& found = all.attendance();
    if (world.rank() == 0) return take(found);
    if (!found.is_silent(0)) return messages.send(found, 0, roll_result_tag);
    spread(found, 0);  // and so to this rank
  }
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
    : impl_(new Impl{.world = world.collective_clone(), .hosts = std::move(hosts)}) {}

RollCall::~RollCall() = default;

void RollCall::set_time(double now_s) {
  impl_->now_s = now_s;
}

void RollCall::answer(const Presence& mine) {
  impl_->messages.release_sent();
  impl_->take_questions(mine);
  while (const auto reply = impl_->messages.receive<Answer>(roll_answer_tag)) {
    impl_->subtree.take(reply->first, reply->second);
    impl_->all.take(reply->first, reply->second);
  }
  while (const auto result = impl_->messages.receive<Attendance>(roll_result_tag))
    impl_->take(result->second);
  while (impl_->messages.receive<char>(stack_tag)) impl_->print_stack();
  while (const auto request = impl_->messages.receive<double>(roll_request_tag))
    impl_->request(request->second);
  impl_->progress();
  impl_->mismatches.poll(mine.quiet_s);
}

void RollCall::receive_rest() {
  impl_->messages.receive_rest();
}

const std::string& RollCall::mismatch() const {
  return impl_->mismatches.finding();
}

void RollCall::call(double patience_s, double max_age_s) {
  if (impl_->now_s >= impl_->known.heard_s + max_age_s) impl_->request(patience_s);
}

/// Answers until `done` or until that time.
template <class Done>
void answer_until(RollCall& call, const Presence& mine, std::int64_t until_ns, Done done) {
  while (!done() && trace::now_ns() < until_ns) {
    call.answer(mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void RollCall::ask(const Presence& mine, double patience_s) {
  const std::int64_t begin_ns = trace::now_ns();
  const std::int64_t patience_ns = std::llround(patience_s * 1e9);
  // Other watchdogs may be about to end the job as well.
  if (mine.ending != 0 && patience_ns > min_patience_ns)
    answer_until(*this, mine, begin_ns + min_patience_ns, [] { return false; });
  impl_->known.fresh = false;
  impl_->requested_ns = 0;
  impl_->request(patience_s);
  answer_until(*this, mine, begin_ns + 2 * patience_ns + min_patience_ns,
               [this] { return impl_->known.fresh; });
}

void RollCall::ask_for_stacks(const Presence& mine) {
  int asked = 0;
  for (const Attendance::Group& group : impl_->known.result.places()) {
    if (group.at.is_with(mine)) continue;
    for (const int rank : named(group)) {
      if (rank == impl_->world.rank() || asked == max_stacks) continue;
      impl_->messages.send('s', rank, stack_tag);
      ++asked;
    }
  }
  answer_until(*this, mine, trace::now_ns() + min_patience_ns, [asked] { return asked == 0; });
}

bool RollCall::silent() const {
  return !impl_->known.fresh || impl_->known.result.silent_count > 0;
}

void RollCall::begin_silences() {
  impl_->known.heard_s = impl_->now_s;
  impl_->known.last.clear();
  for (auto& [rank, since_s] : impl_->known.silences) since_s = impl_->now_s;
}

double RollCall::silence_s() const {
  double since_s = impl_->known.fresh ? impl_->now_s : impl_->known.heard_s;
  for (const auto& [rank, rank_since_s] : impl_->known.silences) since_s = std::min(since_s, rank_since_s);
  return impl_->now_s - since_s;
}

double RollCall::quiet_s() const {
  return impl_->known.result.quiet_s;
}

double RollCall::files_quiet_s() const {
  return impl_->known.result.files_quiet_s;
}

bool RollCall::left_to_another() const {
  return impl_->known.result.ending < impl_->world.rank();
}

std::string RollCall::text(const Presence& mine, const std::vector<int>& missing) const {
  const Attendance& result = impl_->known.result;
  std::vector<std::size_t> silent(result.silent_ranks().begin(), result.silent_ranks().end());
  std::ranges::sort(silent);
  std::vector<std::size_t> not_arrived;
  std::map<int, const Presence*> elsewhere;
  auto with_me = static_cast<std::size_t>(impl_->world.size() - 1 - result.silent_count);
  std::size_t all_elsewhere = static_cast<std::size_t>(result.ungrouped);
  for (const Attendance::Group& group : result.places()) {
    if (group.at.is_with(mine)) continue;
    all_elsewhere += static_cast<std::size_t>(group.count);
    for (const int rank : named(group))
      if (rank != impl_->world.rank()) elsewhere[rank] = &group.at;
  }
  with_me -= std::min(with_me, all_elsewhere);
  for (const int rank : missing)
    if (with_me > 0 && rank != impl_->world.rank() && !elsewhere.contains(rank) && !result.is_silent(rank)) {
      not_arrived.push_back(static_cast<std::size_t>(rank));
      --with_me;
    }
  std::vector<std::string> parts;
  if (!silent.empty())
    parts.push_back(impl_->places(silent) + (silent.size() == 1 ? " does not answer" : " do not answer"));
  if (silent.size() == 1 && !impl_->known.last.empty())
    parts.back() += ", last heard of: " + impl_->known.last;
  for (const auto& [rank, there] : elsewhere)
    if (parts.size() < max_named_ranks + (silent.empty() ? 0 : 1))
      parts.push_back(cat(impl_->place(static_cast<std::size_t>(rank)), " is elsewhere: ", there->text(),
                          ", for ", std::llround(there->quiet_s), " s"));
  if (all_elsewhere > max_named_ranks)
    parts.push_back(cat(all_elsewhere - max_named_ranks, " more are elsewhere"));
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
