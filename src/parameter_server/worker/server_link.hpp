// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/role_communicators.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"
#include "src/parameter_server/protocol/save_messages.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {

/// A worker's way to the parameter servers, from the start of the job to its end. Collective with serve():
/// the workers open, fill, leave and close, in this order and together; close() may come at any time.
class ServerLink {
 public:
  /// @param places one per rank of the job
  ServerLink(const mpi::RoleCommunicators& roles, const Config& config, std::vector<mpi::Place> places);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  const mpi::RoleCommunicators& roles() const { return roles_; }
  const std::vector<mpi::Place>& places() const { return places_; }
  /// Before open(): the run's folder, into which servers write a failure.
  void set_folder(const std::string& folder) { folder_ = folder; }
  /// What the servers are to hold. They are ready then to be filled.
  void open(ServePlan plan);
  /// Worker 0's arrays, whatever the others give: the header, statistics and parameters; then the optimizer's
  /// slots, of parameters. Servers answer from now on. @param optimizer_steps done
  void fill(std::span<const float> values, std::span<const std::span<const float>> slots,
            std::int64_t optimizer_steps);
  /// Before fill(): files whose rows the servers are to hold from the start.
  void set_row_files(std::vector<std::string> files) { row_files_ = std::move(files); }
  /// Not collective, while no other exchange is on its way: every server writes its rows.
  /// @param paths of the parts, by server. @throws UserError if one of them cannot
  std::vector<CheckpointPart> save_rows(const std::vector<std::string>& paths, const CheckpointState& state);
  mpi::PushPullWorker& connection();
  /// Nothing will be pushed or pulled any more. @returns what the servers have to say, line by line
  std::vector<std::string> leave();
  /// The end of the job for the servers too. @param failure empty: all went well
  void close(int exit_code, const std::string& failure);

  std::vector<int> missing_ranks() const;  ///< Servers that are waited for. Safe from another thread.
  std::vector<std::string> placement_lines() const;  ///< After open(): who owns how much

 private:
  std::vector<CheckpointPart> command(std::span<const SaveCommand> commands, std::string& failure);

  enum class Phase { closed, opened, serving, left };

  const mpi::RoleCommunicators& roles_;
  const Config& config_;
  std::vector<mpi::Place> places_;
  Phase phase_ = Phase::closed;
  std::string folder_;
  ServePlan plan_;
  std::optional<Placement> placement_;
  std::optional<mpi::PushPullWorker> connection_;
  std::vector<std::string> row_files_;
};

}  // namespace flotilla
