// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/collectives.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/environment.hpp"

namespace flotilla::mpi {

namespace {

/// Marks on their way from the thread that computes to the one that copies, in their order.
class Marks {
 public:
  /// Waits while the maximum number of marks that a CopyLane allows is in use.
  template <class MakeMark>
  void put(MakeMark make_mark) {
    const std::uint32_t number = put_.load(std::memory_order_relaxed);
    std::uint32_t taken = taken_.load(std::memory_order_acquire);
    while (number - taken == marks_.size()) {
      taken_.wait(taken, std::memory_order_acquire);
      taken = taken_.load(std::memory_order_acquire);
    }
    marks_[number % marks_.size()] = make_mark();
    put_.store(number + 1, std::memory_order_release);
  }
  CopyLane::Mark next() const {
    const std::uint32_t number = taken_.load(std::memory_order_relaxed);
    require(number != put_.load(std::memory_order_acquire), "a staged all-reduce of what was never ready");
    return marks_[number % marks_.size()];
  }
  /// The next one is no longer needed.
  void take() {
    taken_.fetch_add(1);
    taken_.notify_one();
  }

 private:
  std::array<CopyLane::Mark, 64> marks_{};
  std::atomic<std::uint32_t> put_{0};
  std::atomic<std::uint32_t> taken_{0};
};

struct Parts {
  std::unique_ptr<Collectives> sums;
  std::unique_ptr<CopyLane> copies;
  Mirror mirror;
  Marks marks;
};

class StagedAllReduce final : public Collectives {
 public:
  StagedAllReduce(DeviceQueue& queue, std::unique_ptr<Collectives> sums, const Mirror& mirror)
      : parts_(new Parts{std::move(sums), queue.copy_lane(), mirror, {}}) {
    require(ranks() == 1 || mirror.device.size() == mirror.host.size(), "a mirror of ", mirror.host.size(),
            " values for ", mirror.device.size());
  }

  int ranks() const override { return parts_->sums->ranks(); }

  void ready(DeviceSpan<const float> /*data*/) override {
    if (ranks() == 1) return;
    parts_->marks.put([&] { return parts_->copies->mark(); });
  }

  void all_reduce(DeviceSpan<float> data, CallSite at) override {
    if (ranks() == 1) return;
    const std::span<float> staged = place_of(data);
    {
      const trace::Span span("copy from the device");
      parts_->copies->download(parts_->marks.next(), data, staged);
      parts_->marks.take();
    }
    parts_->sums->all_reduce(device_span(staged), at);
    const trace::Span span("copy to the device");
    parts_->copies->upload(staged, data);
  }

  std::size_t sent_bytes(std::size_t count) const override {
    return ranks() == 1 ? 0 : parts_->sums->sent_bytes(count);
  }
  std::vector<int> missing_ranks() const override { return parts_->sums->missing_ranks(); }

 private:
  std::span<float> place_of(DeviceSpan<float> data) const {
    const DeviceSpan<float> all = parts_->mirror.device;
    require(std::less_equal<>()(all.address(), data.address()) &&
                std::less_equal<>()(data.address() + data.size(), all.address() + all.size()),
            "a staged all-reduce of ", data.size(), " values that have no mirror");
    return parts_->mirror.host.subspan(static_cast<std::size_t>(data.address() - all.address()), data.size());
  }

  std::unique_ptr<Parts, LeaveWhileThrowing<Parts>> parts_;
};

}  // namespace

std::unique_ptr<Collectives> make_staged_all_reduce(DeviceQueue& queue, std::unique_ptr<Collectives> sums,
                                                    const Mirror& mirror) {
  return std::make_unique<StagedAllReduce>(queue, std::move(sums), mirror);
}

}  // namespace flotilla::mpi
