// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/report/charts.hpp"
#include "src/report/run_record.hpp"

namespace flotilla::report {

/// A picture for a paper: SVG 1.1, white ground, labelled axes, a legend, colours as in the page.
struct Picture {
  std::string name;  ///< "loss": of its file, without the ending
  std::string svg;
};

/// One for each chart of the runs over the steps, and one of the phases of each run that reports them.
/// @param file_names of the runs, for the names of those
std::vector<Picture> pictures_of(const std::vector<RunRecord>& runs,
                                 const std::vector<std::string>& file_names);

/// At most about `count` + 1 round numbers from `from` to `to`.
std::vector<double> round_ticks(double from, double to, int count);

}  // namespace flotilla::report
