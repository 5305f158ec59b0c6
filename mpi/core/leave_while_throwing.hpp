// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace flotilla::mpi {

/// Deletes, but leaves an object where it is while an exception is being thrown: a communication thread may
/// be inside it.
template <class T>
struct LeaveWhileThrowing {
  int exceptions = std::uncaught_exceptions();
  void operator()(T* object) const {
    if (std::uncaught_exceptions() <= exceptions) delete object;
  }
};

}  // namespace flotilla::mpi
