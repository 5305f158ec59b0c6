// SPDX-License-Identifier: Apache-2.0
#include "src/train/loading.hpp"

namespace flotilla {

LoaderOptions loading_for(Device& device, LoaderOptions options) {
  options.pin = [&device](std::span<float> batch) { return device.memory().pin(batch); };
  options.bytes = device.info().stages_bytes;
  return options;
}

}  // namespace flotilla
