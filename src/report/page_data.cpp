// SPDX-License-Identifier: Apache-2.0
#include "src/report/page_data.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <variant>

#include "src/config/deck_tree.hpp"
#include "src/config/values.hpp"
#include "src/observe/metrics.hpp"
#include "src/report/charts.hpp"
#include "src/report/groups.hpp"

namespace flotilla::report {

namespace {

std::string text_of(const config::Node& node);

struct NodeText {
  std::string operator()(const config::Node::Unsupported& value) const { return value.text; }
  std::string operator()(const std::vector<config::Node>& array) const {
    std::string text;
    for (const config::Node& element : array) text += (text.empty() ? "" : ", ") + text_of(element);
    return "[" + text + "]";
  }
  std::string operator()(const config::Table& table) const {
    std::string text;
    for (const config::Member& member : table)
      text += (text.empty() ? "" : ", ") + member.name + " = " + text_of(member.node);
    return "{" + text + "}";
  }
  template <class T>
  std::string operator()(const T& value) const {
    return config::toml_text(value);
  }
};

std::string text_of(const config::Node& node) {
  return std::visit(NodeText{}, node.value);
}

void collect(const config::Table& table, const std::string& prefix,
             std::map<std::string, std::string>& values) {
  for (const config::Member& member : table) {
    if (const auto* inner = std::get_if<config::Table>(&member.node.value)) {
      collect(*inner, prefix + member.name + ".", values);
    } else {
      values[prefix + member.name] = text_of(member.node);
    }
  }
}

}  // namespace

std::map<std::string, std::string> deck_values(const std::string& deck) {
  std::map<std::string, std::string> values;
  const auto parsed = config::parse_toml(deck);
  if (const auto* table = std::get_if<config::Table>(&parsed)) collect(*table, "", values);
  return values;
}

std::vector<DeckDifference> deck_differences(const std::vector<std::string>& decks) {
  std::vector<std::map<std::string, std::string>> values;
  std::set<std::string> keys;
  for (const std::string& deck : decks) {
    values.push_back(deck_values(deck));
    for (const auto& [key, value] : values.back()) keys.insert(key);
  }
  keys.erase("run.output");
  std::vector<DeckDifference> differences;
  for (const std::string& key : keys) {
    DeckDifference row{.key = key, .values = {}};
    for (const auto& of_deck : values) {
      const auto found = of_deck.find(key);
      row.values.push_back(found == of_deck.end() ? "" : found->second);
    }
    const auto differs = [&](const std::string& value) { return value != row.values.front(); };
    if (std::ranges::any_of(row.values, differs)) differences.push_back(std::move(row));
  }
  // Keys that only some decks have mostly follow from another key, such as the kind of the strategy: they
  // come last.
  std::ranges::stable_partition(differences, [](const DeckDifference& row) {
    return std::ranges::find(row.values, "") == row.values.end();
  });
  return differences;
}

namespace {

using Json = nlohmann::ordered_json;

/// Rounds to the digits that can be seen, which makes the page several times smaller.
double rounded(double value) {
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, 6);
  double result = value;
  std::from_chars(text.data(), written.ptr, result);
  return result;
}

/// A whole number without ".0".
Json step_json(double step) {
  return static_cast<std::int64_t>(step);
}

/// Two arrays: steps and values.
Json series_json(const std::vector<Point>& points) {
  Json steps = Json::array();
  Json values = Json::array();
  for (const Point& point : points) {
    steps.push_back(step_json(point.step));
    values.push_back(rounded(point.value));
  }
  return {std::move(steps), std::move(values)};
}

/// Seven arrays: steps and the phases' seconds.
Json phases_json(const std::vector<PhaseReduction::Means>& phases) {
  Json columns = Json::array();
  for (std::size_t i = 0; i <= phase_names.size(); ++i) columns.push_back(Json::array());
  for (const auto& mean : phases) {
    columns[0].push_back(step_json(mean.step));
    for (std::size_t i = 0; i < phase_names.size(); ++i) columns[i + 1].push_back(rounded(mean.values[i]));
  }
  return columns;
}

/// Four arrays: steps, seconds, epochs, samples.
Json knots_json(const std::vector<Knot>& knots) {
  Json columns = Json::array();
  for (int i = 0; i < 4; ++i) columns.push_back(Json::array());
  for (const Knot& knot : knots) {
    columns[0].push_back(step_json(knot.step));
    columns[1].push_back(rounded(knot.seconds));
    columns[2].push_back(rounded(knot.epochs));
    columns[3].push_back(step_json(knot.samples));
  }
  return columns;
}

const char* word_of(MarkKind kind) {
  switch (kind) {
    case MarkKind::checkpoint: return "checkpoint";
    case MarkKind::resume: return "resume";
    case MarkKind::straggler: return "straggler";
    case MarkKind::fault: break;
  }
  return "fault";
}

Json marks_json(const std::vector<Mark>& marks) {
  Json list = Json::array();
  for (const Mark& mark : marks)
    list.push_back({{"kind", word_of(mark.kind)},
                    {"step", step_json(mark.step)},
                    {"until", step_json(mark.until)},
                    {"text", mark.text}});
  return list;
}

/// The metric that a run is compared by; null: none that is known.
const Metric* figure_metric(const RunTotals& totals) {
  constexpr std::string_view average = "average_";
  const std::string_view figure = totals.figure;
  return find_metric(figure.starts_with(average) ? figure.substr(average.size()) : figure);
}

/// Decimals of a percentage of so many samples: no digit is finer than one sample. Null: that is not known.
Json decimals_of(std::int64_t samples) {
  if (samples <= 0) return nullptr;
  int decimals = -2;
  for (std::int64_t rest = samples; rest >= 10; rest /= 10) ++decimals;
  return std::max(0, decimals);
}

Json totals_json(const RunTotals& totals, std::int64_t validation_samples) {
  Json improvements = Json::array();
  for (const Improvement& better : totals.improvements)
    improvements.push_back({better.value, step_json(better.at.step), rounded(better.at.seconds),
                            rounded(better.at.epochs), step_json(better.at.samples)});
  const Metric* const metric = figure_metric(totals);
  return {{"figure", totals.figure},
          {"is_share", metric != nullptr && metric->unit == "fraction"},
          {"decimals", decimals_of(validation_samples)},
          {"improvements", std::move(improvements)},
          {"last_figure", totals.last_figure},
          {"gap_of", totals.gap_of},
          {"gap", totals.gap},
          {"best_loss", totals.best_loss},
          {"training_loss", totals.training_loss},
          {"step", step_json(totals.end.step)},
          {"epochs", rounded(totals.end.epochs)},
          {"seconds", rounded(totals.end.seconds)},
          {"samples_per_s", rounded(totals.samples_per_s)},
          {"sent_bytes", rounded(totals.sent_bytes)},
          {"exposed_share", rounded(totals.exposed_share)},
          {"memory_bytes", rounded(totals.memory_bytes)},
          {"last_time", totals.last_time},
          {"lines", totals.step_lines},
          {"ending", totals.ending}};
}

Json run_json(const RunRecord& run, const std::vector<Chart>& charts) {
  Json series = Json::object();
  for (const Chart& chart : charts)
    for (const ChartCurve& curve : chart.curves)
      for (const std::string& key : {curve.series, mean_of(curve.series), deviation_of(curve.series)})
        if (const auto found = run.series.find(key); found != run.series.end())
          series[key] = series_json(found->second);
  const RunFacts& facts = run.facts;
  return {{"name", run.name},
          {"folder", run.folder},
          {"facts",
           {{"device", facts.device},
            {"all_reduce", facts.all_reduce},
            {"workers", facts.workers},
            {"global_batch", facts.global_batch},
            {"parameters", facts.parameters}}},
          {"series", std::move(series)},
          {"phases", phases_json(run.phases)},
          {"knots", knots_json(run.knots)},
          {"marks", marks_json(run.marks)},
          {"totals", totals_json(run.totals, facts.validation_samples)},
          {"evaluation", run.evaluation.empty() ? Json() : Json::parse(run.evaluation)},
          {"deck", run.deck},
          {"warnings", run.warnings}};
}

Json chart_json(const Chart& chart) {
  Json curves = Json::array();
  for (const ChartCurve& curve : chart.curves)
    curves.push_back(
        {{"series", curve.series}, {"label", curve.label}, {"thin", curve.style == CurveStyle::thin}});
  return {{"name", chart.name},
          {"title", chart.title},
          {"unit", chart.unit},
          {"from_zero", chart.from_zero},
          {"has_stragglers", chart.has_stragglers},
          {"bounds", {chart.bounds.low, chart.bounds.high}},
          {"curves", std::move(curves)}};
}

/// Replaces `mark` in the page by `text`.
void put_in(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string page_data(const std::vector<RunRecord>& runs) {
  Json data;
  const std::vector<Chart> charts = charts_of(runs);
  data["charts"] = Json::array();
  for (const Chart& chart : charts) data["charts"].push_back(chart_json(chart));
  data["phases"] = phase_names;
  data["runs"] = Json::array();
  for (const RunRecord& run : runs) data["runs"].push_back(run_json(run, charts));
  data["groups"] = Json::array();
  std::vector<std::string> decks;
  for (const RunGroup& group : groups_of(runs)) {
    if (const std::string& deck = runs[group.members.front()].deck; !deck.empty()) decks.push_back(deck);
    Json json = group.members.size() > 1 ? run_json(mean_record(group, runs), charts) : Json::object();
    json["members"] = group.members;
    data["groups"].push_back(std::move(json));
  }
  data["differences"] = Json::array();
  if (decks.size() == data["groups"].size())
    for (const DeckDifference& row : deck_differences(decks))
      data["differences"].push_back({{"key", row.key}, {"values", row.values}});
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string page_of(const std::vector<RunRecord>& runs) {
  std::string page(page_html);
  put_in(page, "/*style*/", page_css);
  put_in(page, "/*script*/", page_js);
  put_in(page, "/*data*/", page_data(runs));
  return page;
}

}  // namespace flotilla::report
