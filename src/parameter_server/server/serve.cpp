// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/serve.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "src/job/devices.hpp"
#include "src/parameter_server/protocol/control_messages.hpp"
#include "src/parameter_server/protocol/row_placement.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "src/parameter_server/server/shard.hpp"
#include "src/parameter_server/server/update_mode.hpp"

namespace flotilla {

namespace {

/// Executes the commands of a worker to this server (control_messages.hpp). Errors are part of the reply and
/// are not thrown.
class CommandHandler {
 public:
  CommandHandler(RowStore& rows, mpi::PushPullServer& requests) : rows_(rows), requests_(requests) {}
  void carry_out(const mpi::WorkerRequest& request);

 private:
  RowStore& rows_;
  mpi::PushPullServer& requests_;
  std::optional<RowSave> save_;  ///< Complete but not renamed yet
};

void CommandHandler::carry_out(const mpi::WorkerRequest& request) {
  SaveReply reply;
  try {
    const SaveCommand command = save_command_from(
        std::string(reinterpret_cast<const char*>(request.payload.data()), request.payload.size()));
    if (!command.path.empty()) {
      save_.reset();
      reply.part = save_.emplace(rows_, command.path, command.state).part();
    } else {
      if (save_ && !command.drop) save_->give_name();
      save_.reset();
    }
  } catch (const std::exception& error) {
    save_.reset();
    reply.error = text_of(error);
  }
  const std::string text = to_text(reply);
  requests_.answer_payload(request.worker, std::as_bytes(std::span(text)));
  requests_.release(request);
}

/// Collective over the servers. Each file is read once: where there is one for each server, by that server,
/// otherwise by any of them for all.
void load_row_files(const std::vector<std::string>& paths, RowStore& rows, const mpi::Communicator& servers,
                    mpi::Watchdog& watchdog) {
  const mpi::CpuProgressScope working(watchdog, "reading rows");
  const int count = servers.size();
  const auto is_own = [&](std::uint64_t key) { return server_of(key, count) == servers.rank(); };
  if (std::ssize(paths) == count) {
    const std::string& own = paths[static_cast<std::size_t>(servers.rank())];
    RowFileReader file(own);
    load_rows(rows, file, own, is_own);
    return;
  }
  for (std::size_t k = 0; k < paths.size(); ++k) {
    const int reader = static_cast<int>(k) % count;
    SharedRows file(servers.rank() == reader ? std::make_unique<RowFileReader>(paths[k]) : nullptr, reader,
                    servers, RowState::read);
    load_rows(rows, file, paths[k], is_own);
  }
}

/// Collective. Worker 0's values of all arrays, piece by piece: each server takes its own; and the rows of
/// the files that it names.
void fill(Shard& shard, RowStore& rows, const mpi::RoleCommunicators& roles, const ServePlan& plan,
          mpi::Watchdog& watchdog) {
  const auto head = nlohmann::json::parse(broadcast_control(roles, {}).content);
  load_row_files(head.at("row_files").get<std::vector<std::string>>(), rows, roles.same_role(), watchdog);
  shard.optimizer().set_steps(head.at("optimizer_steps").get<std::int64_t>());
  const auto size = static_cast<std::size_t>(plan.leading + plan.layout.size());
  std::vector<float> piece(std::min(fill_piece, size));
  for (std::int64_t number = 0; number < head.at("arrays").get<std::int64_t>(); ++number) {
    for (std::size_t begin = 0; begin < size; begin += fill_piece) {
      const auto values = std::span(piece).first(std::min(fill_piece, size - begin));
      broadcast_piece(roles, values);
      shard.load(number, begin, values);
    }
  }
}

/// Allocates in memory that workers of this host can read, if there is such memory, otherwise on the device.
Storage room_for(const mpi::ServerShare& share, std::span<float> shared, Device& device) {
  if (shared.empty()) return device.memory().allocate(share.values());
  return {shared.data(), shared.size(), [](float* /*the window's*/) {}};
}

}  // namespace

int serve(const mpi::RoleCommunicators& roles, const Config& config, const std::vector<mpi::Place>& places,
          FailureHandler& failure, mpi::Watchdog& watchdog) {
  const std::vector<int> workers = roles.table().ranks(mpi::Role::worker);
  const std::vector<int> servers = roles.table().ranks(mpi::Role::server);
  const int index = roles.mine().index;
  watchdog.beat("waiting for the workers to begin", -1);
  const ServePlan plan = plan_from(broadcast_control(roles, {}).content);
  const Placement placement = place(plan, *config.server(), static_cast<int>(servers.size()));
  const mpi::ServerShare share = shares_of(plan, placement, servers)[static_cast<std::size_t>(index)];

  failure.set_folder(plan.folder);
  return end_job_on_failure(failure, [&] {
    DeviceConfig on_host = config.device;
    on_host.kind = DeviceKind::cpu;
    const std::unique_ptr<Device> device = make_device(
        on_host, Precision::float32, places[static_cast<std::size_t>(roles.all().rank())], 0, false);
    mpi::PushPullServer requests(roles.all(), workers, share.values(), wires_of(config),
                                 {.copies = config.server()->mode != ServerMode::sync, .parts = true});
    Shard shard(*device, servers_optimizer(config), {plan, placement, index, share},
                room_for(share, requests.shared_values(), *device));
    RowStore rows(config);
    const auto make_mode = config.server()->mode == ServerMode::sync ? make_sync_updates : make_async_updates;
    const auto mode = make_mode({.shard = shard,
                                 .rows = rows,
                                 .requests = requests,
                                 .servers = roles.same_role(),
                                 .config = config,
                                 .micro_steps = plan.micro_steps,
                                 .workers = plan.workers});
    CommandHandler commands(rows, requests);
    const mpi::MissingRanks missing(watchdog, [&] {
      std::vector<int> ranks;
      for (const int worker : mode->missing_workers())
        ranks.push_back(workers[static_cast<std::size_t>(worker)]);
      return ranks;
    });
    watchdog.beat("waiting for the model", 0);
    fill(shard, rows, roles, plan, watchdog);
    watchdog.beat("waiting for a worker", 0);
    while (const auto request = requests.next()) {
      failure.set_step(request->head.step);
      if (request->head.kind == mpi::RequestKind::command) {
        const mpi::CpuProgressScope working(watchdog, "saving rows", request->head.step);
        commands.carry_out(*request);
      } else {
        watchdog.beat("updating", request->head.step);
        mode->take(*request);
      }
      watchdog.beat("waiting for a worker", request->head.step);
    }
    watchdog.beat("waiting for the end", mode->updates());
    std::string lines;
    for (const std::string& line : mode->report()) lines += line + "\n";
    gather_texts(roles, lines);
    return broadcast_control(roles, {}).exit_code;
  });
}

}  // namespace flotilla
