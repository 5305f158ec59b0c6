// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace flotilla::mpi {

/// Whether a rank that waits inside MPI yields its processor (Open MPI: mpi_yield_when_idle, however it was
/// set). Empty where the library does not report it. Constant while MPI runs.
std::optional<bool> yields_when_idle();

}  // namespace flotilla::mpi
