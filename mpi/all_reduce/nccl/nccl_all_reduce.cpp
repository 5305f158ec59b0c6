// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"

#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"
#include "mpi/all_reduce/nccl/nccl_queue.hpp"

namespace flotilla::mpi {

namespace {

class NcclAllReduce final : public NcclQueue {
 public:
  NcclAllReduce(const Communicator& group, NativeStream compute)
      : NcclQueue(compute), communicator_(group, compute.ordinal) {}

  std::string_view name() const override { return "nccl"; }
  int ranks() const override { return communicator_.size(); }
  std::string failure() const override { return communicator_.failure(); }
  std::size_t sent_bytes(std::size_t count) const override {
    const auto n = static_cast<std::size_t>(ranks());
    return 2 * (n - 1) * count * sizeof(float) / n;
  }

 private:
  void launch(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) override {
    const CollectiveScope call = communicator_.announce("NCCL all-reduce", data.size(), at);
    const NcclHandle communicator = communicator_.handle();
    check(ncclAllReduce(data.address(), data.address(), data.size(), ncclFloat32, ncclSum, communicator,
                        stream),
          "ncclAllReduce", communicator);
  }

  NcclCommunicator communicator_;
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  // 22809; before 2.9 it was 2804
  const int thousands = version < 10000 ? 1000 : 10000;
  return cat(version / thousands, ".", version % thousands / 100, ".", version % 100);
}

bool has_nccl() {
  return true;
}

std::unique_ptr<Collectives> make_nccl_all_reduce(const Communicator& group, NativeStream stream) {
  return std::make_unique<NcclAllReduce>(group, stream);
}

}  // namespace flotilla::mpi
