// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace flotilla {

/// The exit code for an exception, by its kind: 2, 3 or 4.
int exit_code_of(const std::exception& error);

/// The message for an exception; with a remedy for exceptions of the standard library, which name none.
std::string text_of(const std::exception& error);

}  // namespace flotilla
