// SPDX-License-Identifier: Apache-2.0
#include "src/train/shard_indexes.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
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
#include "src/observe/progress_line.hpp"
#include "src/train/machine.hpp"

namespace flotilla {

namespace {

/// The shards of the deck that have no index.
std::vector<std::string> shards_to_scan(const DataConfig& data, bool validation) {
  std::vector<std::string> shards;
  for (const DataSourceConfig* source : {&data.train, &data.validation}) {
    if ((source->path.empty() && source->has_labels()) || (validation && source == &data.train)) continue;
    try {
      for (std::string& shard : find_shards(data, *source))
        if (!is_there(index_path(shard))) shards.push_back(std::move(shard));
    } catch (const UserError&) {  // opening the data reports it
    }
  }
  return shards;
}

/// Path, length and text of the index; empty if the shard has mistakes.
std::string scanned(const std::string& shard) {
  try {
    MistakeList mistakes;
    const std::string text = scan_shard(open_data_file(shard), mistakes).text();
    return mistakes.empty() ? cat(shard, '\0', text.size(), '\0', text) : "";
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

void check_data_files_on_hosts(const Config& config, bool validation_only, const mpi::Communicator& world,
                               const std::vector<mpi::Place>& places) {
  agree(world, [&] {
    if (world.is_root()) check_data_files(config, validation_only);
  });
  agree(world, places, [&] {
    if (!world.is_root() && places[static_cast<std::size_t>(world.rank())].local_rank == 0)
      check_data_files(config, validation_only);
  });
}

std::map<std::string, std::string> scan_shards(const DataConfig& data, bool validation,
                                               const mpi::Communicator& world, mpi::Watchdog& watchdog) {
  std::map<std::string, std::string> indexes;
  if (!data.has_images()) return indexes;
  std::string mine;
  {
    const mpi::CpuProgressScope working(watchdog, "reading the headers of shards");
    const std::vector<std::string> shards = shards_to_scan(data, validation);
    std::vector<std::string> own;
    for (auto k = static_cast<std::size_t>(world.rank()); k < shards.size();
         k += static_cast<std::size_t>(world.size()))
      own.push_back(shards[k]);
    std::vector<std::string> texts(own.size());
    ProgressLine progress("reading the headers of shards", std::ssize(own), Amount::items);
    std::atomic<std::int64_t> done{0};
    run_on_threads(
        own.size(), static_cast<int>(std::min<std::int64_t>(data.threads, std::ssize(own))),
        [&](std::size_t k) {
          texts[k] = scanned(own[k]);
          ++done;
        },
        [&] { progress.at(done); });
    for (const std::string& text : texts) mine += text;
  }
  world.patient_barrier();  // scanning may take minutes
  for (const std::string& text : world.all_gather(mine)) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t path_end = text.find('\0', at);
      const std::size_t length_end = text.find('\0', path_end + 1);
      const auto length =
          static_cast<std::size_t>(std::stoull(text.substr(path_end + 1, length_end - path_end - 1)));
      indexes[text.substr(at, path_end - at)] = text.substr(length_end + 1, length);
      at = length_end + 1 + length;
    }
  }
  return indexes;
}

std::shared_ptr<const ImageList> read_image_list_once(const Config& config, const DatasetUse& use,
                                                      const Machine& machine) {
  const DataConfig& data = config.data;
  const DataSourceConfig& source = use.training ? data.train : data.validation_source();
  const bool listed = data.kind == DataKind::image_list || data.kind == DataKind::image_folder;
  if (!listed || source.path.empty()) return nullptr;
  require(use.images == nullptr, "the images of ", source.path, " are to be listed, and have been");
  const mpi::Communicator& workers = machine.workers;
  std::shared_ptr<const ImageList> images;
  std::int64_t found = 0;  // an image that worker 0 has
  agree(workers, [&] {
    const mpi::CpuProgressScope working(machine.watchdog, "listing images");
    if (!workers.is_root()) return;
    const std::int64_t classes = config.model.classes;
    images = list_images(data, source, classes == 0 ? any_classes : classes, use);
    while (found < images->size() && !is_file(images->path(found))) ++found;
  });
  std::string bytes = workers.is_root() ? images->serialised() : "";
  workers.broadcast(bytes);
  workers.broadcast(std::span(&found, 1));
  if (!workers.is_root()) images = std::make_shared<const ImageList>(ImageList::of_serialised(bytes));
  agree(workers, machine.places, [&] {
    if (machine.own_place().local_rank != 0 || found == images->size()) return;
    if (const std::string path = images->path(found); !is_file(path))
      throw UserError(cat(config::printable(path), ": is missing; every host needs the images"));
  });
  return images;
}

std::shared_ptr<const ClickLogs> read_clicks_together(const Config& config, const DatasetUse& use,
                                                      const mpi::Communicator& world,
                                                      const std::vector<mpi::Place>& places,
                                                      mpi::Watchdog& watchdog) {
  const DataConfig& data = config.data;
  const DataSourceConfig& source = use.training ? data.train : data.validation_source();
  const DataRequest request{data, source, config.model.classes, 0, use};
  const std::unique_ptr<const LineFormat> format = line_format(request);
  if (format == nullptr || source.path.empty()) return nullptr;
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
  if (!logs->mistake.empty()) return logs;
  std::string mine;
  {
    const mpi::CpuProgressScope working(watchdog, "reading click logs");
    mine = serialised(logs->scan(*format, world.rank(), world.size()));
  }
  world.patient_barrier();  // reading may take minutes
  std::vector<ClickPiece> pieces;
  for (const std::string& text : world.all_gather(mine)) add_serialised(text, pieces);
  try {
    logs->merge(std::move(pieces));
  } catch (const UserError& error) {
    logs->mistake = error.what();
  }
  return logs;
}

}  // namespace flotilla
