// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/open_files.hpp"

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"

namespace flotilla {

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
  if (file->stamp() != entry.stamp)
    throw UserError(cat(config::printable(entry.path),
                        ": has changed since it was opened; start again when it is complete"));
  return file;
}

}  // namespace flotilla
