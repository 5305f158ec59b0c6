// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mpi/core/communicator.hpp"
#include "src/config/config.hpp"
#include "src/data/loader.hpp"
#include "src/job/failure.hpp"
#include "src/observe/reporter.hpp"

namespace flotilla {

/// Counts training samples that could not be read and were replaced (data.on_bad_image = "replace"), by
/// epoch. A sample that the last batch of an epoch repeats counts again; a resumed run counts from there.
class ReplacedSamples {
 public:
  explicit ReplacedSamples(const DataConfig& data)
      : active_(data.on_bad_image == OnBadImage::replace), most_(data.max_bad_images) {}
  /// @throws UserError if this worker alone has more than data.max_bad_images in this epoch.
  void add(const Batch& batch, const Dataset& data);
  /// Collective if the deck allows replacement, otherwise does nothing. Reports the epoch's count and the
  /// first replaced sample, and resets the count. Ends the job if there were more than data.max_bad_images.
  void end_epoch(std::int64_t epoch, const Dataset& data, const mpi::Communicator& workers,
                 Reporter& reporter, FailureHandler& failure);

 private:
  bool active_;
  std::int64_t most_;
  std::int64_t count_ = 0;
  std::int64_t first_ = -1;
};

}  // namespace flotilla
