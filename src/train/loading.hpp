// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device.hpp"
#include "src/data/loader.hpp"

namespace flotilla {

/// Options of a loader for `device`, which must outlive it: batches in memory from which copies are fast, and
/// as bytes where the device scales them.
LoaderOptions loading_for(Device& device, LoaderOptions options);

}  // namespace flotilla
