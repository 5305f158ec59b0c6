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
  nccl_ = mpi::make_nccl_all_gather(workers_, device_.queue().native_stream());
  staging_ = {};
  // NCCL connects GPUs in the first call: not in a step.
  constexpr std::size_t few = 16;
  const Storage values = device_.memory().allocate(few);
  reserve(few);
  all_gather(values.span());
  device_.queue().synchronize();
}

void CommunicatorExchange::reserve(std::size_t count) {
  const std::size_t of_all = count * static_cast<std::size_t>(workers());
  if (all_.size() >= of_all) return;
  all_ = device_.memory().allocate(of_all);
  if (!device_.info().shares_host_memory && !nccl_) staging_ = device_.memory().pinned(count + of_all);
}

DeviceSpan<const float> CommunicatorExchange::all_gather(DeviceSpan<const float> mine) {
  const trace::Span span("synchronised batch norm");
  if (watchdog_ != nullptr)
    watchdog_->beat("synchronised batch norm among the workers", watchdog_->activity().step);
  const std::size_t of_all = mine.size() * static_cast<std::size_t>(workers());
  require(of_all <= all_.size(), "no room for ", mine.size(), " values of each worker");
  const DeviceSpan<float> all = all_.span().subspan(0, of_all);
  if (nccl_) {
    device_.queue().submit();
    for (mpi::Collectives* const lane : lanes_) lane->wait_on_stream();
    nccl_->all_gather(mine, all);
  } else if (device_.info().shares_host_memory) {
    all_gather_on_host(host_span(mine), host_span(all));
  } else {
    const std::span<float> own = host_span(staging_.span()).first(mine.size());
    const std::span<float> gathered = host_span(staging_.span()).subspan(mine.size(), of_all);
    device_.memory().download(mine, own);
    all_gather_on_host(own, gathered);
    device_.memory().upload(gathered, all);
  }
  return all;
}

void CommunicatorExchange::all_gather_on_host(std::span<const float> mine, std::span<float> all) {
  const std::int64_t begin_ns = trace::now_ns();
  workers_.all_gather(mine, all);
  waited_ns_ += trace::now_ns() - begin_ns;
}

std::string CommunicatorExchange::failure() const {
  return nccl_ ? nccl_->failure() : std::string();
}

}  // namespace flotilla
