// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// Tells a data set what will be read next (Dataset::will_read), where the order lets neighbours be read
/// together: with "blocks" the blocks of the next window, each by one reader of the host; with "file" the
/// worker's own samples of as many steps as the buffer holds. Nothing with "shuffled", or where workers have
/// shares of their own.
class ReadAhead {
 public:
  ReadAhead(const Sampler& sampler, std::int64_t worker, const HostReader& reader)
      : sampler_(sampler), worker_(worker), reader_(reader) {}
  /// To be called before the first samples of the step at `position` are read. @param first of the training,
  /// or after a resume: what this step needs itself was not told before
  void before_step(const Dataset& data, Position position, bool first) const;

 private:
  void tell_blocks(const Dataset& data, std::int64_t epoch, std::int64_t window) const;
  /// As many steps as the epoch has from `position` on, at most `steps`.
  void tell_steps(const Dataset& data, Position position, std::int64_t steps) const;

  Sampler sampler_;
  std::int64_t worker_;
  HostReader reader_;
};

}  // namespace flotilla
