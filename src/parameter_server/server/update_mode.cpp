// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/update_mode.hpp"

#include "src/parameter_server/server/async_updates.hpp"
#include "src/parameter_server/server/sync_updates.hpp"

namespace flotilla {

UpdateMode::UpdateMode(const Parts& parts)
    : parts_(parts), awaited_(static_cast<std::size_t>(parts.workers)) {}

void UpdateMode::answer_rows(const mpi::WorkerRequest& request) {
  if (request.head.reply_bytes == 0) return;
  const std::span<std::byte> room = parts_.requests.reply_room(request.worker);
  parts_.rows.answer(request.payload, room);
  parts_.requests.answer_payload(request.worker, room);
}

std::vector<int> UpdateMode::missing_workers() const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < awaited_.size(); ++i)
    if (awaited_[i].load(std::memory_order_relaxed)) missing.push_back(static_cast<int>(i));
  return missing;
}

std::unique_ptr<UpdateMode> make_update_mode(const UpdateMode::Parts& parts) {
  if (parts.config.server()->mode == ServerMode::sync) return std::make_unique<SyncUpdates>(parts);
  return std::make_unique<AsyncUpdates>(parts);
}

}  // namespace flotilla
