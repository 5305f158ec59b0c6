// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_all_gather.hpp"

#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"

namespace flotilla::mpi {

namespace {

class NcclAllGather final : public DeviceAllGather {
 public:
  NcclAllGather(const Communicator& group, const NativeStream& compute)
      : stream_(static_cast<cudaStream_t>(compute.handle)), communicator_(group, compute.ordinal) {}

  void all_gather(DeviceSpan<const float> mine, DeviceSpan<float> all, CallSite at) override {
    require(all.size() == mine.size() * static_cast<std::size_t>(communicator_.size()), "NCCL all-gather of ",
            mine.size(), " values into ", all.size());
    const CollectiveScope call = communicator_.announce("NCCL all-gather", mine.size(), at);
    const NcclHandle communicator = communicator_.handle();
    check(ncclAllGather(mine.address(), all.address(), mine.size(), ncclFloat32, communicator, stream_),
          "ncclAllGather", communicator);
  }
  std::string failure() const override { return communicator_.failure(); }

 private:
  cudaStream_t stream_;
  NcclCommunicator communicator_;
};

}  // namespace

std::unique_ptr<DeviceAllGather> make_nccl_all_gather(const Communicator& group, NativeStream stream) {
  require(stream.ordinal >= 0, "NCCL on a device without a stream");
  return std::make_unique<NcclAllGather>(group, stream);
}

}  // namespace flotilla::mpi
