// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/data/clicks/click_logs.hpp"
#include "src/data/clicks/line_format.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// "/data/day_0.tsv:17: ". @param begin byte of the line
std::string place_of(const ClickFile& file, std::int64_t begin);

/// The format of the lines of the deck's kind, Criteo or LIBSVM; null of another kind.
std::unique_ptr<const LineFormat> line_format(const DataRequest& request);

/// How ClickLogs::open() opens what is requested.
ClickOpening click_opening(const DataRequest& request, const LineFormat& format);

/// The click data that `path` names, sample after sample and file after file. Samples are read from disk each
/// time.
/// @throws UserError naming file, line and remedy
std::unique_ptr<Dataset> make_click_dataset(std::shared_ptr<const ClickLogs> logs,
                                            std::unique_ptr<const LineFormat> format,
                                            const std::string& path);

/// Opens and reads the files alone. @param format that of `opening`  @throws UserError
std::unique_ptr<Dataset> make_click_dataset(const ClickOpening& opening,
                                            std::unique_ptr<const LineFormat> format);

}  // namespace flotilla
