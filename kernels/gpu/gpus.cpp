// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "kernels/gpu/handles.hpp"
#include "kernels/gpus.hpp"

namespace flotilla {

namespace {

std::string pci_id_of(int ordinal) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal), "cudaDeviceGetPCIBusId");
  std::string id(text.data());
  // CUDA writes hexadecimal digits large, the system small.
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return id;
}

}  // namespace

std::vector<GpuInfo> visible_gpus() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver) return {};
  check(found, "cudaGetDeviceCount");
  std::vector<GpuInfo> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    gpus.push_back({.name = properties.name, .pci_id = pci_id_of(ordinal)});
  }
  return gpus;
}

}  // namespace flotilla
