// SPDX-License-Identifier: Apache-2.0
#include "src/observe/metrics_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

/// Whether a line is about a step after `step`; true for broken lines.
bool is_after(const std::string& line, std::int64_t step) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return true;
  for (const char* key : {"step", "first_step"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_number_integer() && found->get<std::int64_t>() > step) return true;
  }
  return false;
}

}  // namespace

MetricsFile::MetricsFile(std::string path) : path_(std::move(path)) {
  open_file(O_TRUNC);
}

MetricsFile::MetricsFile(std::string path, std::int64_t resumed_step) : path_(std::move(path)) {
  if (is_there(path_)) {
    std::ifstream before(path_);
    if (!before) fail_to_read(path_, errno);
    AtomicFile after(path_);
    std::string line;
    while (std::getline(before, line)) {
      if (!is_after(line, resumed_step)) after.append(line + '\n');
    }
    if (before.bad()) fail_to_read(path_, errno);
    after.commit();
  }
  open_file(0);
}

MetricsFile::~MetricsFile() {
  close(descriptor_);
}

void MetricsFile::open_file(int flags) {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

int MetricsFile::write(const std::string& line) {
  struct stat before {};
  const bool known = fstat(descriptor_, &before) == 0;
  if (known && before.st_nlink == 0) {  // the file was removed: what is written now would be lost
    ++lost_lines_;
    return ENOENT;
  }
  const int error = write_fully(descriptor_, line);
  if (error != 0) {
    ++lost_lines_;
    // A truncation that fails as well leaves a broken line, which a resume drops.
    if (known && ftruncate(descriptor_, before.st_size) != 0) return errno;
  }
  return error;
}

}  // namespace flotilla
