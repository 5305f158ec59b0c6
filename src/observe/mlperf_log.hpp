// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace flotilla {

/// Values of MLPerf's keys about a run ("global_batch_size", 256), in order. std::monostate: it has none.
using MlperfFacts =
    std::vector<std::pair<std::string, std::variant<std::monostate, std::int64_t, double, std::string>>>;

/// mlperf.log: the events of a run in the lines that the compliance checker of MLCommons' package
/// mlperf-logging reads (docs/mlperf.md). A block is what is trained between two validations. The file is
/// written whole at each validation; where that fails, the lines are kept and written at the next one. A run
/// that is resumed goes on in it, without what it held of later steps; one that has reached its target adds
/// nothing, where it is started again.
class MlperfLog {
 public:
  /// @param resumed_step continues the existing file, if any, after this step; 0: starts a new file
  /// @param epochs done so far
  MlperfLog(std::string path, std::int64_t resumed_step, std::int64_t epochs);

  /// Initialisation, which began `age_s` seconds ago, the facts, and the start of the run; nothing where the
  /// file that goes on holds them.
  /// @throws UserError if the file cannot be written
  void run_starts(const MlperfFacts& facts, double age_s);
  /// @param epochs begun so far  @param step done so far; a validation that the file holds is not added again
  void validation_starts(std::int64_t epochs, std::int64_t step);
  void validation_stops(double accuracy);
  /// To be called at the end of all training.
  void run_stops(bool reached_target);
  void write() const;  ///< @throws UserError if the file cannot be written

 private:
  enum class Kind { point, begin, end };
  struct Event;
  static std::string line_of(const Event& event);
  void add(const Event& event);
  void take_over(const std::string& text, std::int64_t resumed_step);
  void try_to_write() const;

  std::string path_;
  std::string text_;
  bool ended_ = false;               ///< Nothing is added any more
  bool is_repeated_ = false;         ///< The validation under way is in the file
  std::int64_t step_ = -1;           ///< Step of the last validation in the file
  std::string stop_;                 ///< run_stop of an attempt after which nothing was added
  std::int64_t epochs_;              ///< Validated or, at the start, done
  std::int64_t block_begin_ms_ = 0;  ///< Since 1970
};

}  // namespace flotilla
