// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::test {

/// Counts a call and tells whether it is to fail (fail_at_call.cpp).
/// @param word its kind @param caller the return address @param about what it does, for the list of calls
bool fails(const char* word, const void* caller, const char* about);

/// What a call on a file that fails leaves in errno; 0: it transfers half of what it was asked to.
int error_of_failure();

/// The function of this name that the program would call without this library.
void* next_function(const char* name);

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(next_function(name));
}

}  // namespace flotilla::test
