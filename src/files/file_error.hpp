// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/error.hpp"

namespace flotilla {

/// The system cannot read a file that is there (an input/output error, a stale handle, no permission, no file
/// descriptor left …), so that nothing is known of its contents: it is not a damaged file.
struct UnreadableFile : UserError {
  UnreadableFile(const std::string& name, const std::string& reason);
};

/// What a user can do about an errno.
using Remedy = const char* (*)(int error);

/// The system's words for an errno: "No space left on device".
std::string system_message(int error);

/// "cannot open '/data/a.gz': No such file or directory; check the path".
/// @param remedy may be null
/// @throws UserError if nothing of this name is there, or a folder; else UnreadableFile
[[noreturn]] void fail_to_read(const std::string& name, int error, Remedy remedy = nullptr);

/// "cannot write '/data/a': No space left on device". @param remedy may be null  @throws UserError
[[noreturn]] void fail_to_write(const std::string& name, int error, Remedy remedy = nullptr,
                                const char* action = "write");

}  // namespace flotilla
