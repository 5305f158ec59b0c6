// SPDX-License-Identifier: Apache-2.0
#include "src/data/data_file.hpp"

#include <cerrno>

namespace flotilla {

namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return "check the path (paths in a deck are relative to the deck, in a list to its root)";
    case EISDIR: return "name a file in it";
    case EACCES:
    case EPERM: return "give yourself the right to read it (chmod, or the group it belongs to)";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    case EIO: return "check the disk or the network file system that it lies on";
    default: return "check that it can be read on this host";
  }
}

}  // namespace

File open_data_file(const std::string& path) {
  return File::open(path, remedy);
}

}  // namespace flotilla
