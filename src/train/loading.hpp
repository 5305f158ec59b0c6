// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device.hpp"
#include "src/data/loader.hpp"

namespace flotilla {

/// For batches that go to `device`, which must outlive them: in memory that it copies fast from, and as bytes
/// where it takes them.
LoaderOptions loading_for(Device& device, LoaderOptions options);

}  // namespace flotilla
