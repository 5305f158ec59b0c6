// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/faults/environment.hpp"
#include "tests/faults/journey.hpp"
#include "tests/faults/private_mounts.hpp"

// Random faults, one after the other: every run must end in time and go on from the newest checkpoint that it
// had reported; damaged ones must be passed over, and nothing may be left of it. Prints a line for each fault
// and a summary; exit code 1 if anything was wrong.
//
//   soak_faults [--faults 100] [--minutes 15] [--seed 1]
//
// The moments are not those of another run with the same seed, for they depend on the machine; the
// strategies, faults and ranks are.

namespace flotilla::test {
namespace {

constexpr std::int64_t small_disk_bytes = 96 << 20;
constexpr int faults_of_a_journey = 5;

struct Options {
  int faults = 100;
  double minutes = 15;
  std::uint64_t seed = 1;
};

Options options_of(const Texts& words) {
  Options options;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    if (words[i] == "--faults")
      options.faults = std::stoi(words[i + 1]);
    else if (words[i] == "--minutes")
      options.minutes = std::stod(words[i + 1]);
    else if (words[i] == "--seed")
      options.seed = std::stoull(words[i + 1]);
    else
      throw std::invalid_argument("no option " + words[i]);
  }
  return options;
}

Fault random_fault(const Way& way, int ranks, bool small_disk, std::mt19937_64& random) {
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
  };
  const auto fraction = [&] { return std::uniform_real_distribution(0.0, 1.0)(random); };
  Fault fault;
  fault.rank = below(ranks);
  fault.other_rank = (fault.rank + 1 + below(ranks - 1)) % ranks;
  const int roll = below(100);
  fault.harm = roll < 30   ? Harm::kill_rank
               : roll < 36 ? Harm::kill_two
               : roll < 44 ? Harm::kill_launcher
               : roll < 50 ? Harm::end_launcher
               : roll < 70 ? Harm::die_at_call
               : roll < 84 ? Harm::stop_rank
               : roll < 90 ? Harm::pause_rank
                           : Harm::ask_to_stop;
  if (small_disk && below(2) == 0) fault.harm = below(2) == 0 ? Harm::fill_disk : Harm::keep_disk_full;
  const int when = below(10);
  fault.moment = when < 5 ? Moment::in_training : when < 8 ? Moment::in_saving : Moment::at_start;
  const bool kills = fault.harm == Harm::kill_rank || fault.harm == Harm::kill_two;
  if (when == 9 && kills) fault.moment = Moment::at_the_end;
  // Before a run is under way it can be killed; what else may happen to it is the launcher's.
  if (!kills && fault.harm != Harm::kill_launcher && fault.moment == Moment::at_start)
    fault.moment = Moment::in_training;
  if (fault.harm == Harm::die_at_call) {
    fault.moment = Moment::at_start;
    const bool other = way.parts && below(2) == 0;
    if (!other) fault.rank = way.servers > 0 ? 1 : 0;
    if (other && way.servers > 0) fault.rank |= 1;
    const std::vector<std::string> calls = {"write", "sync", "rename"};
    const std::string& call = calls[static_cast<std::size_t>(below(3))];
    fault.call =
        std::to_string(fault.rank) + ' ' + call + ' ' + std::to_string(1 + below(call == "write" ? 200 : 12));
  } else {
    const double longest_s = fault.moment == Moment::at_start      ? 1.5
                             : fault.moment == Moment::in_training ? 1.0
                             : fault.moment == Moment::in_saving   ? 0.01
                                                                   : 0.05;
    fault.delay_s = longest_s * fraction();
  }
  return fault;
}

class Soak {
 public:
  explicit Soak(const Options& options)
      : options_(options), random_(options.seed), begin_(std::chrono::steady_clock::now()) {
    clicks_ = folder_.path("clicks.tsv");
    const Result made =
        run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "4000", "--output", clicks_});
    if (made.exit_code != 0) throw std::runtime_error(made.errors);
    std::filesystem::create_directory(folder_.path("tmp"));
    mount_disk("/dev/shm", std::int64_t{1} << 30);  // of its own, so that what stays there is seen
  }

  int run_all() {
    std::printf("%5s  %-18s %5s  %-36s %4s %7s %8s %8s\n", "fault", "strategy", "ranks", "harm, moment",
                "exit", "gone/s", "saved", "resumed");
    const std::vector<Way> ways = all_ways(clicks_);
    for (int number = 0; happened_ < options_.faults && minutes() < options_.minutes; ++number)
      travel(ways[random_() % ways.size()], number);
    return summary();
  }

 private:
  double minutes() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() / 60;
  }

  void travel(const Way& way, int number) {
    const int ranks = way.ranks[random_() % way.ranks.size()];
    const bool small_disk = random_() % 4 == 0;
    const std::string folder = folder_.path("journey-" + std::to_string(number));
    std::filesystem::create_directory(folder);
    if (small_disk) mount_disk(folder, small_disk_bytes);
    {
      Journey journey(way, ranks,
                      {.output = folder + "/run",
                       .temporary = folder_.path("tmp"),
                       .disk = small_disk ? folder : std::string()},
                      random_());
      for (int i = 0; i < faults_of_a_journey; ++i) {
        journey.suffer(random_fault(way, ranks, small_disk, random_));
        if (random_() % 4 == 0) journey.spoil_newest();
      }
      journey.finish(folder + "/reference");
      print(way, ranks, journey);
    }
    if (small_disk) unmount(folder);
    std::filesystem::remove_all(folder);
  }

  void print(const Way& way, int ranks, const Journey& journey) {
    for (const Outcome& outcome : journey.outcomes()) {
      if (outcome.happened) ++happened_;
      if (!outcome.spoilt.empty()) ++spoilt_;
      std::printf("%5d  %-18s %5d  %-36s %4d %7.2f %8lld %8lld%s%s\n", happened_, way.name.c_str(), ranks,
                  outcome.fault.text().c_str(), outcome.exit_code, outcome.gone_s,
                  static_cast<long long>(outcome.reported), static_cast<long long>(outcome.resumed),
                  outcome.happened ? "" : "  it did not come to that",
                  outcome.spoilt.empty() ? "" : ("  " + outcome.spoilt).c_str());
      if (!outcome.said.empty()) std::printf("         %s\n", outcome.said.c_str());
      blame(outcome.wrong);
      if (outcome.happened) times_[text_of(outcome.fault.harm)].push_back(outcome.gone_s);
    }
    blame(journey.wrong());
    compared_ += way.exact && journey.wrong().empty() ? 1 : 0;
    ++journeys_;
    std::fflush(stdout);
  }

  void blame(const std::vector<std::string>& wrong) {
    for (const std::string& text : wrong) std::printf("WRONG: %s\n", text.c_str());
    wrong_ += static_cast<int>(wrong.size());
  }

  int summary() {
    std::printf("\n%-16s %6s %10s %10s\n", "harm", "faults", "median/s", "longest/s");
    for (auto& [harm, times] : times_) {
      std::ranges::sort(times);
      std::printf("%-16s %6zu %10.2f %10.2f\n", harm.c_str(), times.size(), times[times.size() / 2],
                  times.back());
    }
    std::printf(
        "%d faults in %d runs in %.1f min, seed %llu; %d checkpoints damaged on purpose; %d runs compared "
        "with "
        "undisturbed ones; %d wrong\n",
        happened_, journeys_, minutes(), static_cast<unsigned long long>(options_.seed), spoilt_, compared_,
        wrong_);
    if (happened_ < options_.faults) std::printf("the time was not enough for %d faults\n", options_.faults);
    return wrong_ == 0 && happened_ >= options_.faults ? 0 : 1;
  }

  Options options_;
  std::mt19937_64 random_;
  std::chrono::steady_clock::time_point begin_;
  TemporaryFolder folder_;
  std::string clicks_;
  int happened_ = 0;
  int journeys_ = 0;
  int spoilt_ = 0;
  int compared_ = 0;
  int wrong_ = 0;
  std::map<std::string, std::vector<double>> times_;
};

}  // namespace
}  // namespace flotilla::test

int main(int argc, char** argv) {
  try {
    const auto options = flotilla::test::options_of({argv, argv + argc});
    if (const std::string reason = flotilla::test::own_mounts(); !reason.empty())
      throw std::runtime_error("no mounts of its own: " + reason);
    flotilla::test::complete_environment();
    return flotilla::test::Soak(options).run_all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak_faults: %s\n", error.what());
    return 2;
  }
}
