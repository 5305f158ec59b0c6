// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace flotilla {

/// Writes a line (or several) and a line feed to stdout: the tables of the commands. A closed pipe (`flotilla
/// inspect … | head`) or a closed stdout is no error. @throws UserError if the output fails otherwise (disk
/// full).
void print_line(std::string_view line);

/// `text` with control characters other than line feeds and tabs as "?": names and texts of files from other
/// people are shown on terminals, which would obey them.
std::string without_controls(std::string_view text);

/// Writes a line without its controls to stderr with one system call; what cannot be written is lost.
void print_error_line(std::string_view line) noexcept;

/// print_error_line() of "flotilla: warning: " and the text.
void print_warning(const std::string& text) noexcept;

}  // namespace flotilla
