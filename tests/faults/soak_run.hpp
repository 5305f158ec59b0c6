// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tests/faults/soak_case.hpp"
#include "tests/faults/virtual_hosts.hpp"

namespace flotilla::test {

/// The folders and files of the runs of a case.
struct SoakPlace {
  std::string output{};                 ///< The run's folder, empty or not there yet
  std::string temporary{};              ///< TMPDIR of the run: nothing may stay there
  std::string disk{};                   ///< A small disk on which the output lies; empty: a large one
  std::string fired{};                  ///< File in which a call that fails records that it did
  const VirtualHosts* hosts = nullptr;  ///< Absent: this machine
};

/// mpirun … flotilla train … of the case with run.output = `output`. @param fault which the ranks bring about
/// themselves: a call that fails, say; absent: none
Texts soak_command(const SoakCase& one, const SoakPlace& place, const std::string& output, const Texts& more,
                   const Fault* fault);

/// The smallest multiple of 40 (checkpoints, and periods of local SGD) that is not below `step`.
std::int64_t comparable_step(std::int64_t step);

/// Runs that were left alone, each made once and kept in a folder that several processes may share.
class References {
 public:
  explicit References(std::string folder) : folder_(std::move(folder)) {}

  /// A run's folder after 40 steps, to copy.
  std::string beginning(const SoakCase& one, const SoakPlace& place) const;
  /// A hash of the bits of the model after `step`, which is a comparable_step.
  std::uint64_t model(const SoakCase& one, const SoakPlace& place, std::int64_t step) const;
  /// Whether a second run of the kind has those bits, too.
  bool repeats(const SoakCase& one, const SoakPlace& place, std::int64_t step) const;

 private:
  std::string made(const std::string& name, const SoakCase& one, const SoakPlace& place,
                   const Texts& more) const;

  std::string folder_;
};

/// A hash of the bits of the model that a run ended with.
std::uint64_t checksum_of_model(const std::string& run_folder);

}  // namespace flotilla::test
