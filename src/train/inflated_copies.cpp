// SPDX-License-Identifier: Apache-2.0
#include "src/train/inflated_copies.hpp"

#include <array>
#include <exception>
#include <span>
#include <utility>

#include "src/data/data_reader.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

InflatedCopies::InflatedCopies(const DataConfig& data, bool validation, const mpi::Communicator& world,
                               const mpi::Communicator& host, const std::vector<mpi::Place>& places,
                               mpi::Watchdog& watchdog) {
  const auto inflate = reader_of(data.kind).inflate;
  const bool always = reader_of(data.kind).always_inflates;
  if (inflate == nullptr) return;
  std::exception_ptr failed;
  if (host.is_root() && (host.size() > 1 || always)) {
    const mpi::CpuProgressScope working(watchdog, "inflating data");
    try {
      std::vector<const DataSourceConfig*> sets;
      if (!validation) sets.push_back(&data.train);
      const DataSourceConfig* const second = &data.validation_source();
      if (data.has_validation() && (validation || second != &data.train)) sets.push_back(second);
      for (const DataSourceConfig* set : sets) {
        const DatasetUse use{.training = set == &data.train && !validation};
        for (auto& [path, copy] : inflate({.data = data, .source = *set, .use = use})) {
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
