// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/device_loops/device_loops.hpp"

namespace flotilla::loops {

/// Device memory for partial results between kernels of one stream; it grows to what the largest needs.
class Scratch {
 public:
  explicit Scratch(LoopMemory memory) : memory_(std::move(memory)) {}

  float* floats(std::size_t count) {
    if (count > storage_.size()) storage_ = memory_(count);
    return storage_.span().address();
  }

 private:
  LoopMemory memory_;
  Storage storage_;
};

}  // namespace flotilla::loops
