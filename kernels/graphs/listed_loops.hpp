// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/device_loops.hpp"
#include "kernels/graphs/work_list.hpp"

namespace flotilla {

/// Wraps `loops` so that its work is added to the list. An operation that returns a number to the host
/// submits the list first. Both arguments must outlive the result.
std::unique_ptr<DeviceLoops> make_listed_loops(DeviceLoops& loops, WorkList& list);

}  // namespace flotilla
