// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/device_memory.hpp"
#include "kernels/gpu/loops/elements.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"

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

/// What the plans of a device share; all of it must outlive them. A plan is a class template over the space
/// and the element type of its activations, in the same header as its kernels.
template <class Space>
struct PlanScope {
  const Space& space;
  Scratch& scratch;
  const DeviceMemory& memory;
};

/// The address of a tensor's values as elements of the device. @throws InternalError as values_of()
template <class T>
T* elements(Tensor& tensor) {
  return static_cast<T*>(values_of(tensor, T::precision).address);
}
template <class T>
const T* elements(const Tensor& tensor) {
  return static_cast<const T*>(values_of(tensor, T::precision).address);
}
/// The address of parameters, gradients or sums as elements. @throws InternalError unless on 16 bytes
inline Float32* elements(DeviceSpan<float> values) {
  check_address("the values", values_of(values));
  return reinterpret_cast<Float32*>(values.address());
}
inline const Float32* elements(DeviceSpan<const float> values) {
  check_address("the values", values_of(values));
  return reinterpret_cast<const Float32*>(values.address());
}

}  // namespace flotilla::loops
