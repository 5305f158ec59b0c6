// SPDX-License-Identifier: Apache-2.0
#include "src/report/charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "kernels/error.hpp"
#include "src/observe/metrics.hpp"

namespace flotilla::report {

namespace {

/// Curves of a metric in training and in validations.
std::vector<ChartCurve> curves_of(const Metric& metric) {
  const std::string key(metric.key);
  return {{"step." + key, "training", CurveStyle::thin},
          {"validation." + key, "validation", CurveStyle::strong},
          {"validation." + metric.average_key(), "validation, averaged weights", CurveStyle::strong}};
}

/// A chart of what lines about steps report.
Chart step_chart(const char* name, const char* title, const char* unit, const char* key) {
  const bool of_time = std::string_view(key) == "step_s" || std::string_view(key) == "samples_per_s";
  return {name,
          title,
          unit,
          true,
          {{cat("step.", key), "", CurveStyle::strong}},
          of_time ? Clipping::all : Clipping::none,
          of_time};
}

std::vector<Chart> all_charts() {
  std::map<int, const Metric*> shown;
  for (const Metric& metric : metrics())
    if (metric.chart.place > 0) shown.emplace(metric.chart.place, &metric);
  std::vector<Chart> charts;
  for (const auto& [place, metric] : shown)
    charts.push_back({std::string(metric->chart.name), std::string(metric->chart.title),
                      std::string(metric->unit), metric->chart.from_zero, curves_of(*metric),
                      Clipping::all_but_the_first});
  for (const Chart& chart :
       {step_chart("learning_rate", "Learning rate", "", "learning_rate"),
        step_chart("samples_per_s", "Throughput", "samples/s", "samples_per_s"),
        step_chart("step_s", "Time of a step", "s", "step_s"),
        step_chart("period", "Period of local SGD", "steps", "period"),
        step_chart("staleness", "Staleness of pushes, mean of the workers", "updates", "staleness"),
        step_chart("memory", "Memory of rank 0", "bytes", "memory_bytes")})
    charts.push_back(chart);
  return charts;
}

void include(Bounds& bounds, double value) {
  bounds.low = std::min(bounds.low, value);
  bounds.high = std::max(bounds.high, value);
}

constexpr Bounds nothing = {.low = std::numeric_limits<double>::infinity(),
                            .high = -std::numeric_limits<double>::infinity()};

/// Extends `all` by the values of a curve and `kept` by those that are no outliers.
void add_curve(const std::vector<Point>& points, Clipping clipping, Bounds& all, Bounds& kept) {
  std::vector<double> values;
  for (const Point& point : points)
    if (std::isfinite(point.value)) values.push_back(point.value);
  if (values.empty()) return;
  const double first = values.front();
  std::ranges::sort(values);
  const std::size_t count = values.size();
  const auto [low, middle, high] = std::tuple(values[count / 4], values[count / 2], values[count * 3 / 4]);
  const double room = 3.0 * std::max(high - low, 0.1 * std::abs(middle));
  const std::size_t most = clipping == Clipping::none ? 0 : std::max<std::size_t>(1, count / 20);
  const auto below = static_cast<std::size_t>(std::ranges::lower_bound(values, low - room) - values.begin());
  const auto above = static_cast<std::size_t>(values.end() - std::ranges::upper_bound(values, high + room));
  for (const double value : {values.front(), values.back()}) include(all, value);
  for (const std::size_t i : {std::min(below, most), count - 1 - std::min(above, most)})
    include(kept, values[i]);
  if (clipping == Clipping::all_but_the_first) include(kept, first);
}

Bounds bounds_of(const Chart& chart, const std::vector<RunRecord>& runs) {
  Bounds all = nothing;
  Bounds kept = nothing;
  for (const RunRecord& run : runs)
    for (const ChartCurve& curve : chart.curves)
      if (const auto found = run.series.find(curve.series); found != run.series.end())
        add_curve(found->second, chart.clipping, all, kept);
  if (chart.from_zero)
    for (Bounds* bounds : {&all, &kept}) include(*bounds, 0.0);
  const double height = kept.high - kept.low;
  Bounds bounds;
  if (all.high > kept.high + height) bounds.high = kept.high;
  if (all.low < kept.low - height) bounds.low = kept.low;
  return bounds;
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<Chart> charts = all_charts();
  const bool has_numbers =
      std::ranges::any_of(runs, [](const RunRecord& run) { return run.series.contains("validation.rmse"); });
  for (Chart& chart : charts) {
    if (chart.name == "loss" && has_numbers) chart.unit = "";  // nats are of classes
    // Runs of clicks report an accuracy too, which says little where clicks are rare.
    std::erase_if(chart.curves, [&](const ChartCurve& curve) {
      return std::ranges::none_of(runs, [&](const RunRecord& run) {
        const bool clicks = run.series.contains("step.auc") || run.series.contains("validation.auc");
        return run.series.contains(curve.series) && !(clicks && chart.name == "accuracy");
      });
    });
  }
  std::erase_if(charts, [](const Chart& chart) { return chart.curves.empty(); });
  for (Chart& chart : charts) chart.bounds = bounds_of(chart, runs);
  return charts;
}

namespace {

constexpr std::array<std::string_view, 8> run_colors = {"#0072b2", "#d55e00", "#00845f", "#a8468a",
                                                        "#806c00", "#4a5563", "#3c8fd0", "#a0522d"};
constexpr std::array<std::string_view, 4> run_dashes = {"", "8 4", "2 4", "10 3 2 3"};
constexpr std::array<std::string_view, 6> phase_colors = {"#e69f00", "#7cc4ee", "#0072b2",
                                                          "#d55e00", "#009e73", "#b4bcc6"};
constexpr double width = 640;
constexpr double left = 92;
constexpr double right = 620;
constexpr double plot_height = 300;
constexpr double legend_row = 22;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {  // XML knows no other control characters
      safe += c;
    }
  }
  return safe;
}

/// "12.5k": a number with a prefix of powers of 1000.
std::string tick_text(double value) {
  constexpr std::array<std::string_view, 5> prefixes = {"", "k", "M", "G", "T"};
  std::size_t power = 0;
  while (std::abs(value) >= 1000.0 - 1e-6 && power + 1 < prefixes.size()) {
    value /= 1000.0;
    ++power;
  }
  return fmt::format("{:.4g}{}", std::abs(value) < 1e-15 ? 0.0 : value, prefixes[power]);
}

struct LegendEntry {
  std::string text;
  std::string mark;  ///< SVG elements, drawn around 0, 0
};

/// A picture while it is drawn: legend, then the plot below it with its scales.
class Drawing {
 public:
  Drawing(Point range_x, Point range_y, const std::vector<LegendEntry>& legend)
      : x_(range_x), y_(range_y), top_(16 + legend_row * draw_legend(legend)) {}

  double x(double value) const { return left + (value - x_.step) / (x_.value - x_.step) * (right - left); }
  /// The height of a value, or of the edge that it is beyond.
  double y(double value) const {
    const double part = (value - y_.step) / (y_.value - y_.step);
    return top_ + plot_height - std::clamp(part, 0.0, 1.0) * plot_height;
  }
  /// The height of a mark at the upper or lower edge.
  double edge(bool upper) const { return upper ? top_ + 8 : top_ + plot_height - 8; }
  bool shows_y(double value) const { return y_.step <= value && value <= y_.value; }
  void add(const std::string& element) { body_ += element + "\n"; }

  void draw_axes(const std::string& label_x, const std::string& label_y) {
    const double bottom = top_ + plot_height;
    for (const double tick : round_ticks(y_.step, y_.value, 6)) {
      add(fmt::format(R"(<line x1="{:g}" x2="{:g}" y1="{:.2f}" y2="{:.2f}" stroke="#dddddd"/>)", left, right,
                      y(tick), y(tick)));
      add(fmt::format(R"(<text x="{:g}" y="{:.2f}" text-anchor="end">{}</text>)", left - 8, y(tick) + 5,
                      tick_text(tick)));
    }
    for (const double tick : round_ticks(x_.step, x_.value, 7)) {
      add(fmt::format(R"(<line x1="{0:.2f}" x2="{0:.2f}" y1="{1:g}" y2="{2:g}" stroke="#000000"/>)", x(tick),
                      bottom, bottom + 6));
      add(fmt::format(R"(<text x="{:.2f}" y="{:g}" text-anchor="middle">{}</text>)", x(tick), bottom + 22,
                      tick_text(tick)));
    }
    add(fmt::format(R"(<path d="M{:g},{:g}V{:g}H{:g}" fill="none" stroke="#000000"/>)", left, top_, bottom,
                    right));
    add(fmt::format(R"(<text x="{:g}" y="{:g}" text-anchor="middle">{}</text>)", (left + right) / 2,
                    bottom + 46, escaped(label_x)));
    add(fmt::format(
        R"svg(<text transform="translate(22,{:g}) rotate(-90)" text-anchor="middle">{}</text>)svg",
        top_ + plot_height / 2, escaped(label_y)));
  }

  std::string text() const {
    const double height = top_ + plot_height + 60;
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 0 {0:g} {1:g}")"
               " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"15\">\n"
               "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
               width, height) +
           body_ + "</svg>\n";
  }

 private:
  /// @returns the number of rows
  double draw_legend(const std::vector<LegendEntry>& legend) {
    double row = 0;
    double at = left;
    for (const LegendEntry& entry : legend) {
      const double needed = 52 + 7.6 * static_cast<double>(entry.text.size());
      if (at > left && at + needed > width) {
        ++row;
        at = left;
      }
      add(fmt::format(R"svg(<g transform="translate({:g},{:g})">{}<text x="38" y="5">{}</text></g>)svg", at,
                      16 + row * legend_row, entry.mark, escaped(entry.text)));
      at += needed;
    }
    return legend.empty() ? 0.0 : row + 1;
  }

  Point x_;  ///< Map of an axis: from `step` to `value`
  Point y_;
  std::string body_;
  double top_;
};

std::string line_style(std::size_t run, CurveStyle style) {
  const std::string_view dash = run_dashes[run / run_colors.size() % run_dashes.size()];
  return fmt::format(R"(fill="none" stroke="{}" stroke-width="{}"{})", run_colors[run % run_colors.size()],
                     style == CurveStyle::thin ? "1" : "2.2",
                     dash.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", dash));
}

/// The marker that distinguishes runs without colours: a circle, a square, a triangle or a diamond.
std::string marker_of(std::size_t run, double x, double y) {
  constexpr std::array<std::string_view, 4> shapes = {"m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0Z",
                                                      "m-3.6,-3.6h7.2v7.2h-7.2Z", "m0,-5l4.6,8.2h-9.2Z",
                                                      "m0,-5.2l5,5.2l-5,5.2l-5,-5.2Z"};
  return fmt::format(R"(<path d="M{:.2f},{:.2f}{}" fill="{}"/>)", x, y, shapes[run % shapes.size()],
                     run_colors[run % run_colors.size()]);
}

std::string path_of(const Drawing& drawing, const std::vector<Point>& points) {
  std::string path;
  bool drawing_on = false;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) {
      drawing_on = false;
      continue;
    }
    path +=
        fmt::format("{}{:.2f},{:.2f}", drawing_on ? 'L' : 'M', drawing.x(point.step), drawing.y(point.value));
    drawing_on = true;
  }
  return path;
}

/// A line, with markers where they leave room between them.
void draw_curve(Drawing& drawing, const std::vector<Point>& points, std::size_t run, CurveStyle style) {
  constexpr std::size_t max_markers = 40;
  drawing.add(cat("<path d=\"", path_of(drawing, points), "\" ", line_style(run, style), "/>"));
  if (style == CurveStyle::thin || points.size() > max_markers) return;
  for (const Point& point : points)
    if (drawing.shows_y(point.value))  // not NaN, no outlier
      drawing.add(marker_of(run, drawing.x(point.step), drawing.y(point.value)));
}

/// The colour of a run's band: a third of its own, the rest white.
std::string pale_color(std::size_t run) {
  const auto rgb = std::stoul(std::string(run_colors[run % run_colors.size()].substr(1)), nullptr, 16);
  const auto pale = [&](int shift) { return 255 - (255 - (rgb >> shift & 255U)) / 3; };
  return fmt::format("#{:02x}{:02x}{:02x}", pale(16), pale(8), pale(0));
}

/// The values of a reduced series, or the deviations from a mean over seeds, below all lines.
void draw_band(Drawing& drawing, const RunRecord& run, const ChartCurve& curve, std::size_t index) {
  if (const auto found = run.series.find(deviation_of(curve.series)); found != run.series.end()) {
    std::vector<Point> outline;
    for (const double sign : {1.0, -1.0}) {
      for (std::size_t i = 0; i < found->second.size(); ++i) {
        const auto [step, mean] = run.series.find(curve.series)->second[i];
        if (std::isfinite(mean)) outline.push_back({step, mean + sign * found->second[i].value});
      }
      if (sign > 0.0) std::ranges::reverse(outline);
    }
    drawing.add(fmt::format(R"(<path class="deviation" d="{}Z" fill="{}" fill-opacity="0.18"/>)",
                            path_of(drawing, outline), run_colors[index % run_colors.size()]));
  }
  if (run.series.contains(mean_of(curve.series)))
    drawing.add(cat("<path d=\"", path_of(drawing, run.series.find(curve.series)->second),
                    "\" fill=\"none\" stroke=\"", pale_color(index), "\"/>"));
}

/// The line of a series: its means, if it was reduced.
void draw_line(Drawing& drawing, const RunRecord& run, const ChartCurve& curve, std::size_t index) {
  const auto means = run.series.find(mean_of(curve.series));
  const auto line = means != run.series.end() ? means : run.series.find(curve.series);
  if (line != run.series.end()) draw_curve(drawing, line->second, index, curve.style);
}

/// An arrow at the edge, in a colour, pointing out of the plot.
std::string arrow_of(double x, double y, bool up, std::string_view color) {
  return fmt::format(
      R"(<path class="beyond" d="M{:.2f},{:.2f}l4.5,{}l4.5,{}" fill="none" stroke="{}" stroke-width="1.8"/>)",
      x - 4.5, y, up ? "-6" : "6", up ? "6" : "-6", color);
}

/// A mark for each value that the chart's bounds leave out.
void draw_outliers(Drawing& drawing, const RunRecord& run, const ChartCurve& curve, std::size_t index) {
  const auto found = run.series.find(curve.series);
  if (found == run.series.end()) return;
  for (const Point& point : found->second)
    if (std::isfinite(point.value) && !drawing.shows_y(point.value)) {
      const bool up = drawing.y(point.value) < drawing.edge(true);
      drawing.add(
          arrow_of(drawing.x(point.step), drawing.edge(up), up, run_colors[index % run_colors.size()]));
    }
}

/// The limits of what a chart shows, with room around it. Nothing finite: 0 to 1.
Point range_of(const Chart& chart, const std::vector<RunRecord>& runs) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const RunRecord& run : runs)
    for (const ChartCurve& curve : chart.curves)
      if (const auto found = run.series.find(curve.series); found != run.series.end())
        for (const Point& point : found->second)
          if (std::isfinite(point.value)) {
            const double value = std::clamp(point.value, chart.bounds.low, chart.bounds.high);
            low = std::min(low, value);
            high = std::max(high, value);
          }
  if (low > high) return {0.0, 1.0};
  if (chart.from_zero) low = std::min(0.0, low);
  const double room = high > low ? 0.05 * (high - low) : std::max(1e-12, 0.1 * std::abs(high));
  return {chart.from_zero ? low : low - room, high + room};
}

Point steps_of(const std::vector<RunRecord>& runs) {
  double last = 1.0;
  for (const RunRecord& run : runs) last = std::max(last, run.totals.end.step);
  return {0.0, last};
}

std::string label_of(const Chart& chart) {
  return chart.unit.empty() ? chart.title : cat(chart.title, " (", chart.unit, ")");
}

bool is_clipped(const Chart& chart) {
  return std::isfinite(chart.bounds.low) || std::isfinite(chart.bounds.high);
}

std::vector<LegendEntry> legend_of(const Chart& chart, const std::vector<RunRecord>& runs) {
  std::vector<LegendEntry> legend;
  if (runs.size() > 1)
    for (std::size_t i = 0; i < runs.size(); ++i)
      legend.push_back(
          {runs[i].seeds > 1 ? cat(runs[i].name, ", ", runs[i].seeds, " seeds") : runs[i].name,
           cat("<path d=\"M0,0H30\" ", line_style(i, CurveStyle::strong), "/>", marker_of(i, 15.0, 0.0))});
  if (chart.curves.size() > 1)
    for (const ChartCurve& curve : chart.curves)
      legend.push_back({curve.label, fmt::format(R"(<path d="M0,0H30" stroke="#000000" stroke-width="{}"/>)",
                                                 curve.style == CurveStyle::thin ? "1" : "2.2")});
  if (std::ranges::any_of(runs, [](const RunRecord& run) { return run.seeds > 1; }))
    legend.push_back({"mean ± standard deviation of seeds",
                      R"(<rect y="-7" width="30" height="14" fill="#000000" fill-opacity="0.18"/>)"});
  if (is_clipped(chart))
    legend.push_back({"outliers, beyond the edge", arrow_of(15.0, 3.0, true, "#000000")});
  return legend;
}

std::string picture_of(const Chart& chart, const std::vector<RunRecord>& runs) {
  Drawing drawing(steps_of(runs), range_of(chart, runs), legend_of(chart, runs));
  drawing.draw_axes("step", label_of(chart));
  for (const auto& draw : {draw_band, draw_line, draw_outliers})
    for (std::size_t i = 0; i < runs.size(); ++i)
      for (const ChartCurve& curve : chart.curves) draw(drawing, runs[i], curve, i);
  return drawing.text();
}

std::string picture_of_phases(const RunRecord& run) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < phase_names.size(); ++i)
    legend.push_back(
        {std::string(phase_names[i]),
         fmt::format(R"(<rect x="12" y="-7" width="18" height="14" fill="{}"/>)", phase_colors[i])});
  double most = 0.0;
  for (const auto& mean : run.phases) {
    double sum = 0.0;
    for (const double seconds : mean.values) sum += seconds;
    most = std::max(most, sum);
  }
  Drawing drawing({0.0, std::max(1.0, run.phases.back().step)}, {0.0, std::max(1e-6, 1.05e3 * most)}, legend);
  drawing.draw_axes("step", "Time of a step (ms)");
  std::vector<double> base(run.phases.size());
  for (std::size_t phase = 0; phase < phase_names.size(); ++phase) {
    std::string upper;
    std::string lower;
    double before = run.knots.empty() ? 0.0 : run.knots.front().step;
    for (std::size_t i = 0; i < run.phases.size(); ++i) {
      const double next = base[i] + 1e3 * run.phases[i].values[phase];
      const double from = drawing.x(before);
      const double to = drawing.x(run.phases[i].step);
      upper += fmt::format("{}{:.2f},{:.2f}H{:.2f}", i == 0 ? 'M' : 'L', from, drawing.y(next), to);
      lower.insert(0, fmt::format("L{:.2f},{:.2f}H{:.2f}", to, drawing.y(base[i]), from));
      base[i] = next;
      before = run.phases[i].step;
    }
    drawing.add(fmt::format(R"(<path d="{}{}Z" fill="{}"/>)", upper, lower, phase_colors[phase]));
  }
  return drawing.text();
}

}  // namespace

std::vector<double> round_ticks(double from, double to, int count) {
  // In a narrower range, which only rounding leaves, ticks could not be told apart.
  const double narrowest = 1e-12 * std::max(std::abs(from), std::abs(to));
  const double raw = std::max(to - from, narrowest) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= 0.999 * raw) step = factor * power;
  std::vector<double> ticks;
  const double first = std::ceil(from / step - 1e-9);
  for (int i = 0; i <= count && (first + i) * step <= to + 1e-9 * step; ++i)
    ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<Picture> pictures_of(const std::vector<RunRecord>& runs,
                                 const std::vector<std::string>& file_names) {
  std::vector<Picture> pictures;
  for (const Chart& chart : charts_of(runs)) pictures.push_back({chart.name, picture_of(chart, runs)});
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].phases.empty())
      pictures.push_back(
          {runs.size() == 1 ? "phases" : cat("phases-", file_names[i]), picture_of_phases(runs[i])});
  return pictures;
}

}  // namespace flotilla::report
