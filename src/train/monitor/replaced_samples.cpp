// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/replaced_samples.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Why a sample cannot be read, found out by reading it again.
std::string reason(const Dataset& data, std::int64_t sample) {
  std::vector<float> scratch(static_cast<std::size_t>(data.sample_shape().size()));
  try {
    data.read(sample, 0, scratch);
  } catch (const UserError& error) {
    return error.what();
  }
  return cat("sample ", sample, ", which can be read now");
}

std::string too_many(std::int64_t count, std::int64_t most) {
  return cat(count, count == 1 ? " training image" : " training images",
             " of one epoch could not be read, more than data.max_bad_images = ", most, "; ");
}

}  // namespace

void ReplacedSamples::add(const Batch& batch, const Dataset& data) {
  if (batch.replaced == 0) return;
  first_ = count_ == 0 ? batch.first_replaced : std::min(first_, batch.first_replaced);
  count_ += batch.replaced;
  if (count_ > most_) throw UserError(too_many(count_, most_) + "the first: " + reason(data, first_));
}

void ReplacedSamples::end_epoch(std::int64_t epoch, const Dataset& data, const mpi::Communicator& workers,
                                Reporter& reporter, FailureHandler& failure) {
  if (!active_) return;
  std::array<std::int64_t, 1> count{count_};
  std::array<std::int64_t, 1> first{count_ > 0 ? first_ : std::numeric_limits<std::int64_t>::max()};
  workers.all_reduce(std::span<std::int64_t>(count));
  workers.all_reduce(std::span<std::int64_t>(first), mpi::Op::min);
  count_ = 0;
  if (count[0] == 0) return;
  if (count[0] > most_) {
    failure.end_job_together(too_many(count[0], most_) + "the first: " + reason(data, first[0]),
                             exit_user_error);
  }
  if (!workers.is_root()) return;
  reporter.warn(cat("epoch ", epoch, ": ", count[0], count[0] == 1 ? " image" : " images",
                    " could not be read and others were taken instead; the first: ", reason(data, first[0])));
}

}  // namespace flotilla
