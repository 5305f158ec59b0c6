// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace flotilla {

/// `flotilla report`: of which runs, and what to write.
struct ReportArguments {
  std::vector<std::string> runs;  ///< Their folders
  std::string output;  ///< The page; empty: report.html in the folder of a single run, otherwise in the
                       ///< current folder
  std::string svg;     ///< Folder for a picture of each chart; empty: none
  std::string csv;     ///< Folder for tables of the steps and validations of each run; empty: none
};

/// Writes the page of the runs, and pictures and tables where they are asked for.
/// @param warn gets what could not be read
/// @returns a line for each that was written. @throws UserError
std::string make_report(const ReportArguments& given, const std::function<void(const std::string&)>& warn);

}  // namespace flotilla
