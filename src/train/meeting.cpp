// SPDX-License-Identifier: Apache-2.0
#include "src/train/meeting.hpp"

#include <algorithm>

namespace flotilla {

Meeting::Meeting(const mpi::Communicator& workers)
    : workers_(workers.size()),
      rendezvous_(workers, told),
      all_(told * static_cast<std::size_t>(workers.size())) {}

StepOutcome Meeting::meet(std::int64_t steps, const StepOutcome& mine) {
  mine_[samples] = mine.samples;
  mine_[loss] = mine.samples > 0.0 ? mine.samples * mine.loss : 0.0;
  mine_[top1] = mine.samples * mine.accuracy_top1;
  mine_[top5] = mine.samples * mine.accuracy_top5;
  StepOutcome outcome;
  outcome.stop = rendezvous_.meet(steps, mine_, all_);
  const auto sum_of = [this](Told what) {
    double sum = 0.0;
    for (std::size_t i = what; i < all_.size(); i += told) sum += all_[i];
    return sum;
  };
  outcome.samples = sum_of(samples);
  const double count = std::max(1.0, outcome.samples);
  outcome.loss = sum_of(loss) / count;
  outcome.accuracy_top1 = sum_of(top1) / count;
  outcome.accuracy_top5 = sum_of(top5) / count;
  return outcome;
}

std::int64_t Meeting::sent_bytes() const {
  return static_cast<std::int64_t>((told + 1) * sizeof(double)) * (workers_ - 1);
}

}  // namespace flotilla
