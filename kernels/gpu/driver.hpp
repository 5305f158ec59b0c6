// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla {

/// Opens the driver's library, whose functions Kokkos calls. They are looked up here instead of by the linker
/// so that the program starts without a driver: on a login node, for `--check`, or with device.kind =
/// "cpu".
/// @throws LibraryError if the library cannot be opened.
void open_cuda_driver();

}  // namespace flotilla
