// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mpi/collectives.hpp"
#include "mpi/nccl_stream.hpp"

namespace flotilla::mpi {

/// One all-reduce at a time, on a stream and communicators of its own.
class NcclLane {
 public:
  explicit NcclLane(NativeStream compute) : stream_(compute) {}
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;
  virtual ~NcclLane() = default;

  void all_reduce(DeviceSpan<float> data) {
    stream_.follow_device();
    if (!data.empty()) launch(data);
  }
  NcclStream& stream() { return stream_; }
  virtual std::string failure() const = 0;

 private:
  virtual void launch(DeviceSpan<float> data) = 0;

  NcclStream stream_;
};

/// Deals all-reduces out to lanes and returns at once. Every rank deals alike, from its computing thread, so
/// that all launch in one order.
class NcclQueue : public Collectives {
 public:
  using Lanes = std::vector<std::unique_ptr<NcclLane>>;

  explicit NcclQueue(Lanes lanes) : lanes_(std::move(lanes)) {}

  void all_reduce(DeviceSpan<float> data) final;
  void settle() final;
  void wait() final;
  bool queues() const final { return true; }
  std::string failure() const final;

 protected:
  static Lanes lanes(int count, const std::function<std::unique_ptr<NcclLane>()>& make);

 private:
  Lanes lanes_;
  std::size_t started_ = 0;  ///< Since the last settle()
};

}  // namespace flotilla::mpi
