// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// A file to be copied to a host.
struct StagedFile {
  std::string path{};  ///< Absolute path of the original
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< When the original was changed last, since 1970
  friend bool operator==(const StagedFile&, const StagedFile&) = default;
};

/// All files that training and validation read. The copies have the same paths, below a folder whose name is
/// made of the list: after any change the folder is another one, so that old and new copies are never mixed.
struct StagePlan {
  std::vector<StagedFile> files{};     ///< Each once, by path
  std::vector<std::string> folders{};  ///< Folders that must exist, empty or not
  std::string left_out{};  ///< LeftOut::text() of other files found next to the data; not a part of text()

  std::int64_t bytes() const;
  std::string name() const;  ///< "flotilla-0123456789abcdef"
  std::string text() const;  ///< Serialised, for other hosts
  static StagePlan of_text(std::string_view text);
  friend bool operator==(const StagePlan&, const StagePlan&) = default;
};

/// The files that one of the two sources of `data` reads, there or not; not for random data.
/// @throws UserError as opening the data would
std::vector<std::string> files_of(const DataConfig& data, const DataSourceConfig& source,
                                  std::int64_t classes);

/// Examines the originals. @param classes of the model  @param beat called now and then
/// @throws UserError as opening the data would, or naming a file that cannot be examined
StagePlan plan_staging(const DataConfig& data, std::int64_t classes, const std::function<void()>& beat);

/// The path of the copy of `path` below `folder`; `path` itself where `folder` is empty.
std::string staged_path(const std::string& folder, const std::string& path);

/// `data` with the paths of its copies below `folder`.
DataConfig staged_data(DataConfig data, const std::string& folder);

}  // namespace flotilla
