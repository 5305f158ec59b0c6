// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace flotilla {

/// Exit codes of the executable (docs/reference.md, "Exit codes").
enum ExitCode : int {
  exit_done = 0,
  exit_user_error = 2,
  exit_library_error = 3,
  exit_internal_error = 4,
  exit_bad_samples = 65,  ///< Done except for samples that cannot be read (EX_DATAERR).
  exit_stopped = 75,      ///< Stopped on request after a checkpoint (EX_TEMPFAIL): submit again.
};

/// The arguments written one after another, as by operator<<.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream text;
  (text << ... << args);
  return text.str();
}

/// A mistake of the user: deck, file, rank count. The text names what, where and the remedy. Exit code 2.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A call into a vendor's library failed. Exit code 3.
struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
  LibraryError(const char* call, const std::string& reason,
               std::source_location at = std::source_location::current())
      : std::runtime_error(cat(call, " failed: ", reason, " [", at.file_name(), ":", at.line(), "]")) {}
};

/// The host has no memory for one array. Exit code 3.
struct OutOfMemory : std::bad_alloc {
  explicit OutOfMemory(std::size_t array_bytes) : bytes(array_bytes) {}
  std::size_t bytes;
};

/// A defect of Flotilla: one of its own contracts does not hold. Exit code 4.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

/// The exit code for an exception, by its kind: 2, 3 or 4.
int exit_code_of(const std::exception& error);

/// The message for an exception; with a remedy for exceptions of the standard library, which name none.
std::string text_of(const std::exception& error);

/// @throws InternalError made of `explanation` unless `holds`. Checked in every build type.
template <class... Args>
void require(bool holds, const Args&... explanation) {
  if (!holds) throw InternalError(cat(explanation...));
}

}  // namespace flotilla
