// SPDX-License-Identifier: Apache-2.0
#include "src/train/inflated_copies.hpp"

#include <array>
#include <exception>
#include <span>

#include "src/data/clicks/click_files.hpp"
#include "src/data/data_file.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

namespace {

std::vector<std::string> click_files(const DataConfig& data, bool validation) {
  std::vector<std::string> paths;
  if (!validation) paths = find_click_files(data.train.path);
  if (data.validation.given)
    for (const std::string& path : find_click_files(data.validation.path)) paths.push_back(path);
  return paths;
}

}  // namespace

InflatedCopies::InflatedCopies(const DataConfig& data, bool validation, const mpi::Communicator& world,
                               const mpi::Communicator& host, const std::vector<mpi::Place>& places,
                               mpi::Watchdog& watchdog) {
  if (data.kind != DataKind::criteo && data.kind != DataKind::libsvm) return;
  std::exception_ptr failed;
  if (host.is_root() && host.size() > 1) {
    const mpi::CpuProgressScope working(watchdog, "inflating data");
    try {
      for (const std::string& path : click_files(data, validation)) {
        const File compressed = open_data_file(path);
        if (!GzipReader::recognises(compressed)) continue;
        files.push_back(inflated_copy(compressed));
        handles[path] = files.back().handle();
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
