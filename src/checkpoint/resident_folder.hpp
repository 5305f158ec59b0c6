// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/files/run_lock.hpp"

namespace flotilla {

/// What a run's folder says of the state that its hosts keep in memory: the file `resident`, which is there
/// from the start of a training to its end in order.
struct ResidentRecord {
  std::string id;             ///< Identifies this start of the run, in the names of the folders in memory
  std::int64_t follows = -1;  ///< Step of the newest checkpoint in the run's folder; −1: none
  std::vector<std::string> hosts;  ///< Names of the hosts that keep it

  static std::string new_id();  ///< 16 random hexadecimal digits
  /// Nothing where the run keeps no state in memory. @throws UserError for a file that cannot be read
  static std::optional<ResidentRecord> read(const std::string& run);
  void write(const std::string& run) const;    ///< Atomically. @throws UserError
  static void remove(const std::string& run);  ///< Nothing if it is not there
};

/// A state in memory that may become a checkpoint.
struct ResidentState {
  std::string file{};
  std::int64_t step = -1;
  std::uint64_t checksum = 0;  ///< Checksum of the state and all values, equal on all hosts
  /// Why the run's folder lacks a part that belongs to it, once all hosts have saved theirs; empty: none is
  /// missing
  std::string missing{};
};

/// The state of a run in the memory of this host: /dev/shm/flotilla-USER-ID, a folder of checkpoints that
/// only its user can read, with the parts of this host's workers. Its pages outlive processes that are
/// killed, not the host.
class ResidentFolder {
 public:
  static constexpr const char* memory = "/dev/shm";

  explicit ResidentFolder(const std::string& id);
  /// @param run the run's folder, an absolute path
  /// @throws UserError if that fails, or if something has that name already
  void make(const std::string& run) const;
  bool is_there() const;
  const std::string& path() const { return path_; }
  /// Takes it over from processes that have ended, and waits for those that are exiting. @returns null where
  /// there is none, or another run, of which this one is a copy, has it: `lines` says so then
  std::unique_ptr<RunLock> take(std::vector<std::string>& lines) const;
  /// Copies the workers' parts of states that are newer than the checkpoints of `run` there, verified.
  /// Damaged ones are left out. @throws UserError if one cannot be written
  void save_parts(const std::string& run) const;
  /// The good states in it, the newest first. `damage` gets a line for each damaged one.
  std::vector<ResidentState> states(const std::string& run, std::vector<std::string>& damage) const;
  void remove() const;

  /// Removes the folders of this user and host that no process holds (RunLock) and whose run has another id
  /// by now, or is gone while the folder that held it is there, or which were not used for a day. @returns a
  /// line for each
  static std::vector<std::string> remove_abandoned();

 private:
  std::string why_abandoned(const std::string& id) const;

  std::string path_;
};

/// Why a run must not go on from its state of `step` in memory: its checkpoints are as new, or the one that
/// it followed was removed. Empty: it may.
std::string why_not_resident(const std::string& run, const ResidentRecord& record, std::int64_t step);

/// The run's checkpoint of that step; empty: it has none. @throws UserError if it is damaged
std::optional<ResidentState> state_of_step(const std::string& run, std::int64_t step);

/// Writes the state as an ordinary checkpoint of the run, verified; its parts are there
/// (ResidentFolder::save_parts).
/// @returns its path. @throws UserError
std::string save_resident_state(const ResidentState& state, const std::string& run);

}  // namespace flotilla
