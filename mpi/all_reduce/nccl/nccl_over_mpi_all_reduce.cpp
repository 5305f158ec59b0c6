// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/all_reduce/nccl/nccl_inside.hpp"
#include "mpi/all_reduce/nccl/nccl_stream.hpp"

namespace flotilla::mpi {

namespace {

/// The computing thread marks what is ready; whichever thread calls all_reduce() launches, waits and has MPI
/// work.
class NcclOverMpi final : public Collectives {
 public:
  NcclOverMpi(const Communicator& world, const Communicator& group, const Communicator& same,
              NativeStream compute, Storage staging, Wire wire)
      : ranks_(world.size()),
        compute_(compute),
        stream_(compute_),
        inside_(group, compute_.ordinal),
        across_(make_mpi_all_reduce(same, wire)),
        staging_(std::move(staging)) {
    for (CudaEvent& mark : marks_) mark = make_event();
    const int own = world.rank();
    same_place_ = same.all_gather(std::span(&own, 1));
  }

  std::string_view name() const override { return "nccl-mpi"; }
  int ranks() const override { return ranks_; }

  void ready(DeviceSpan<const float> /*data*/) override {
    const std::size_t mark = marked_.load() % marks_.size();
    stream_.mark_device(marks_[mark]);
    ++marked_;
  }

  void all_reduce(DeviceSpan<float> data, CallSite at) override {
    require(taken_ < marked_.load(), "an all-reduce of what is not ready");
    check(cudaSetDevice(compute_.ordinal), "cudaSetDevice");  // of this thread
    // Where more calls wait than there are marks, this one was recorded anew: it waits for more than it must.
    check(cudaStreamWaitEvent(stream_.handle(), marks_[taken_++ % marks_.size()].get(), 0),
          "cudaStreamWaitEvent");
    if (data.empty()) return;
    inside_.reduce_scatter(data, stream_.handle(), at);
    if (const DeviceSpan<float> mine = inside_.mine(data); !mine.empty()) sum_across(mine, at);
    inside_.all_gather(data, stream_.handle(), at);
  }

  void settle() override { stream_.lead_device(); }
  void wait() override { stream_.wait(); }
  std::string failure() const override { return inside_.failure(); }

  std::vector<int> missing_ranks() const override {
    std::vector<int> missing = across_->missing_ranks();
    for (int& rank : missing) rank = same_place_[static_cast<std::size_t>(rank)];
    return missing;
  }

  std::size_t sent_bytes(std::size_t count) const override {
    const std::size_t mine = inside_.mine({nullptr, count}).size();
    return inside_.sent_bytes(count) + across_->sent_bytes(mine);
  }

 private:
  void sum_across(DeviceSpan<float> mine, const CallSite& at) {
    require(mine.size() <= staging_.size(), "staging ", mine.size(), " floats in ", staging_.size());
    const DeviceSpan<float> host = staging_.span().subspan(0, mine.size());
    const std::size_t bytes = mine.size() * sizeof(float);
    check(cudaMemcpyAsync(host.address(), mine.address(), bytes, cudaMemcpyDeviceToHost, stream_.handle()),
          "cudaMemcpyAsync");
    stream_.wait();
    across_->all_reduce(host, at);
    // The next call's copy to the host comes after this one: one buffer is enough.
    check(cudaMemcpyAsync(mine.address(), host.address(), bytes, cudaMemcpyHostToDevice, stream_.handle()),
          "cudaMemcpyAsync");
  }

  int ranks_;
  NativeStream compute_;
  NcclStream stream_;
  NcclInside inside_;
  std::unique_ptr<Collectives> across_;
  Storage staging_;
  std::vector<int> same_place_;  ///< In every group, as ranks of the world
  std::array<CudaEvent, 64> marks_;
  std::atomic<std::size_t> marked_{0};
  std::size_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> make_nccl_over_mpi_all_reduce(const Communicator& world,
                                                           const Communicator& group, NativeStream stream,
                                                           Storage staging, Wire wire) {
  return std::make_unique<NcclOverMpi>(world, group, same_place(world, group), stream, std::move(staging),
                                       wire);
}

}  // namespace flotilla::mpi
