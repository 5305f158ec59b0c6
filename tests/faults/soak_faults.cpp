// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/faults/environment.hpp"
#include "tests/faults/faulted_run.hpp"
#include "tests/faults/private_mounts.hpp"

// Random faults: every run must end in time and go on from the newest checkpoint that it had reported;
// damaged ones must be passed over, and nothing may be left of it. Prints a line for each fault and a
// summary; exit code 1 if anything was wrong.
//
// From the seed of a case follow strategy, ranks, hosts and fault, and a second fault where the run that
// resumes has one; the moment depends on the machine, too.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t small_disk_bytes = 96 << 20;

struct Options {
  int faults = 100;
  double minutes = 15;
  std::uint64_t seed = 1;
  int jobs = 1;
  std::uint64_t replay = 0;  ///< 0: none
  std::string json{};
  std::string kind{};
};

void declare(CLI::App& program, Options& options) {
  program.add_option("--faults", options.faults, "that come to pass")->check(CLI::PositiveNumber);
  program.add_option("--minutes", options.minutes, "after which no more are drawn")
      ->check(CLI::PositiveNumber);
  program.add_option("--seed", options.seed, "of all cases");
  program.add_option("--jobs", options.jobs, "cases side by side")->check(CLI::PositiveNumber);
  program.add_option("--json", options.json, "file that gets an object for each fault, a line each");
  program.add_option("--kind", options.kind, "only cases whose fault's kind has these letters");
  program.add_option("--replay", options.replay, "one case once more, by its \"seed\" in the file of --json");
}

/// The seed of case `number` of a soak, 48 bits, never 0 (splitmix64: Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t seed_of_case(std::uint64_t seed, int number) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(number) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return ((z ^ (z >> 31)) & 0xffffffffffffU) | 1U;
}

/// A process that runs every n-th case, with mounts of its own, so that what stays in /dev/shm is seen.
class Job {
 public:
  Job(const Options& options, int number, std::string shared, std::string list)
      : options_(options), number_(number), shared_(std::move(shared)), list_(std::move(list)) {
    if (const std::string reason = own_mounts(); !reason.empty())
      throw std::runtime_error("no mounts of its own: " + reason);
    mount_disk("/dev/shm", std::int64_t{1} << 30);
    max_hosts_ = max_hosts();
    ways_ = all_ways(shared_ + "/clicks.tsv");
  }

  void work() {
    if (options_.replay != 0) return make(draw_case(options_.replay, ways_, max_hosts_));
    const auto end = Clock::now() + std::chrono::duration<double>(60 * options_.minutes);
    const int faults = (options_.faults + options_.jobs - 1) / options_.jobs;
    for (int number = number_; happened_ < faults && Clock::now() < end; number += options_.jobs) {
      const SoakCase one = draw_case(seed_of_case(options_.seed, number), ways_, max_hosts_);
      if (!contains(one.faults.front().kind(), options_.kind)) continue;
      try {
        make(one);
      } catch (const std::exception& error) {
        std::printf("WRONG: seed %llu: %s\n", static_cast<unsigned long long>(one.seed), error.what());
        broken_ = true;
      }
    }
    if (broken_) throw std::runtime_error("not every fault could be judged");
  }

 private:
  void make(const SoakCase& one) {
    const TemporaryFolder folder;
    SoakPlace place{.output = folder.path("disk") + "/run",
                    .temporary = folder.path("tmp"),
                    .fired = folder.path("fired")};
    fs::create_directory(folder.path("disk"));
    fs::create_directory(place.temporary);
    if (one.small_disk) {
      place.disk = folder.path("disk");
      mount_disk(place.disk, small_disk_bytes);
    }
    std::optional<VirtualHosts> hosts;
    if (one.hosts > 1)
      hosts.emplace(one.hosts, (one.ranks + one.hosts - 1) / one.hosts, folder.path("hosts"));
    if (hosts) place.hosts = &*hosts;
    const References references(shared_);
    FaultedRun run(one, place, references);
    note(one, run.execute());
    if (one.small_disk) unmount(place.disk);
  }

  void note(const SoakCase& one, const std::vector<Outcome>& outcomes) {
    std::string lines;
    for (const Outcome& outcome : outcomes) {
      lines += outcome.json(one).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
      if (outcome.happened) ++happened_;
      std::printf("%-15llu %-18s %d/%d  %-44s %4d %7.2f %8lld %8lld %s%s%s\n",
                  static_cast<unsigned long long>(one.seed), one.way.name.c_str(), one.ranks, one.hosts,
                  outcome.fault.text().c_str(), outcome.exit_code, outcome.gone_s,
                  static_cast<long long>(outcome.reported), static_cast<long long>(outcome.resumed),
                  outcome.bits.c_str(), outcome.happened ? "" : "  it did not come to that",
                  outcome.damaged.empty() ? "" : ("  " + outcome.damaged).c_str());
      if (!outcome.said.empty()) std::printf("      %s\n", outcome.said.c_str());
      for (const std::string& text : outcome.wrong) std::printf("WRONG: %s\n", text.c_str());
    }
    std::fflush(stdout);
    std::ofstream(list_, std::ios::app) << lines << std::flush;
  }

  Options options_;
  int number_;
  std::string shared_;
  std::string list_;
  int max_hosts_ = 1;
  std::vector<Way> ways_;
  int happened_ = 0;
  bool broken_ = false;  ///< A case could not be made, or not be checked
};

/// The counts for a kind of fault.
struct Tally {
  std::vector<double> times;
  int wrong = 0;
};

/// @returns the exit code
int summary(const std::string& list, const Options& options) {
  std::map<std::string, Tally> kinds;
  std::map<std::string, int> bits;
  int happened = 0;
  int damaged = 0;
  int wrong = 0;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json fault = nlohmann::json::parse(line);
    Tally& tally = kinds[fault.at("kind")];
    if (!fault.at("wrong").empty()) ++tally.wrong, ++wrong;
    if (!fault.at("damaged").get<std::string>().empty()) ++damaged;
    ++bits[fault.at("bits")];
    if (!fault.at("happened").get<bool>()) continue;
    ++happened;
    tally.times.push_back(fault.at("gone_s"));
  }
  std::printf("\n%-28s %6s %10s %10s %6s\n", "kind", "faults", "median/s", "longest/s", "wrong");
  for (auto& [kind, tally] : kinds) {
    std::ranges::sort(tally.times);
    const bool none = tally.times.empty();
    std::printf("%-28s %6zu %10.2f %10.2f %6d\n", kind.c_str(), tally.times.size(),
                none ? 0.0 : tally.times[tally.times.size() / 2], none ? 0.0 : tally.times.back(),
                tally.wrong);
  }
  std::printf(
      "%d faults, seed %llu; %d checkpoints damaged on purpose; models of undisturbed runs: %d equal, %d "
      "unequal, %d not promised; %d wrong\n",
      happened, static_cast<unsigned long long>(options.seed), damaged, bits["equal"], bits["unequal"],
      bits["not promised"], wrong);
  const bool enough = options.replay != 0 || happened >= options.faults;
  if (!enough) std::printf("the time was not enough for %d faults\n", options.faults);
  return wrong == 0 && enough ? 0 : 1;
}

int soak(const Options& options) {
  const TemporaryFolder folder;
  const Result made = run(
      {FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "4000", "--output", folder.path("clicks.tsv")});
  if (made.exit_code != 0) throw std::runtime_error(made.errors);
  const std::string list = options.json.empty() ? folder.path("faults.jsonl") : options.json;
  fs::remove(list);
  std::printf("%-15s %-18s %s  %-44s %4s %7s %8s %8s\n", "seed", "strategy", "ranks/hosts", "fault, moment",
              "exit", "gone/s", "saved", "resumed");
  std::fflush(stdout);
  std::vector<pid_t> jobs;
  for (int number = 0; number < (options.replay != 0 ? 1 : options.jobs); ++number) {
    const pid_t job = fork();
    if (job < 0) throw std::runtime_error("fork failed");
    if (job == 0) {
      try {
        Job(options, number, folder.path(""), list).work();
        _exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "soak_faults: %s\n", error.what());
        _exit(2);
      }
    }
    jobs.push_back(job);
  }
  bool broken = false;
  for (const pid_t job : jobs) {
    int status = 0;
    waitpid(job, &status, 0);
    broken = broken || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return std::max(summary(list, options), broken ? 2 : 0);
}

}  // namespace
}  // namespace flotilla::test

int main(int argc, char** argv) {
  CLI::App program("Brings random faults");
  flotilla::test::Options options;
  flotilla::test::declare(program, options);
  CLI11_PARSE(program, argc, argv);
  try {
    flotilla::test::complete_environment();
    return flotilla::test::soak(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak_faults: %s\n", error.what());
    return 2;
  }
}
