// SPDX-License-Identifier: Apache-2.0
#include "src/observe/print.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <new>
#include <string>
#include <thread>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

/// Gives a launcher time to read a long text. That of Open MPI 5 reads 4,096 bytes at a time, and where the
/// end of a line is missing it puts the beginning before what it reads next, from stderr too
/// (openpmix/openpmix issue 3858).
void let_a_launcher_read(std::size_t bytes) {
  constexpr std::size_t one_reading = 4095;
  struct stat status {};
  if (bytes <= one_reading || fstat(STDOUT_FILENO, &status) != 0 || S_ISREG(status.st_mode)) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace

void print_line(std::string_view line) {
  const int error = write_fully(STDOUT_FILENO, std::string(line) + '\n');
  if (error != 0 && error != EPIPE && error != EBADF) {
    throw UserError(cat("cannot write to the standard output: ", system_message(error)));
  }
  let_a_launcher_read(line.size());
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80 && byte < 0xA0 && out.ends_with('\xC2')) {  // U+0080 to U+009F in UTF-8
      out.back() = '?';
    } else {
      out += (byte < 0x20 && letter != '\n' && letter != '\t') || byte == 0x7F ? '?' : letter;
    }
  }
  return out;
}

void print_error_line(std::string_view line) noexcept {
  Console::of_process().erase_bar();
  try {
    std::string text;
    for (const char letter : without_controls(line)) (text += letter) += letter == '\n' ? "flotilla: " : "";
    write_fully(STDERR_FILENO, text + '\n');
  } catch (const std::bad_alloc&) {
    write_fully(STDERR_FILENO, line);
    write_fully(STDERR_FILENO, "\n");
  }
}

void print_warning(const std::string& text) noexcept {
  print_error_line("flotilla: warning: " + text);
}

}  // namespace flotilla
