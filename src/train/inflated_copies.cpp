// SPDX-License-Identifier: Apache-2.0
#include "src/train/inflated_copies.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <utility>

#include "src/data/arrays/numpy_files.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/idx_data.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

namespace {

/// The copies of the compressed files among those of a set, by path.
std::map<std::string, File> copies_of(const DataConfig& data, const DataSourceConfig& source) {
  const DataKind kind = data.kind;
  std::map<std::string, File> copies;
  if (kind == DataKind::numpy) {
    for (const std::string& path : array_files(data, source, &source == &data.train))
      if (path.ends_with(".npz"))
        copies.merge(inflated_arrays(path, {data.inputs_of(source), data.targets_of(source)}));
    return copies;
  }
  if (kind == DataKind::hdf5) return inflated_chunks(data, source, &source == &data.train);
  const auto is_compressed = [](const std::string& path) {
    return GzipReader::recognises(open_data_file(path));
  };
  if (kind == DataKind::idx) {
    const auto add = [&](const std::string& path, IdxKind content) {
      IdxFile idx = open_idx(path, content);
      if (!idx.storage.empty()) copies.emplace(path, std::move(idx.bytes));
    };
    add(source.images, IdxKind::images);
    if (!source.labels.empty()) add(source.labels, IdxKind::labels);
    return copies;
  }
  for (const std::string& path : find_data_files(source.path))
    if (is_compressed(path)) copies.emplace(path, inflated_samples(open_data_file(path)));
  return copies;
}

}  // namespace

InflatedCopies::InflatedCopies(const DataConfig& data, bool validation, const mpi::Communicator& world,
                               const mpi::Communicator& host, const std::vector<mpi::Place>& places,
                               mpi::Watchdog& watchdog) {
  constexpr std::array compressed = {DataKind::idx, DataKind::numpy, DataKind::hdf5};
  if (std::ranges::count(compressed, data.kind) == 0 && !data.has_clicks()) return;
  std::exception_ptr failed;
  if (host.is_root() && host.size() > 1) {
    const mpi::CpuProgressScope working(watchdog, "inflating data");
    try {
      std::vector<const DataSourceConfig*> sets;
      if (!validation) sets.push_back(&data.train);
      if (data.validation.given) sets.push_back(&data.validation);
      for (const DataSourceConfig* set : sets) {
        for (auto& [path, copy] : copies_of(data, *set)) {
          handles[path] = copy.handle();
          files.push_back(std::move(copy));
        }
      }
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
  }
  world.patient_barrier();  // inflating may take minutes
  agree(world, places, [&] {
    if (failed) std::rethrow_exception(failed);
  });
  std::array<std::int64_t, 1> count{std::ssize(handles)};
  host.broadcast(std::span<std::int64_t>(count));
  auto copy = handles.cbegin();
  for (std::int64_t i = 0; i < count[0]; ++i) {
    std::string path = host.is_root() ? copy->first : std::string();
    std::string handle = host.is_root() ? (copy++)->second : std::string();
    host.broadcast(path);
    host.broadcast(handle);
    handles[path] = handle;
  }
}

}  // namespace flotilla
