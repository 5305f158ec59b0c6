// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/reduce/reduced_array.hpp"

#include "kernels/host_memory.hpp"

namespace flotilla {

ReducedArray::ReducedArray(Device& device, std::size_t count, const AllReducePlan& plan,
                           const mpi::Communicator& host) {
  if (plan.window) window_ = std::make_unique<mpi::SharedStorage>(host, count);
  if (window_ && device.info().shares_host_memory) {
    values_ = device_span(window_->mine());
    return;
  }
  storage_ = device.memory().allocate(count);
  values_ = storage_.span();
  if (!plan.staged) return;
  pinned_ = window_ ? device.memory().pin(window_->mine()) : device.memory().pinned(count);
  mirror_ = {values_, window_ ? window_->mine() : host_span(pinned_.span())};
}

}  // namespace flotilla
