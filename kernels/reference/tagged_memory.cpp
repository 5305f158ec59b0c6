// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/tagged_memory.hpp"

#include <algorithm>
#include <memory>

namespace flotilla::reference {

Storage TaggedMemory::allocate(std::size_t count) const {
  if (count == 0) return {};
  const auto real = std::make_shared<Storage>(memory_.allocate(count));
  const auto address = reinterpret_cast<std::uintptr_t>(real->span().address());
  return {reinterpret_cast<float*>(address | out_of_reach), count, [real](float* /*address*/) {}};
}

void TaggedMemory::upload(std::span<const float> from, DeviceSpan<float> to) const {
  require(from.size() == to.size(), "upload of ", from.size(), " into ", to.size(), " values");
  std::ranges::copy(from, host(to).begin());
}

void TaggedMemory::download(DeviceSpan<const float> from, std::span<float> to) const {
  require(from.size() == to.size(), "download of ", from.size(), " into ", to.size(), " values");
  std::ranges::copy(host(from), to.begin());
}

}  // namespace flotilla::reference
