// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/communicator_exchange.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

CommunicatorExchange::CommunicatorExchange(mpi::Communicator workers, Device& device)
    : workers_(std::move(workers)), device_(device) {}

void CommunicatorExchange::use_nccl(std::span<const std::unique_ptr<mpi::Collectives>> lanes) {
  for (const auto& lane : lanes) lanes_.push_back(lane.get());
  nccl_ = mpi::make_nccl_sums(workers_, device_.queue().native_stream());
  staging_ = {};
  // NCCL connects GPUs in the first call: not in a step.
  Storage values = device_.memory().allocate(2 * sizeof(double) / sizeof(float));
  all_reduce({reinterpret_cast<double*>(values.span().address()), 2});
  device_.queue().synchronize();
}

void CommunicatorExchange::reserve(std::size_t count) {
  const std::size_t floats = count * (sizeof(double) / sizeof(float));
  if (device_.info().shares_host_memory || nccl_ || staging_.size() >= floats) return;
  staging_ = device_.memory().pinned(floats);
}

void CommunicatorExchange::all_reduce(DeviceSpan<double> values) {
  const trace::Span span("synchronised batch norm");
  if (watchdog_ != nullptr)
    watchdog_->beat("synchronised batch norm among the workers", watchdog_->activity().step);
  if (nccl_) {
    device_.queue().submit();
    for (mpi::Collectives* const lane : lanes_) lane->wait_on_stream();
    nccl_->all_reduce(values);
  } else if (device_.info().shares_host_memory) {
    all_reduce_on_host(host_span(values));
  } else {
    const std::size_t floats = values.size() * (sizeof(double) / sizeof(float));
    require(floats <= staging_.size(), "no room for ", values.size(), " values");
    const DeviceSpan<float> bits(reinterpret_cast<float*>(values.address()), floats);
    const std::span<float> staged = host_span(staging_.span()).first(floats);
    device_.memory().download(bits, staged);
    all_reduce_on_host({reinterpret_cast<double*>(staged.data()), values.size()});
    device_.memory().upload(staged, bits);
  }
}

void CommunicatorExchange::all_reduce_on_host(std::span<double> values) {
  const std::int64_t begin_ns = trace::now_ns();
  workers_.all_reduce(values, mpi::Op::sum);
  waited_ns_ += trace::now_ns() - begin_ns;
}

std::string CommunicatorExchange::failure() const {
  return nccl_ ? nccl_->failure() : std::string();
}

}  // namespace flotilla
