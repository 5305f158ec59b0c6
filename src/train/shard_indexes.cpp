// SPDX-License-Identifier: Apache-2.0
#include "src/train/shard_indexes.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/clicks/click_dataset.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/run_on_threads.hpp"
#include "src/data/shards/shard_images.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/files/folders.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

/// The index of a shard; empty if it has mistakes, which opening the data reports.
std::string scanned(const std::string& shard) {
  try {
    MistakeList mistakes;
    std::string index = read_index(shard, mistakes).text();
    if (mistakes.empty()) return index;
  } catch (const UserError&) {
  }
  return {};
}

/// What read_together() gets, and its parts: each is collective, and sets a member of `use`.
struct CommonReading {
  const Config& config;
  DatasetUse& use;
  const mpi::Communicator& world;
  const std::vector<mpi::Place>& places;
  mpi::Watchdog& watchdog;
  const DataConfig& data = config.data;
  const DataSourceConfig& source = use.training ? data.train : data.validation_source();

  void find_files() const;
  void scan_shards() const;
  void list_images() const;
  void read_clicks() const;
};

/// Worker 0 looks for the files of the source.
void CommonReading::find_files() const {
  const auto find = reader_of(data.kind).find_files;
  if (find == nullptr || (source.path.empty() && source.has_labels())) return;
  FoundFiles found;
  agree(world, [&] {
    const mpi::CpuProgressScope working(watchdog, "looking for the files of the data");
    if (world.is_root()) found = find({data, source, config.model.classes, 0, use});
  });
  broadcast_packed(found, world);
  use.files = std::make_shared<const FoundFiles>(std::move(found));
}

/// Reads the index of each shard on one rank, or its headers where it has none; then one rank of each host
/// looks for the shards.
void CommonReading::scan_shards() const {
  if (!data.has_images() || use.files == nullptr || use.files->paths.empty()) return;
  const std::vector<std::string>& shards = use.files->paths;
  std::vector<std::string> mine;
  {
    const mpi::CpuProgressScope working(watchdog, "reading the indexes of shards");
    const auto first = static_cast<std::size_t>(world.rank());
    const auto ranks = static_cast<std::size_t>(world.size());
    mine.resize((shards.size() + ranks - 1 - first) / ranks);
    ProgressLine progress("reading the indexes of shards", std::ssize(mine), Amount::items);
    std::atomic<std::int64_t> done{0};
    run_on_threads(
        mine.size(), static_cast<int>(std::min<std::int64_t>(data.threads, std::ssize(mine))),
        [&](std::size_t k) {
          mine[k] = scanned(shards[first + k * ranks]);
          ++done;
        },
        [&] { progress.at(done); });
  }
  world.patient_barrier();  // scanning may take minutes
  const auto all = gather_packed(mine, world);
  agree(world, places, [&] {
    for (std::size_t k = 0; k < shards.size(); ++k) {
      const std::string& index = all[k % all.size()][k / all.size()];
      if (index.empty()) continue;
      use.shard_indexes[shards[k]] = index;
      if (is_first_of_host(places, world.rank())) open_data_file(shards[k]);
    }
  });
}

/// Worker 0 reads the list or the folder of images, and the others are told. Where another host lacks the
/// images it fails, naming the host.
void CommonReading::list_images() const {
  const bool listed = data.kind == DataKind::image_list || data.kind == DataKind::image_folder;
  if (!listed || source.path.empty()) return;
  std::shared_ptr<const ImageList> images;
  std::int64_t found = 0;  // an image that worker 0 has
  agree(world, [&] {
    const mpi::CpuProgressScope working(watchdog, "listing images");
    if (!world.is_root()) return;
    const std::int64_t classes = config.model.classes;
    images = flotilla::list_images(data, source, classes == 0 ? any_classes : classes, use);
    while (found < images->size() && !is_file(images->path(found))) ++found;
  });
  std::string bytes = world.is_root() ? packed(*images) : "";
  world.broadcast(bytes);
  if (!world.is_root()) images = std::make_shared<const ImageList>(unpacked<ImageList>(bytes));
  world.broadcast(std::span(&found, 1));
  agree(world, places, [&] {
    if (!is_first_of_host(places, world.rank()) || found == images->size()) return;
    if (const std::string path = images->path(found); !is_file(path))
      throw UserError(cat(config::printable(path), ": is missing; every host needs the images"));
  });
  use.images = images;
}

/// Worker 0 finds and recognises the click logs; then each rank opens them and reads its share of their
/// bytes. Where a host lacks a file it fails, naming the host.
void CommonReading::read_clicks() const {
  const DataRequest request{data, source, config.model.classes, 0, use};
  const std::unique_ptr<const LineFormat> format = line_format(request);
  if (format == nullptr || source.path.empty()) return;
  auto logs = std::make_shared<ClickLogs>();
  std::string listed;
  agree(world, [&] {
    const mpi::CpuProgressScope working(watchdog, "looking at click logs");
    if (!world.is_root()) return;
    try {
      *logs = ClickLogs::open(click_opening(request, *format));
    } catch (const UserError& error) {
      logs->mistake = error.what();
    }
    listed = logs->listed();
  });
  world.broadcast(listed);
  agree(world, places, [&] {
    const mpi::CpuProgressScope working(watchdog, "opening click logs");
    if (!world.is_root()) *logs = ClickLogs::of_listed(listed, use.inflated);
  });
  use.clicks = logs;
  if (!logs->mistake.empty()) return;
  std::vector<ClickPiece> mine;
  {
    const mpi::CpuProgressScope working(watchdog, "reading click logs");
    mine = logs->scan(*format, world.rank(), world.size());
  }
  world.patient_barrier();  // reading may take minutes
  std::vector<ClickPiece> pieces;
  for (auto& of_rank : gather_packed(mine, world)) std::ranges::move(of_rank, std::back_inserter(pieces));
  try {
    logs->merge(std::move(pieces));
  } catch (const UserError& error) {
    logs->mistake = error.what();
  }
}

}  // namespace

bool is_first_of_host(const std::vector<mpi::Place>& places, int rank) {
  const int host = places[static_cast<std::size_t>(rank)].host_index;
  return std::ranges::find(places, host, &mpi::Place::host_index) - places.begin() == rank;
}

void check_data_files_on_hosts(const Config& config, bool validation_only, const mpi::Communicator& world,
                               const std::vector<mpi::Place>& places) {
  agree(world, [&] {
    if (world.is_root()) check_data_files(config, validation_only);
  });
  agree(world, places, [&] {
    if (!world.is_root() && is_first_of_host(places, world.rank())) check_data_files(config, validation_only);
  });
}

void read_together(const Config& config, DatasetUse& use, const mpi::Communicator& world,
                   const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
  use.files = nullptr;
  use.shard_indexes.clear();
  use.images = nullptr;
  const CommonReading reading{config, use, world, places, watchdog};
  reading.find_files();
  reading.scan_shards();
  reading.list_images();
  if (use.clicks == nullptr) reading.read_clicks();
}

}  // namespace flotilla
