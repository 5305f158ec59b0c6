// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/parameter_server/server/update_mode.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

/// Other workers' updates between a worker's pull and its next push: counts of 0, 1, 2, 3–4, 5–8 …
class StalenessHistogram {
 public:
  void add(std::int64_t updates);
  /// "staleness of 400 pushes: 0: 12 %, 1: 80 %, 2: 8 %; mean 0.96, most 2".
  std::string text() const;

 private:
  std::array<std::int64_t, 34> counts_{};
  std::int64_t pushes_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t most_ = 0;
};

/// server.mode = "async", "half-async" and "geo": every push is applied at once and answered with the
/// server's values after it; pushes of steps that overflowed change nothing. Gradients are not divided by the
/// workers; differences (geo) have been. Where pushes arrive in parts, each part is applied, and parts of
/// several workers may alternate.
///
/// The loss sums that a worker receives are those of each worker's last push, and so is the mean staleness.
class AsyncUpdates : public UpdateMode {
 public:
  explicit AsyncUpdates(const Parts& parts);

  void take(const mpi::WorkerRequest& request) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<std::string> report() const override;

 private:
  struct Worker {
    std::int64_t pushes = 0;     ///< Complete ones so far
    std::int64_t staleness = 0;  ///< Of its last push that was learned from: other workers' updates
    std::int64_t seen = 0;       ///< Number of updates when its last answer began
    std::optional<mpi::WorkerRequest> push{};  ///< The push that is not completely answered yet
    std::optional<std::int64_t> step{};        ///< The optimizer step for that push
    std::size_t updated = 0;                   ///< Values of the push that the update has used
    std::size_t answered = 0;                  ///< Values that were sent back for the push
    bool left = false;
    bool learns() const { return push->head.batches > 0; }  ///< False: its steps overflowed
    bool pauses = false;  ///< It waits for other workers, so they must not wait for it
    std::array<float, header_floats> header_sums{};
  };

  void update(Worker& worker);
  void update(Worker& worker, std::size_t end);
  void learn(Worker& worker, std::size_t end);
  void finish(Worker& worker);
  void share_header(Worker& worker);
  void answer(Worker& worker);
  bool too_far_ahead(const Worker& worker) const;
  void answer_who_may_go_on();

  bool adds_differences_;
  std::vector<Worker> workers_;
  std::int64_t updates_ = 0;
  StalenessHistogram staleness_;
};

}  // namespace flotilla
