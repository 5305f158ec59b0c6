// SPDX-License-Identifier: Apache-2.0
#include "src/files/file_error.hpp"

#include <cerrno>
#include <system_error>

namespace flotilla {

namespace {

std::string reason(int error, Remedy remedy) {
  return remedy == nullptr ? system_message(error) : cat(system_message(error), "; ", remedy(error));
}

}  // namespace

UnreadableFile::UnreadableFile(const std::string& name, const std::string& reason)
    : UserError(cat("cannot read '", name, "': ", reason)) {}

std::string system_message(int error) {
  return std::generic_category().message(error);
}

void fail_to_read(const std::string& name, int error, Remedy remedy) {
  if (error == ENOENT || error == ENOTDIR || error == EISDIR)
    throw UserError(cat("cannot open '", name, "': ", reason(error, remedy)));
  throw UnreadableFile(name, reason(error, remedy));
}

void fail_to_write(const std::string& name, int error, Remedy remedy, const char* action) {
  throw UserError(cat("cannot ", action, " '", name, "': ", reason(error, remedy)));
}

}  // namespace flotilla
