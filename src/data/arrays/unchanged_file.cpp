// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/unchanged_file.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::uint32_t reads_between_checks = 1024;

}  // namespace

UnchangedFile::UnchangedFile(File file) : file_(std::move(file)), stamp_(file_.stamp()) {
  stamp_.bytes = file_.size();  // as it was opened
}

void UnchangedFile::check() const {
  if (file_.stamp() == stamp_) return;
  throw UserError(cat("'", name(), "' has been changed since it was opened, when it had ", size(),
                      " bytes; do not change it while it is read"));
}

void UnchangedFile::read(std::int64_t begin, std::span<std::byte> to) const {
  file_.read(begin, to);
  if (reads_.fetch_add(1, std::memory_order_relaxed) % reads_between_checks == 0) check();
}

void UnchangedFile::will_read(std::int64_t begin, std::int64_t bytes) const {
  file_.read_ahead(begin, bytes);
}

}  // namespace flotilla
