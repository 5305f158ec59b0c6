// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cudnn/work_list.hpp"
#include "kernels/device_loops/device_loops.hpp"

namespace flotilla {

/// `loops`, whose work goes into the list. What returns a number to the host submits the list first. Both
/// must outlive it.
std::unique_ptr<DeviceLoops> make_listed_loops(DeviceLoops& loops, WorkList& list);

}  // namespace flotilla
