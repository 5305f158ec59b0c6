// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace flotilla::mpi {

/// A deleter that leaks the object while an exception is being thrown, because a communication thread may be
/// using it.
template <class T>
struct LeaveWhileThrowing {
  int exceptions = std::uncaught_exceptions();
  void operator()(T* object) const {
    if (std::uncaught_exceptions() <= exceptions) delete object;
  }
};

}  // namespace flotilla::mpi
