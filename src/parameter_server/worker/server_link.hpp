// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/roles.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"
#include "src/parameter_server/protocol/control_messages.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {

/// A worker's connection to the parameter servers, from the start of the job to its end. Collective with
/// serve(): the workers open, fill, leave and close, in this order and together; close() may come at any
/// time.
class ServerLink {
 public:
  /// @param places one per rank of the job
  ServerLink(const mpi::RoleCommunicators& roles, const Config& config, std::vector<mpi::Place> places);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  const mpi::RoleCommunicators& roles() const { return roles_; }
  const std::vector<mpi::Place>& places() const { return places_; }
  /// To be called before open(): sets the run's folder, into which servers write a failure.
  void set_folder(const std::string& folder) { folder_ = folder; }
  /// Sends the plan to the servers, which then wait for fill().
  void open(ServePlan plan);
  /// Sends worker 0's arrays, whatever the other workers pass: the header, statistics and parameters; then
  /// the optimizer's slots, of the parameters. Servers answer from now on. @param optimizer_steps taken so
  /// far
  void fill(std::span<const float> values, std::span<const std::span<const float>> slots,
            std::int64_t optimizer_steps);
  /// To be called before fill(): sets the files whose rows the servers load.
  void set_row_files(std::vector<std::string> files) { row_files_ = std::move(files); }
  /// Lets every server write its rows. Not collective; no other exchange may be in progress.
  /// @param paths of the parts, by server. @throws UserError if one of them cannot
  std::vector<CheckpointPart> save_rows(const std::vector<std::string>& paths, const CheckpointState& state);
  mpi::PushPullWorker& connection();
  /// Ends pushing and pulling. @returns the servers' reports, line by line
  std::vector<std::string> leave();
  /// Ends the job on the servers. @param failure empty: none
  void close(int exit_code, const std::string& failure);

  std::vector<int> missing_ranks() const;  ///< Servers that are waited for. Safe from another thread.
  std::vector<std::string> placement_lines() const;  ///< Valid after open(): the share of each server

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
