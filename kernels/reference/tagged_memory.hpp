// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"

/// Memory of the reference device, which host code cannot access, like that of a GPU: its addresses have a
/// bit set that no address of a process has, and dereferencing one is a fault.
namespace flotilla::reference {

/// Memory whose storages may outlive it.
class TaggedMemory : public DeviceMemory {
 public:
  Storage allocate(std::size_t count) const override;  ///< @throws std::bad_alloc
  std::int64_t allocated_bytes() const override { return memory_.allocated_bytes(); }
  void upload(std::span<const float> from, DeviceSpan<float> to) const override;
  void download(DeviceSpan<const float> from, std::span<float> to) const override;

 private:
  HostMemory memory_;
};

/// Set in no address of a process on x86-64 and AArch64, which ignores the eight bits above: an access there
/// is a fault.
inline constexpr std::uintptr_t out_of_reach = std::uintptr_t{1} << 55;

/// The real address of the values.
/// @throws InternalError if they are not in memory of the reference device
template <class T>
std::span<T> host(DeviceSpan<T> values) {
  if (values.empty()) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(values.address());
  require((address & out_of_reach) != 0, "the reference device was given memory that is not its own");
  return {reinterpret_cast<T*>(address & ~out_of_reach), values.size()};
}

/// The values of a tensor: floats whatever the precision, since this device packs nothing.
inline std::span<float> host(TensorSpan values) {
  return host(DeviceSpan<float>(reinterpret_cast<float*>(values.address()), values.size()));
}
inline std::span<const float> host(GivenTensorSpan values) {
  return host(DeviceSpan<const float>(reinterpret_cast<const float*>(values.address()), values.size()));
}

}  // namespace flotilla::reference
