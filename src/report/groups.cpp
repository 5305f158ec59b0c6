// SPDX-License-Identifier: Apache-2.0
#include "src/report/groups.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "kernels/error.hpp"
#include "src/report/page_data.hpp"

namespace flotilla::report {

namespace {

/// What the names have in common at their beginning, without what belongs to the seed: "adam/seed-1" and
/// "adam/seed-2" are of "adam". Empty: nothing.
std::string common_name(const std::vector<std::string>& names) {
  std::string name = names.front();
  for (const std::string& other : names)
    name.resize(static_cast<std::size_t>(std::ranges::mismatch(name, other).in1 - name.begin()));
  const auto trim = [&](std::string_view dropped) { name.resize(name.find_last_not_of(dropped) + 1); };
  const std::size_t end = name.size();
  if (std::ranges::any_of(names, [&](const std::string& each) {
        return end == each.size() || std::isdigit(static_cast<unsigned char>(each[end])) != 0;
      }))
    trim("0123456789");
  for (const std::string_view word : {"seed", "-s", "_s", "/s"}) {
    trim("-_./ =");
    if (name.ends_with(word)) name.resize(name.size() - word.size());
  }
  return name;
}

/// The deck, the workers and the global batch of a run as text, without seed and output: equal for runs that
/// one group may hold. Empty: the run has no deck.
std::string setting_of(const RunRecord& run, std::string& seed) {
  std::map<std::string, std::string> values = deck_values(run.deck);
  if (values.empty()) return "";
  seed = values["run.seed"];
  values.erase("run.seed");
  values.erase("run.output");
  std::string text = cat(run.facts.workers, ' ', run.facts.global_batch, '\n');
  for (const auto& [key, value] : values) text += cat(key, '=', value, '\n');
  return text;
}

/// The line of a series: its means, if it was reduced.
const std::vector<Point>* line_of(const RunRecord& run, const std::string& series) {
  const auto means = run.series.find(mean_of(series));
  const auto found = means != run.series.end() ? means : run.series.find(series);
  return found == run.series.end() ? nullptr : &found->second;
}

/// Puts the mean and the deviation of a series of the members into the record.
void add_mean(const std::string& series, const std::vector<const RunRecord*>& members, RunRecord& record) {
  std::map<double, std::vector<double>> by_step;
  for (const RunRecord* member : members)
    if (const std::vector<Point>* line = line_of(*member, series))
      for (const Point& point : *line) by_step[point.step].push_back(point.value);
  for (auto& [step, values] : by_step) {
    if (values.size() < 2) continue;
    std::erase_if(values, [](double value) { return !std::isfinite(value); });
    const auto count = static_cast<double>(values.size());
    double sum = 0.0;
    for (const double value : values) sum += value;
    const double mean = sum / count;  // NaN where nothing is finite
    double squares = 0.0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    record.series[series].push_back({step, mean});
    record.series[deviation_of(series)].push_back({step, count > 1 ? std::sqrt(squares / (count - 1)) : 0.0});
  }
}

void add_phases(const std::vector<const RunRecord*>& members, RunRecord& record) {
  std::map<double, std::pair<int, PhaseReduction::Means>> by_step;
  for (const RunRecord* member : members)
    for (const PhaseReduction::Means& means : member->phases) {
      auto& [count, sums] = by_step[means.step];
      ++count;
      sums.step = means.step;
      for (std::size_t i = 0; i < phase_names.size(); ++i) sums.values[i] += means.values[i];
    }
  for (auto& [step, counted] : by_step) {
    if (counted.first < 2) continue;
    for (double& value : counted.second.values) value /= counted.first;
    record.phases.push_back(counted.second);
  }
}

}  // namespace

std::vector<RunGroup> groups_of(const std::vector<RunRecord>& runs) {
  std::map<std::string, std::vector<std::size_t>> of_setting;
  std::vector<std::string> settings;
  std::map<std::string, std::set<std::string>> seeds;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string seed;
    settings.push_back(setting_of(runs[i], seed));
    of_setting[settings.back()].push_back(i);
    seeds[settings.back()].insert(seed);
  }
  std::vector<RunGroup> groups;
  std::set<std::string> taken;
  for (const RunRecord& run : runs) taken.insert(run.name);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::vector<std::size_t>& members = of_setting[settings[i]];
    if (settings[i].empty() || members.size() < 2 || seeds[settings[i]].size() < members.size()) {
      groups.push_back({runs[i].name, {i}});
    } else if (members.front() == i) {
      std::vector<std::string> names;
      for (const std::size_t member : members) names.push_back(runs[member].name);
      std::string name = common_name(names);
      if (name.empty() || !taken.insert(name).second) name = cat(names.front(), " …");
      groups.push_back({std::move(name), members});
    }
  }
  return groups;
}

RunRecord mean_record(const RunGroup& group, const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> members;
  for (const std::size_t member : group.members) members.push_back(&runs[member]);
  const RunRecord& longest =
      **std::ranges::max_element(members, {}, [](const RunRecord* run) { return run->totals.end.step; });
  const RunRecord& first = *members.front();
  RunRecord record{.name = group.name, .folder = first.folder, .facts = first.facts};
  record.seeds = static_cast<std::int64_t>(members.size());
  record.totals.figure = first.totals.figure;
  record.totals.gap_of = first.totals.gap_of;
  record.totals.end = longest.totals.end;
  record.deck = first.deck;
  record.knots = longest.knots;
  std::set<std::string> series;
  for (const RunRecord* member : members)
    for (const auto& [key, points] : member->series)
      if (!key.starts_with(mean_of(""))) series.insert(key);
  for (const std::string& key : series) add_mean(key, members, record);
  add_phases(members, record);
  std::set<double> saved;
  for (const RunRecord* member : members) {
    record.totals.last_time = std::max(record.totals.last_time, member->totals.last_time);
    record.totals.step_lines = std::max(record.totals.step_lines, member->totals.step_lines);
    for (Mark mark : member->marks) {
      if (mark.kind == MarkKind::checkpoint && !saved.insert(mark.step).second) continue;
      mark.text = cat(member->name, ": ", mark.text);
      record.marks.push_back(std::move(mark));
    }
  }
  return record;
}

std::vector<RunRecord> folded(const std::vector<RunRecord>& runs) {
  std::vector<RunRecord> records;
  for (const RunGroup& group : groups_of(runs))
    records.push_back(group.members.size() > 1 ? mean_record(group, runs) : runs[group.members.front()]);
  return records;
}

}  // namespace flotilla::report
