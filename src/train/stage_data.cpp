// SPDX-License-Identifier: Apache-2.0
#include "src/train/stage_data.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/data/staging/stage_files.hpp"
#include "src/data/staging/stage_plan.hpp"
#include "src/job/failure.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/shard_indexes.hpp"

namespace flotilla {

namespace {

constexpr double between_lines_s = 10.0;
constexpr std::int64_t min_threads = 4;  // small files wait for a network file system most of the time

/// Collective. The list that rank 0 makes.
StagePlan plan_on_root(const Config& config, const mpi::Communicator& workers,
                       const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
  const auto listing = [&] { watchdog.beat("listing data to stage", -1); };
  listing();
  check_data_files_on_hosts(config, false, workers, places);
  StagePlan plan;
  agree(workers, [&] {
    if (workers.is_root()) plan = plan_staging(config.data, config.model.classes, listing);
  });
  std::string text = workers.is_root() ? plan.text() : "";
  workers.broadcast(text);
  return workers.is_root() ? plan : StagePlan::of_text(text);
}

Staging copy_here(const StagePlan& plan, const Config& config, const std::string& host, bool speaks,
                  mpi::Watchdog& watchdog) {
  double spoke_s = seconds(trace::now_ns());
  std::int64_t seen = -1;
  ProgressLine progress("staging data", plan.bytes(), Amount::bytes);
  const auto report = [&](std::int64_t done, std::int64_t all) {
    if (done != seen) watchdog.beat("staging data", -1);
    seen = done;
    progress.at(done);
    if (!speaks || Console::of_process().columns() > 0 ||
        seconds(trace::now_ns()) - spoke_s < between_lines_s)
      return;
    spoke_s = seconds(trace::now_ns());
    Console::of_process().line(
        fmt::format("staging      {} of {} on {}", bytes_text(done), bytes_text(all), host),
        Message::progress);
  };
  return stage_files(
      plan, config.data.stage_to,
      {.threads = static_cast<int>(std::max(min_threads, config.data.threads)), .progress = report});
}

/// Collective. Ranks that see another folder of this name than the rank that copied for their host, or none.
std::vector<std::int64_t> ranks_elsewhere(const std::string& folder, const mpi::Communicator& workers,
                                          const std::vector<mpi::Place>& places) {
  struct stat seen {};
  std::array<std::int64_t, 2> mine{-1, -1};
  if (::stat(folder.c_str(), &seen) == 0)
    mine = {static_cast<std::int64_t>(seen.st_dev), static_cast<std::int64_t>(seen.st_ino)};
  const std::vector<std::int64_t> all = workers.all_gather(std::span<const std::int64_t>(mine));
  std::vector<std::int64_t> elsewhere;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto first =
        std::ranges::find(places, places[rank].host_index, &mpi::Place::host_index) - places.begin();
    const auto file_of = [&](std::size_t of) { return std::pair(all[2 * of], all[2 * of + 1]); };
    if (file_of(rank) != file_of(static_cast<std::size_t>(first)))
      elsewhere.push_back(static_cast<std::int64_t>(rank));
  }
  return elsewhere;
}

}  // namespace

std::string describe(const Staged& staged) {
  std::string text = cat(staged.files, staged.files == 1 ? " file, " : " files, ", bytes_text(staged.bytes),
                         ", in ", staged.folder);
  if (staged.copying_hosts == 0) return text + ", where all were" + staged.left_out;
  if (staged.copied_bytes < staged.bytes) text += cat(": ", bytes_text(staged.copied_bytes));
  text += staged.copied_bytes < staged.bytes ? " of them copied" : ": copied";
  if (staged.hosts > 1) text += cat(" to ", staged.copying_hosts, " of ", staged.hosts, " hosts");
  return text + fmt::format(" in {:.1f} s", staged.seconds) + staged.left_out;
}

StagedData stage_data(const Config& config, const mpi::Communicator& workers,
                      const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
  const double begin = seconds(trace::now_ns());
  const StagePlan plan = plan_on_root(config, workers, places, watchdog);
  const std::string folder = config.data.stage_to + "/" + plan.name();
  bool copies = is_first_of_host(places, workers.rank());
  Staging done;
  const auto copy_if = [&](bool mine) {
    agree(workers, places, after_long_work(workers, [&] {
            if (mine)
              done = copy_here(plan, config, places[static_cast<std::size_t>(workers.rank())].host,
                               workers.is_root(), watchdog);
          }));
  };
  copy_if(copies);
  if (const std::vector<std::int64_t> others = ranks_elsewhere(folder, workers, places); !others.empty()) {
    if (workers.is_root())
      print_error_line(cat("flotilla: warning: data.stage_to = ", config.data.stage_to,
                           " is another folder for ", others.size(), others.size() == 1 ? " rank" : " ranks",
                           " than for the first of the host, as in a container of its own: each copies for "
                           "itself"));
    const bool elsewhere = std::ranges::count(others, workers.rank()) > 0;
    copy_if(elsewhere);
    copies = copies || elsewhere;
  }
  const std::array<std::int64_t, 4> mine{copies ? 1 : 0, done.copied_files, done.copied_bytes,
                                         static_cast<std::int64_t>(done.checksum)};
  const std::vector<std::int64_t> all = workers.all_gather(std::span<const std::int64_t>(mine));
  Staged facts{.folder = folder,
               .files = std::ssize(plan.files),
               .bytes = plan.bytes(),
               .seconds = seconds(trace::now_ns()) - begin,
               .left_out = plan.left_out};
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto host = std::span(all).subspan(rank * mine.size(), mine.size());
    if (host[0] == 0) continue;
    ++facts.hosts;
    if (host[1] > 0) ++facts.copying_hosts;
    facts.copied_bytes = std::max(facts.copied_bytes, host[2]);
    if (host[3] != all[3])
      throw AgreedFailure(
          cat("the data staged on ", places[rank].host, " are not those on ", places.front().host,
              ", though names, sizes and times are equal: give all hosts the same files, and remove ", folder,
              " where they are wrong"),
          exit_user_error);
  }
  return {.data = staged_data(config.data, folder), .facts = facts};
}

}  // namespace flotilla
