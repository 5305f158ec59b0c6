// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/train.hpp"
#include "tests/runs/program.hpp"
#include "tests/runs/small_data.hpp"

// Random decks over small data sets of all kinds, each checked (`flotilla train --check`) or trained for one
// step in a process that goes on with the next one. Two of three are decks that trained before with up to
// three keys redrawn, so that many train again. A deck may end with 0, 2 or 75 only: what ends otherwise, or
// does not end, is kept with its error text. Every fourth job has two ranks.
//   build/cpu/tests/runs/fuzz_decks --minutes 60 --seed 1 --findings /tmp/findings

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int cases_of_a_job = 150;
constexpr double patience_s = 300;
constexpr std::size_t max_kept = 400;
const std::string folder_word = "FUZZED_FOLDER";  ///< Stands for the fuzzer's folder in findings

struct Options {
  double minutes = 60;
  std::uint64_t seed = 1;
  std::string findings = "fuzz_decks";
  std::string replay{};  ///< A finding's deck; empty: none
  bool check = false;    ///< The replayed deck is checked only
  int ranks = 0;         ///< 0: two of them for each fourth job
  int resolved = 0;      ///< Decks to read back; 0: none
  std::string worker{};  ///< The folder of a job of the fuzzer; empty: this is the fuzzer
  std::int64_t first = 0;
  std::int64_t count = cases_of_a_job;
};

void send_to(int descriptor, const std::string& file) {
  const int opened = ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  ::dup2(opened, descriptor);
  ::close(opened);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The texts of decks that trained, in a folder that all jobs of the fuzzer share.
class GoodDecks {
 public:
  explicit GoodDecks(std::string folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
    for (const auto& file : fs::directory_iterator(folder_)) texts_.push_back(read_file(file.path()));
  }

  bool empty() const { return texts_.empty(); }
  DrawnDeck draw(Random& random) const { return deck_of(texts_.at(below(random, texts_.size()))); }

  /// Adds a deck, in the place of another one when there are `max_kept` of them.
  void keep(const std::string& text, Random& random) {
    const std::size_t at = texts_.size() < max_kept ? texts_.size() : below(random, max_kept);
    if (at == texts_.size()) texts_.emplace_back();
    texts_.at(at) = text;
    write_file(folder_ + cat("/", at, ".toml"), text);
  }

 private:
  std::string folder_;
  std::vector<std::string> texts_;
};

/// A deck drawn from scratch, or one that trained before with some keys redrawn.
std::string draw_text(Random& random, const OwnValue& own, const GoodDecks& good) {
  DrawnDeck deck;
  if (good.empty() || below(random, 3) == 0) {
    deck = random_deck(random, own,
                       {"model.depth", "data.image_size", "data.short_side", "data.targets", "data.inputs"});
  } else {
    deck = good.draw(random);
    redraw(deck, static_cast<int>(1 + below(random, 3)), random, own);
  }
  if (below(random, 20) > 0) make_good(deck, random, own);
  return text_of(deck);
}

/// Checks or trains one deck. @returns the exit code; does not return from what ends a job in disorder
int run_case(const Options& options, std::int64_t number, GoodDecks& good, const mpi::Communicator& world,
             FailureHandler& failure) {
  Random random(options.seed * 1000003 + static_cast<std::uint64_t>(number));
  const bool checks = options.replay.empty() ? below(random, 3) == 0 : options.check;
  const std::string path = options.worker + "/deck.toml";
  if (world.is_root()) {
    send_to(STDERR_FILENO, options.worker + "/errors");
    write_file(options.worker + "/case", cat(number, checks ? " --check\n" : "\n"));
    fs::remove_all(options.worker + "/run");
  }
  std::fesetenv(FE_DFL_ENV);  // a device may have let this thread take denormal values as zero
  if (world.is_root())
    write_file(path, options.replay.empty()
                         ? draw_text(random, fitting_values(options.worker + "/data", world.size()), good)
                         : replaced(read_file(options.replay), folder_word, options.worker));
  world.barrier();
  const std::vector<std::string> overrides = {"train.steps=1", "run.output=" + options.worker + "/run"};
  try {
    const int code = train({.deck = path, .overrides = overrides, .check = checks}, world, failure);
    if (world.is_root() && code == exit_done && !checks) good.keep(read_file(path), random);
    return code;
  } catch (const AgreedFailure& error) {
    if (world.is_root()) std::cerr << error.what() << std::endl;
    world.barrier();
    return error.exit_code;
  } catch (const std::exception& error) {
    failure.end_job(error);
  }
}

int work(const Options& options, int argc, char** argv) {
  send_to(STDOUT_FILENO, "/dev/null");
  mpi::Environment environment(argc, argv);
  const auto world = mpi::Communicator::world();
  FailureHandler failure(world.rank(), world.size(), mpi::host_name());
  failure.end_job_at_terminate();
  const KokkosScope kokkos;
  GoodDecks good(options.worker + "/good");
  for (std::int64_t number = options.first; number < options.first + options.count; ++number) {
    const int code = run_case(options, number, good, world, failure);
    if (world.is_root()) {
      std::ofstream(options.worker + "/codes", std::ios::app) << number << ' ' << code << '\n';
      if (code == exit_user_error)
        std::ofstream(options.findings + "/refused.txt", std::ios::app)
            << number << ": " << read_file(options.worker + "/errors");
    }
    if (code != exit_done && code != exit_user_error && code != exit_stopped) return code;
  }
  return 0;
}

/// Runs jobs one after another and keeps what they find.
class Fuzzer {
 public:
  Fuzzer(Options options, std::string program) : options_(std::move(options)), program_(std::move(program)) {
    options_.findings = fs::absolute(options_.findings);
    fs::create_directories(options_.findings);
    write_small_data(folder_.path("data"));
  }

  int run() {
    const auto end = Clock::now() + std::chrono::duration<double>(60 * options_.minutes);
    std::int64_t first = 0;
    const std::int64_t most = options_.replay.empty() ? cases_of_a_job : 1;
    for (int job = 0; Clock::now() < end; ++job) {
      const int ranks = options_.ranks > 0 ? options_.ranks : (job % 4 == 3 ? 2 : 1);
      // Open MPI 4.1 breaks when many communicators came and went on two ranks.
      first = run_job(first, ranks == 1 ? most : std::min<std::int64_t>(most, 40), ranks);
      if (!options_.replay.empty()) break;
    }
    std::cout << "cases by exit code:";
    for (const auto& [code, cases] : codes_) std::cout << "  " << code << ": " << cases;
    std::cout << "\nfindings: " << findings_ << std::endl;
    return findings_ == 0 ? 0 : 1;
  }

 private:
  /// @returns the first case that was not run
  std::int64_t run_job(std::int64_t first, std::int64_t count, int ranks) {
    fs::remove(folder_.path("codes"));
    std::vector<std::string> command = {program_,           "--worker",   folder_.path(),   "--first",
                                        cat(first),         "--count",    cat(count),       "--seed",
                                        cat(options_.seed), "--findings", options_.findings};
    if (!options_.replay.empty()) command.insert(command.end(), {"--replay", options_.replay});
    if (options_.check) command.emplace_back("--check");
    if (ranks > 1) command.insert(command.begin(), {FLOTILLA_MPIEXEC, "-n", cat(ranks)});
    Program job(command);
    // A job that hangs has no new case for so long.
    std::int64_t seen = -1;
    auto since = Clock::now();
    std::optional<Result> result;
    while (!(result = job.wait_for(1.0))) {
      const std::int64_t now = current();
      if (now != seen) since = Clock::now();
      seen = now;
      if (Clock::now() - since > std::chrono::duration<double>(patience_s)) break;
    }
    std::int64_t done = first;
    std::ifstream codes(folder_.path("codes"));
    std::int64_t number = 0;
    for (int code = 0; codes >> number >> code; done = number + 1) ++codes_[cat(code)];
    const bool all_good = result && result->exit_code == 0;
    if (all_good) return first + count;
    const std::string code = result ? cat(result->exit_code) : "hangs";
    const bool allowed =
        result && (result->exit_code == exit_user_error || result->exit_code == exit_stopped);
    if (done <= current()) ++codes_[code + " (ended the job)"];
    if (!allowed) keep(code, ranks, result ? result->errors : "");
    return current() + 1;
  }

  std::int64_t current() const {
    std::int64_t number = -1;
    std::ifstream(folder_.path("case")) >> number;
    return number;
  }

  void keep(const std::string& code, int ranks, const std::string& errors) {
    ++findings_;
    const std::string name = options_.findings + "/" + cat(current());
    const std::string said = read_file(folder_.path("errors"));
    write_file(name + ".toml", replaced(read_file(folder_.path("deck.toml")), folder_.path(), folder_word));
    write_file(name + ".txt", cat("ends with ", code, ", ", ranks, " ranks, case ",
                                  read_file(folder_.path("case")), said, errors));
    std::cout << current() << " ends with " << code << ": " << said.substr(0, said.find('\n')) << std::endl;
  }

  Options options_;
  std::string program_;
  TemporaryFolder folder_;
  std::map<std::string, std::int64_t> codes_;
  int findings_ = 0;
};

int fuzz_decks(int argc, char** argv) {
  Options options;
  CLI::App program("Random decks over small data sets: each may end with 0, 2 or 75 only");
  program.add_option("--minutes", options.minutes, "after which no job is started")
      ->check(CLI::PositiveNumber);
  program.add_option("--seed", options.seed, "of all cases");
  program.add_option("--findings", options.findings, "folder for the decks that end otherwise");
  program.add_option("--replay", options.replay, "the deck of a finding, once more")
      ->check(CLI::ExistingFile);
  program.add_flag("--check", options.check, "checks the replayed deck only");
  program.add_option("--ranks", options.ranks, "of all jobs; left out: one, and two for each fourth job");
  program.add_option(
      "--resolved", options.resolved,
      "instead: read so many random decks over all keys and ranges back from their resolved text");
  program.add_option("--worker", options.worker)->group("");
  program.add_option("--first", options.first)->group("");
  program.add_option("--count", options.count)->group("");
  CLI11_PARSE(program, argc, argv);
  if (options.resolved > 0) {
    Random random(options.seed);
    const int refused = load_random_decks(random, options.resolved);
    std::cout << "read back: " << options.resolved << ", not drawn: " << refused << std::endl;
    return 0;
  }
  if (!options.worker.empty()) return work(options, argc, argv);
  return Fuzzer(options, fs::absolute(argv[0])).run();
}

}  // namespace
}  // namespace flotilla::test

int main(int argc, char** argv) {
  return flotilla::test::fuzz_decks(argc, argv);
}
