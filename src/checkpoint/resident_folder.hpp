// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flotilla {

/// What a run's folder says of the state that its hosts keep in memory: the file `resident`, which is there
/// from the start of a training to its end in order.
struct ResidentRecord {
  std::string id;                  ///< Of this start of the run, in the names of the folders in memory
  std::int64_t follows = -1;       ///< Step of the newest checkpoint in the run's folder; −1: none
  std::vector<std::string> hosts;  ///< Names of the hosts that keep it

  static std::string new_id();  ///< 16 random hexadecimal digits
  /// Nothing where the run keeps no state in memory. @throws UserError for a file that cannot be read
  static std::optional<ResidentRecord> read(const std::string& run);
  void write(const std::string& run) const;    ///< Atomically. @throws UserError
  static void remove(const std::string& run);  ///< Nothing if it is not there
};

/// The state of a run in the memory of this host: /dev/shm/flotilla-USER-ID, a folder of checkpoints that
/// only its user can read. Its pages outlive processes that are killed, not the host.
class ResidentFolder {
 public:
  static constexpr const char* memory = "/dev/shm";

  explicit ResidentFolder(const std::string& id);
  /// @param run the run's folder, an absolute path
  /// @throws UserError if that fails, or if something has that name already
  void make(const std::string& run) const;
  bool is_there() const;
  const std::string& path() const { return path_; }
  /// The newest good checkpoint in it; empty: none. `damage` gets a line for each damaged one.
  std::optional<std::string> newest(std::vector<std::string>& damage) const;
  void remove() const;

  /// Removes the folders of this user and host that no process holds (RunLock) and whose run has another id
  /// by now, or is gone while the folder that held it is there, or which were not used for a day. @returns a
  /// line for each
  static std::vector<std::string> remove_abandoned();

 private:
  std::string why_abandoned(const std::string& id) const;

  std::string path_;
};

/// A state in memory that may become a checkpoint.
struct ResidentState {
  std::string file;  ///< Its path; empty: there is none
  std::int64_t step = -1;
  std::uint64_t checksum = 0;  ///< Of the state and all values, equal on all hosts
};

/// Reads what is needed to choose among hosts. @throws UserError for a file that is damaged
ResidentState resident_state_of(const std::string& file);

/// Why a run must not go on from its state of `step` in memory: its checkpoints are as new, or the one that
/// it followed was removed. Empty: it may.
std::string why_not_resident(const std::string& run, const ResidentRecord& record, std::int64_t step);

/// The run's checkpoint of the same step; empty: it has none. @throws UserError if it is damaged
std::optional<ResidentState> checkpoint_of_same_step(const std::string& run, const ResidentState& state);

/// Writes the state as an ordinary checkpoint of the run, verified. @returns its path. @throws UserError
std::string save_resident_state(const ResidentState& state, const std::string& run);

}  // namespace flotilla
