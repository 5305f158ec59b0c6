// SPDX-License-Identifier: Apache-2.0
#include "src/observe/print.hpp"

#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

#include "kernels/error.hpp"
#include "src/files/file_error.hpp"
#include "src/files/write_fully.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

void print_line(std::string_view line) {
  const int error = write_fully(STDOUT_FILENO, std::string(line) + '\n');
  if (error != 0 && error != EPIPE && error != EBADF) {
    throw UserError(cat("cannot write to the standard output: ", system_message(error)));
  }
}

void print_error_line(std::string_view line) noexcept {
  Console::of_process().erase_bar();
  try {
    std::string text;
    for (const char letter : line) (text += letter) += letter == '\n' ? "flotilla: " : "";
    write_fully(STDERR_FILENO, text + '\n');
  } catch (const std::bad_alloc&) {
    write_fully(STDERR_FILENO, line);
    write_fully(STDERR_FILENO, "\n");
  }
}

}  // namespace flotilla
