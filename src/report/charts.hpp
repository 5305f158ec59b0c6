// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// The style of a curve.
enum class CurveStyle { thin, strong };

/// A curve that each run has in a chart, if it reports that series.
struct ChartCurve {
  std::string series;  ///< Key in RunRecord::series
  std::string label;   ///< "validation"; empty where a chart has one curve for each run
  CurveStyle style = CurveStyle::strong;
};

/// The values of a chart that may be clipped: far outliers, which would otherwise take most of its height.
enum class Clipping { none, all_but_the_first, all };

/// The values that a chart shows; those beyond are marked at its edge. Infinite: nothing is clipped there.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// A chart of curves over the steps.
struct Chart {
  std::string name;   ///< "samples_per_s": also that of its picture's file
  std::string title;  ///< "Throughput"
  std::string unit;   ///< "samples/s"; empty: none
  bool from_zero = false;
  std::vector<ChartCurve> curves{};
  Clipping clipping = Clipping::none;
  bool has_stragglers = false;  ///< Stragglers are shown as bands: they explain the chart
  Bounds bounds{};              ///< What the runs' values leave of `clipping`
};

/// The charts for which at least one of the runs has a series. Curves that no run has are left out.
///
/// Outliers of a curve are values beyond Tukey's far fences, three times the quartiles' distance (at least a
/// tenth of the median) from them: on each side at most 5 % of the curve's values, the farthest. A side of a
/// chart is clipped at the last of the others if outliers would take more than half of its height.
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);

/// A picture for a paper: SVG 1.1, white ground, labelled axes, a legend, colours as in the page.
struct Picture {
  std::string name;  ///< "loss": of its file, without the ending
  std::string svg;
};

/// One for each chart of the runs, or of means over seeds, over the steps, and one of the phases of each run
/// that reports them.
/// @param file_names of the runs, for the names of those
std::vector<Picture> pictures_of(const std::vector<RunRecord>& runs,
                                 const std::vector<std::string>& file_names);

/// At most about `count` + 1 round numbers from `from` to `to`.
std::vector<double> round_ticks(double from, double to, int count);

}  // namespace flotilla::report
