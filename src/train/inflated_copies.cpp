// SPDX-License-Identifier: Apache-2.0
#include "src/train/inflated_copies.hpp"

#include <utility>

#include "src/data/data_reader.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"

namespace flotilla {

InflatedCopies::InflatedCopies(const DataConfig& data, bool validation, const mpi::Communicator& world,
                               const mpi::Communicator& host, const std::vector<mpi::Place>& places,
                               mpi::Watchdog& watchdog) {
  const auto inflate = reader_of(data.kind).inflate;
  const bool always = reader_of(data.kind).always_inflates;
  if (inflate == nullptr) return;
  agree(world, places, after_long_work(world, [&] {
          if (!host.is_root() || (host.size() == 1 && !always)) return;
          const mpi::CpuProgressScope working(watchdog, "inflating data");
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
        }));
  std::vector<std::pair<std::string, std::string>> told(handles.begin(), handles.end());
  broadcast_packed(told, host);
  handles = {told.begin(), told.end()};
}

}  // namespace flotilla
