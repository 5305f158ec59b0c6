// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// How a curve is drawn.
enum class CurveStyle { thin, strong };

/// A curve that each run has in a chart, if it reports that series.
struct ChartCurve {
  std::string series;  ///< Key in RunRecord::series
  std::string label;   ///< "validation"; empty where a chart has one curve for each run
  CurveStyle style = CurveStyle::strong;
};

/// A chart of curves over the steps.
struct Chart {
  std::string name;   ///< "samples_per_s": also that of its picture's file
  std::string title;  ///< "Throughput"
  std::string unit;   ///< "samples/s"; empty: none
  bool from_zero = false;
  std::vector<ChartCurve> curves{};
};

/// The charts for which at least one of the runs has a series. Curves that no run has are left out.
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);

}  // namespace flotilla::report
