// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace flotilla {

/// The exit code for an exception, by its kind: 2, 3 or 4.
int exit_code_of(const std::exception& error);

/// What to tell the user of an exception; with a remedy where it is of the standard library and names none.
std::string text_of(const std::exception& error);

}  // namespace flotilla
