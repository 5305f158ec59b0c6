// SPDX-License-Identifier: Apache-2.0
// The loops of a GPU on the serial Kokkos: the fake GPU's memory is the host's, its kernels wait in its
// streams, and their lanes come in random order.
#include "tests/cuda/fake/cudart.hpp"
#include "tests/kernels/shuffled_order.hpp"

namespace flotilla::fake {

class QueuedSerial : public test::ShuffledSerial {
 public:
  explicit QueuedSerial(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_;
};

}  // namespace flotilla::fake

namespace flotilla::loops {

template <>
struct Queue<fake::QueuedSerial> {
  using Space = fake::QueuedSerial;

  template <class Launch>
  static void put(const Space& space, const Launch& launch) {
    fake::in_stream(space.stream(), [launch, execution = ExecutionOf<Space>(space)] { launch(execution); });
  }
  static void upload(const Space& space, const void* from, void* to, std::size_t bytes) {
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, space.stream());
  }
  static void download(const Space& space, const void* from, void* to, std::size_t bytes) {
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, space.stream());
  }
  static void wait(const Space& space) { cudaStreamSynchronize(space.stream()); }
};

template <>
struct Order<fake::QueuedSerial> : Order<test::ShuffledSerial> {};

}  // namespace flotilla::loops

#include "kernels/gpu/loops/kokkos_loops.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/gpu/loops/queued_space.hpp"

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory, WorkQueue* queue) {
  start_kokkos(-1);
  using Space = loops::QueuedSpace<fake::QueuedSerial>;
  const Space space(fake::QueuedSerial(static_cast<cudaStream_t>(stream.handle)), queue);
  return std::make_unique<KokkosLoops<Space, loops::PortableElements>>(space, std::move(memory));
}

}  // namespace flotilla
