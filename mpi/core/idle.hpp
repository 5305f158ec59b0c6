// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace flotilla::mpi {

/// Whether a rank that waits inside MPI gives its processor to others (Open MPI: mpi_yield_when_idle, however
/// it was set). Nothing where the library does not tell. Asked once: it does not change while MPI runs.
std::optional<bool> yields_when_idle();

}  // namespace flotilla::mpi
