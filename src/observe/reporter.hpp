// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/observe/metrics.hpp"

namespace flotilla {

/// The identities of data sets (identity_of), by the deck's names: "data.train" → "2000 samples, xxh3 …".
using DataIdentities = std::map<std::string, std::string>;

/// One line of metrics.jsonl each; the schema is in observe/metrics_lines.cpp and docs/metrics.md. Names are
/// the JSON keys. Accuracies lie in [0, 1].
struct StartReport {
  std::string deck{};
  std::int64_t workers = 1;
  std::int64_t hosts = 1;
  std::int64_t steps = 0;  ///< Total at the end: steps done and those that remain with this batch
  std::int64_t steps_per_epoch = 0;
  std::int64_t first_step = 0;  ///< > 0 after a resume
  std::int64_t global_batch_size = 0;
  std::int64_t parameters = 0;
  std::string device{};
  std::string all_reduce{};
  DataIdentities data{};                 ///< "data.train" and "data.validation" are written
  std::optional<double> network_gb_s{};  ///< Median of the links; with several hosts, as are the next three
  std::optional<double> network_latency_us{};
  std::optional<double> slowest_link_gb_s{};
  std::optional<std::string> slowest_link{};  ///< Names of two hosts
};
struct StepReport {
  std::int64_t step = 0;  ///< Steps done, 1 after the first
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< Number in the epoch, 1 for the first: Sharding::batch_before
  double loss = 0.0;       ///< Mean over workers
  double learning_rate = 0.0;
  double samples_per_s =
      0.0;  ///< All workers, since the last report, without validation, stalls and the first 10 steps
  double step_s = 0.0;          ///< A step, mean since the last report; so are the next six
  double exposed_comm_s = 0.0;  ///< Waiting for communication
  double input_wait_s = 0.0;    ///< Waiting for the loader
  double forward_s = 0.0;       ///< Time of this rank, as are the next two
  double backward_s = 0.0;
  double optimizer_s = 0.0;           ///< 0 where servers run the optimizer
  std::int64_t sent_bytes = 0;        ///< Bytes sent by this rank
  std::int64_t memory_bytes = 0;      ///< Resident memory of this rank
  std::optional<double> loss_mean{};  ///< Mean loss of the steps since the last report
  std::optional<std::int64_t> period{};
  std::optional<double> staleness{};   ///< Updates of servers between pull and push, mean over the workers
  std::optional<double> loss_scale{};  ///< Loss scale of this rank from now on; in float16, as is the next
  std::optional<std::int64_t> skipped_steps{};
  std::optional<double> accuracy_top1{};
  std::optional<double> accuracy_top5{};
  std::optional<double> auc{};  ///< For a model that predicts clicks, as is the next
  std::optional<double> batch_auc{};
  std::optional<double> wait_s{};     ///< Wait for other workers in a step; absent with one, as the next six
  std::optional<double> compute_s{};  ///< A step's computation, mean over the workers
  std::optional<std::int64_t> slowest_rank{};
  std::optional<std::string> slowest_host{};
  std::optional<std::string> slowest_phase{};
  std::optional<std::int64_t> slowest_times{};
  std::optional<double> slowest_cost_s{};
  std::int64_t classes = 0;  ///< Of the model; 0: not known
};
struct ValidationReport {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Figures figures{};  ///< Figures by the keys of metrics()
  std::int64_t samples = 0;
  std::vector<Figures> outputs{};            ///< Figures of each output, where it predicts numbers or labels
  Figures averages{};                        ///< Figures of the averaged weights (train.average_decay)
  std::optional<double> epoch_s{};           ///< Time of the epoch's steps, if all of them were in this run
  std::optional<std::string> best_of{};      ///< Key of the figure by which validations are compared
  std::optional<double> best{};              ///< Its best value so far
  std::optional<std::int64_t> best_epoch{};  ///< Epoch of the best figure
  std::int64_t classes = 0;                  ///< As in StepReport
};
struct CheckpointReport {
  std::int64_t step = 0;
  std::string path{};
  std::int64_t bytes = 0;
  double stall_s = 0.0;
  double write_s = 0.0;
};
struct EndReport {
  std::string reason{};  ///< "done", "target reached", "stopped early", "stopped", "time limit", "diverged"
  std::int64_t step = 0;
  double seconds = 0.0;
  std::int64_t peak_memory_bytes = 0;  ///< The largest of all ranks
  std::optional<std::int64_t> skipped_steps{};
  std::optional<double> exposed_comm_s{};      ///< Of worker 0; absent with one
  std::map<std::string, std::int64_t> sent{};  ///< Bytes that worker 0 has sent, by what they are
};

/// The amount of output of a command.
enum class Verbosity { quiet, normal, verbose };

/// The kind of a line on the console, which decides at which verbosity it is shown and how; a run's log has
/// all lines.
enum class Message {
  result,    ///< The result of a run
  progress,  ///< The progress of a run
  note,      ///< What the user might not expect
  plan,      ///< What is trained; long lines are cut
  advice,    ///< What would make it faster
  detail,    ///< Shown with --verbose
};

struct LiveStep;

/// Lines in the log of a rank other than 0.
enum class LogLines {
  all,
  own,  ///< Warnings after the start, and what log() says of the rank: a file only where there is a warning
  none,
};

struct ReporterOptions {
  std::string folder{};           ///< The run's folder; made if need be. Empty: no files, console only
  int rank = 0;                   ///< Rank 0 writes metrics.jsonl and the console; every rank its log file
  LogLines log_lines{};           ///< Lines in the log of a rank other than 0
  int job_rank = -1;              ///< Rank in the name of its log file; −1: `rank`
  bool append = false;            ///< True after a resume
  std::int64_t resumed_step = 0;  ///< If append: lines after this step are dropped from metrics.jsonl
  std::string resolved_deck{};    ///< Written as deck.toml by rank 0, unless empty
};

/// Writes a run's reports: metrics.jsonl, console lines, a last line on a terminal that shows where the run
/// stands, and log/rank-0000.log. A warning is written once. Calls from several threads are taken one after
/// another.
class Reporter {
 public:
  /// Not collective. Every rank makes the folder unless it exists; rank 0 removes a failure.json of an
  /// earlier run. @throws UserError naming the folder or file that cannot be written.
  explicit Reporter(const ReporterOptions& options);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter();

  void start(const StartReport& report);
  void step(const StepReport& report);
  /// Whether the terminal's last line should be renewed now: five times a second where there is a terminal.
  /// Cheap.
  bool wants_live() const;
  void live(const LiveStep& now);  ///< Renews the terminal's last line.
  void validation(const ValidationReport& report);
  void checkpoint(const CheckpointReport& report);
  /// @throws UserError if lines of metrics.jsonl were lost on the way (disk full); until then the run goes
  /// on.
  void end(const EndReport& report);
  /// Console of rank 0, if that kind is shown there, and this rank's log.
  void say(const std::string& line, Message kind = Message::note);
  /// What would make the run faster: in this rank's log and, at the end, among the notes on rank 0's console,
  /// five at most, the most costly first. @param cost_s what it costs the run, seconds
  void advise(double cost_s, const std::string& line);
  void warn(const std::string& line);  ///< Each text once: on stderr of rank 0 and in the log
  void log(const std::string& line);   ///< This rank's log only.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Peak resident memory of this process so far, bytes.
std::int64_t peak_memory_bytes();
/// Resident memory of this process now, bytes.
std::int64_t resident_memory_bytes();

}  // namespace flotilla
