// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/open_files.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"

namespace flotilla {

FileStamp stamp_of(const File& file) {
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) fail_to_read(file.name(), errno);
  return {status.st_size, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::shared_ptr<const File> OpenFiles::open(std::size_t number) const {
  const Entry& entry = files_[number];
  std::shared_ptr<const File> file;
  {
    const std::lock_guard lock(mutex_);
    if (!entry.file) {
      entry.file = std::make_shared<const File>(open_data_file(entry.path));
      opened_.push_back(number);
      if (opened_.size() > most_) {
        files_[opened_.front()].file.reset();
        opened_.pop_front();
      }
    }
    file = entry.file;
  }
  if (stamp_of(*file) != entry.stamp)
    throw UserError(cat(config::printable(entry.path),
                        ": has changed since it was opened; start again when it is complete"));
  return file;
}

}  // namespace flotilla
