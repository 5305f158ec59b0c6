// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/soak_case.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/runs/program.hpp"

namespace flotilla::test {

namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  bool one_in(int n) { return below(n) == 0; }
  double fraction() { return std::uniform_real_distribution(0.0, 1.0)(random_); }
  template <class Value>
  const Value& of(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }
  /// 1 … limit, small numbers as often as large ones.
  int number_to(int limit) { return static_cast<int>(std::pow(limit, fraction())); }

 private:
  std::mt19937_64 random_;
};

/// A call that fails, of all that a run makes: those early in it as often as late ones.
FailingCall draw_failure(int rank, Draw& draw) {
  struct Kind {
    const char* word;
    int calls;
  };
  static const std::vector<Kind> on_files = {{"open", 60},  {"read", 300}, {"write", 300}, {"sync", 20},
                                             {"rename", 8}, {"stat", 60},  {"make", 1},    {"list", 3},
                                             {"room", 20},  {"remove", 4}};
  static const std::vector<Kind> of_memory = {{"memory", 40}, {"memory", 40}, {"map", 2}, {"thread", 4}};
  static const std::vector<Kind> that_transfer = {{"read", 300}, {"write", 300}};
  FailingCall call;
  call.rank = rank;
  const int roll = draw.below(10);
  const Kind kind = roll < 4 ? draw.of(of_memory) : roll < 6 ? draw.of(that_transfer) : draw.of(on_files);
  call.word = kind.word;
  call.number = draw.number_to(kind.calls);
  if (roll >= 6)
    call.error = draw.of(std::vector<std::string>{"EIO", "EIO", "ESTALE"});
  else if (roll >= 4)
    call.error = "short";
  return call;
}

/// A death in a call that writes a checkpoint, of a rank that does so.
FailingCall draw_death(const SoakCase& one, Draw& draw) {
  FailingCall call;
  call.rank = one.rank_that_saves();
  if (one.way.parts && draw.one_in(2)) call.rank = draw.below(one.ranks);
  if (one.way.servers > 1) call.rank |= 1;
  if (call.rank >= one.ranks) call.rank = one.rank_that_saves();
  call.word = draw.of(std::vector<std::string>{"write", "sync", "rename"});
  call.number = 1 + draw.below(call.word == "write" ? 200 : 12);
  return call;
}

Harm draw_harm(const SoakCase& one, Draw& draw) {
  if (one.small_disk && draw.one_in(2)) return draw.one_in(2) ? Harm::fill_disk : Harm::keep_disk_full;
  const int roll = draw.below(100);
  return roll < 34   ? Harm::fail_call
         : roll < 48 ? Harm::kill_rank
         : roll < 58 ? Harm::die_at_call
         : roll < 66 ? Harm::stop_rank
         : roll < 76 ? Harm::ask_to_stop
         : roll < 84 ? Harm::end_ranks
         : roll < 88 ? Harm::kill_launcher
         : roll < 91 ? Harm::end_launcher
         : roll < 94 ? Harm::fill_shared_memory
         : roll < 97 ? Harm::turn_clock
                     : Harm::pause_rank;
}

Moment draw_moment(const SoakCase& one, const Fault& fault, bool resuming, Draw& draw) {
  const Harm harm = fault.harm;
  const bool asks = harm == Harm::ask_to_stop || harm == Harm::end_ranks;
  const bool kills = harm == Harm::kill_rank;
  const bool digits = !contains(one.way.name, "rows");
  if (harm == Harm::fail_call || harm == Harm::die_at_call || harm == Harm::fill_shared_memory)
    return Moment::at_start;
  const bool anytime = asks || kills || harm == Harm::kill_launcher;
  if (anytime && resuming) return Moment::at_start;
  if (anytime && digits && draw.one_in(4)) return draw.one_in(2) ? Moment::in_staging : Moment::in_validation;
  if (anytime && draw.one_in(4)) return Moment::at_start;
  if (kills && draw.one_in(8)) return Moment::at_the_end;
  return draw.one_in(3) ? Moment::in_saving : Moment::in_training;
}

Fault draw_fault(const SoakCase& one, bool resuming, Draw& draw) {
  Fault fault;
  fault.rank = draw.below(one.ranks);
  fault.other_rank = (fault.rank + 1 + draw.below(one.ranks - 1)) % one.ranks;
  fault.host = draw.below(one.hosts);
  fault.harm = draw_harm(one, draw);
  fault.moment = draw_moment(one, fault, resuming, draw);
  const bool pairs = fault.moment != Moment::at_the_end &&
                     (fault.harm == Harm::kill_rank || fault.harm == Harm::stop_rank ||
                      fault.harm == Harm::ask_to_stop || fault.harm == Harm::keep_disk_full);
  if (pairs && draw.one_in(3))
    fault.also = draw.of(std::vector<Harm>{Harm::kill_rank, Harm::stop_rank, Harm::ask_to_stop});
  // Before the deck is read no watchdog reports a stopped rank (docs/troubleshooting.md).
  const bool begins = fault.moment == Moment::at_start || fault.moment == Moment::in_staging;
  if (begins && fault.also == Harm::stop_rank) fault.also = Harm::kill_rank;
  // If all ranks are stopped no watchdog is left.
  const bool stops_all = one.ranks == 2 && fault.harm == Harm::stop_rank;
  if (stops_all && fault.also == Harm::stop_rank) fault.also = Harm::kill_rank;
  if (fault.harm == Harm::fail_call) fault.call = draw_failure(fault.rank, draw);
  if (fault.harm == Harm::die_at_call) fault.call = draw_death(one, draw);
  const double longest_s = fault.moment == Moment::at_start        ? 1.5
                           : fault.moment == Moment::in_saving     ? 0.01
                           : fault.moment == Moment::in_validation ? 0.6
                           : fault.moment == Moment::in_training   ? 0.8
                                                                   : 0.05;
  fault.delay_s = longest_s * draw.fraction();
  return fault;
}

}  // namespace

Texts SoakCase::arguments() const {
  Texts all = way.arguments;
  all.insert(all.end(),
             {"run.log_every=20", "checkpoint.every=20", "device.threads=1", "train.epochs=100000"});
  if (save == "best") all.push_back("checkpoint.best=loss");
  if (save == "one kept") all.push_back("checkpoint.keep=1");
  if (save == "each rank") all.push_back("checkpoint.per_rank=true");
  if (std::ranges::any_of(faults, [](const Fault& fault) { return fault.moment == Moment::in_validation; }))
    // The validation set is as large as an epoch, so that validations take a while.
    all.insert(all.end(),
               {"data.validation.images=" + source_path("inputs/data/mnist/train-images-idx3-ubyte.gz"),
                "data.validation.labels=" + source_path("inputs/data/mnist/train-labels-idx1-ubyte.gz")});
  return all;
}

std::string SoakCase::name() const {
  return way.name + ", " + std::to_string(ranks) + " ranks, " + std::to_string(hosts) + " hosts";
}

SoakCase draw_case(std::uint64_t seed, const std::vector<Way>& ways, int max_hosts) {
  Draw draw(seed);
  SoakCase one;
  one.seed = seed;
  one.way = draw.of(ways);
  one.ranks = draw.of(one.way.ranks);
  const int hosts = draw.one_in(6) ? 2 + draw.below(2) : 1;  // drawn in any case: the rest follows from it
  one.hosts = one.way.one_host ? 1 : std::min({hosts, max_hosts, one.ranks});
  const bool serves = one.way.servers > 0;
  one.save = draw.of(std::vector<std::string>{"every 20 steps", "every 20 steps", "best", "one kept",
                                              serves ? "every 20 steps" : "each rank"});
  one.small_disk = draw.one_in(8);
  one.resumes = draw.one_in(2);
  one.damages_newest = draw.one_in(4);
  one.faults.push_back(draw_fault(one, one.resumes, draw));
  if (draw.one_in(4)) one.faults.push_back(draw_fault(one, true, draw));
  return one;
}

}  // namespace flotilla::test
