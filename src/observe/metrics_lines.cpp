// SPDX-License-Identifier: Apache-2.0
#include "src/observe/metrics_lines.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

using Json = nlohmann::ordered_json;

template <class T, class Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

// The schema: each report is described once, and the lines, their reading and the table of the documentation
// follow.

/// Visits the value of a key as an optional, which becomes the value where the visitor reads.
template <class Values, class Visit>
void visit_value(Values& values, std::string_view key, const Visit& visit) {
  const std::string name(key);
  std::optional<typename Values::mapped_type> value;
  if (const auto found = values.find(name); found != values.end()) value = found->second;
  visit(value);
  if constexpr (!std::is_const_v<Values>)
    if (value) values.insert_or_assign(name, *value);
}

template <MaybeConst<StartReport> Report, class Visitor>
void visit_keys(Report& report, Visitor& key) {
  key("deck", report.deck, "", "the deck's path");
  key("workers", report.workers, "ranks", "ranks that train");
  key("hosts", report.hosts, "", "that the ranks run on, servers included");
  key("steps", report.steps, "steps",
      "done at the end of the run; 0: not known, where train.seconds ends it");
  key("steps_per_epoch", report.steps_per_epoch, "steps", "of an epoch");
  key("first_step", report.first_step, "steps", "done before; more than 0 after a resume");
  key("global_batch_size", report.global_batch_size, "samples", "over all workers and micro-steps");
  key("parameters", report.parameters, "values", "of the model");
  key("device", report.device, "", "what computes");
  key("all_reduce", report.all_reduce, "", "how gradients are added");
  visit_value(report.data, "data.train", [&](std::optional<std::string>& identity) {
    key("train_data", identity, "", "samples of data.train and a checksum of them, equal for equal samples");
  });
  visit_value(report.data, "data.validation", [&](std::optional<std::string>& identity) {
    key("validation_data", identity, "", "the same of data.validation");
  });
  key("network_gb_s", report.network_gb_s, "GB/s",
      "each way between two hosts, median of the pairs; this and the next are absent on one host");
  key("network_latency_us", report.network_latency_us, "µs", "half a round trip of a byte, median");
  key("slowest_link_gb_s", report.slowest_link_gb_s, "GB/s", "of the slowest pair of hosts");
  key("slowest_link", report.slowest_link, "", "its hosts");
}

template <MaybeConst<StepReport> Report, class Visitor>
void visit_keys(Report& report, Visitor& key) {
  key("step", report.step, "steps", "done, 1 after the first");
  key("epoch", report.epoch, "epochs", "begun before this one");
  key("batch", report.batch, "batches", "of the epoch, from 1 to steps_per_epoch");
  key("loss", report.loss, "nats", "mean over the workers");
  key("loss_mean", report.loss_mean, "nats",
      "mean since the last report; where workers step by themselves of this rank");
  key("learning_rate", report.learning_rate, "", "of this step");
  key("samples_per_s", report.samples_per_s, "samples/s",
      "of all workers since the last report, without validation, stalls and the first 10 steps");
  key("step_s", report.step_s, "s", "a step, mean since the last report");
  key("exposed_comm_s", report.exposed_comm_s, "s", "a step's wait for communication");
  key("input_wait_s", report.input_wait_s, "s", "a step's wait for the loader");
  key("forward_s", report.forward_s, "s",
      "a step's forward pass, without waits; of a GPU, the time to queue it, as in the next two");
  key("backward_s", report.backward_s, "s", "a step's backward pass");
  key("optimizer_s", report.optimizer_s, "s", "a step's update of the model; 0 where servers do it");
  key("sent_bytes", report.sent_bytes, "bytes", "sent by this rank in a step");
  key("memory_bytes", report.memory_bytes, "bytes", "resident memory of this rank at the report");
  key("period", report.period, "steps", "of local SGD, from one averaging to the next");
  key("staleness", report.staleness, "updates",
      "of servers by others between a worker's pull and next push, mean since the last report; server.mode "
      "other than \"sync\"");
  key("loss_scale", report.loss_scale, "", "of this rank's next step; in float16");
  key("skipped_steps", report.skipped_steps, "steps",
      "of this rank that overflowed in float16, since the start");
  key("accuracy_top1", report.accuracy_top1, "fraction", "of the label having the highest logit");
  key("accuracy_top5", report.accuracy_top5, "fraction", "of the label being among the five highest");
  key("auc", report.auc, "",
      "area under the ROC curve, of clicks of the epoch, each predicted before it was learned");
  key("batch_auc", report.batch_auc, "", "the same of the last 20 batches of each worker");
  key("wait_s", report.wait_s, "s",
      "a step's wait for workers and wire, mean over the workers; this and the next are absent with one");
  key("compute_s", report.compute_s, "s", "forward and backward pass of a step, mean over the workers");
  key("slowest_rank", report.slowest_rank, "", "that cost the others most since the last report");
  key("slowest_host", report.slowest_host, "", "where it runs");
  key("slowest_phase", report.slowest_phase, "", "in which it fell behind the others");
  key("slowest_times", report.slowest_times, "steps", "to whose end it came last");
  key("slowest_cost_s", report.slowest_cost_s, "s", "that it cost all against the next one");
}

/// With more outputs a line of metrics.jsonl holds the figures over all outputs only.
constexpr std::size_t max_reported_outputs = 1000;

/// Visits a figure under `name`, its own key or that of the averaged weights.
template <MaybeConst<Figures> Values, class Visitor>
void visit_figure(Values& figures, Visitor& key, const Metric& metric, const std::string& name,
                  const std::string& meaning) {
  visit_value(figures, metric.key, [&](std::optional<double>& value) {
    const std::string unit(metric.unit);
    if (metric.of != MetricOf::all || name != metric.key)
      return key(name.c_str(), value, unit.c_str(), meaning.c_str());
    double always = value.value_or(0.0);  // every line has it
    key(name.c_str(), always, unit.c_str(), meaning.c_str());
    value = always;
  });
}

template <MaybeConst<Figures> Values, class Visitor>
void visit_figures(Values& figures, Visitor& key, std::initializer_list<MetricOf> models) {
  for (const Metric& metric : metrics())
    if (std::ranges::find(models, metric.of) != models.end())
      visit_figure(figures, key, metric, std::string(metric.key), std::string(metric.meaning));
}

/// One array for each metric, with a value for each output.
template <MaybeConst<std::vector<Figures>> Outputs, class Visitor>
void visit_outputs(Outputs& outputs, Visitor& key) {
  std::string meaning = "of each output; so are the next ones, of up to 1,000 outputs";
  for (const Metric& metric : metrics()) {
    if (!metric.of_each) continue;
    std::vector<double> values;
    for (const Figures& one : outputs)
      if (const auto found = one.find(metric.key);
          found != one.end() && outputs.size() <= max_reported_outputs)
        values.push_back(found->second);
    const std::size_t written = values.size();
    key(cat("output_", metric.key).c_str(), values, std::string(metric.unit).c_str(), meaning.c_str());
    if constexpr (!std::is_const_v<Outputs>) {
      outputs.resize(std::max(outputs.size(), values.size()));
      for (std::size_t i = written; i < values.size(); ++i) outputs[i][std::string(metric.key)] = values[i];
    }
    meaning = "of each output";
  }
}

template <MaybeConst<ValidationReport> Report, class Visitor>
void visit_keys(Report& report, Visitor& key) {
  key("step", report.step, "steps", "done");
  key("epoch", report.epoch, "epochs", "begun before this one");
  visit_figures(report.figures, key, {MetricOf::all, MetricOf::classes});
  key("samples", report.samples, "samples", "each counted once");
  visit_figures(report.figures, key, {MetricOf::numbers, MetricOf::labels});
  visit_outputs(report.outputs, key);
  std::string meaning = "of the averaged weights, with train.average_decay";
  for (const Metric& metric : metrics()) {
    if (!metric.averaged) continue;
    visit_figure(report.averages, key, metric, metric.average_key(), meaning);
    meaning = "of the averaged weights";
  }
  key("epoch_s", report.epoch_s, "s", "of the epoch's steps, if this run did all");
  key("best_of", report.best_of, "",
      "key by which validations are compared: checkpoint.best or its default; with train.average_decay of "
      "the averaged weights");
  key("best", report.best, "", "its best value so far, also over resumes");
  key("best_epoch", report.best_epoch, "epochs", "begun before the one with that value");
  visit_figures(report.figures, key, {MetricOf::clicks});
}

template <MaybeConst<CheckpointReport> Report, class Visitor>
void visit_keys(Report& report, Visitor& key) {
  key("step", report.step, "steps", "done");
  key("path", report.path, "", "the file");
  key("bytes", report.bytes, "bytes", "of the file and its parts");
  key("stall_s", report.stall_s, "s", "that training waited");
  key("write_s", report.write_s, "s", "of the writing thread");
}

template <MaybeConst<EndReport> Report, class Visitor>
void visit_keys(Report& report, Visitor& key) {
  key("reason", report.reason, "",
      "\"done\", \"target reached\" (train.target), \"stopped early\" (train.patience), \"stopped\", \"time "
      "limit\" or, of a comparison, "
      "\"diverged\"");
  key("step", report.step, "steps", "done");
  key("seconds", report.seconds, "s", "from start to end");
  key("peak_memory_bytes", report.peak_memory_bytes, "bytes", "resident, the largest of all ranks");
  key("skipped_steps", report.skipped_steps, "steps", "as in \"step\"");
  key("exposed_comm_s", report.exposed_comm_s, "s", "worker 0's waits for communication");
  for (const auto& [kind, meaning] : std::initializer_list<std::pair<const char*, const char*>>{
           {"gradients", "of gradients, sent by worker 0, as the next; absent: none"},
           {"parameters", "of averaged parameters or differences"},
           {"statistics", "of statistics"},
           {"slots", "of averaged slots"},
           {"sums", "of losses, agreements"},
           {"evaluation", "of averages to evaluate or save"},
           {"servers", "to servers"}})
    visit_value(report.sent, kind, [&](std::optional<std::int64_t>& bytes) {
      key(cat("sent_", kind, "_bytes").c_str(), bytes, "bytes", meaning);
    });
}

template <class Report>
constexpr const char* event_of = nullptr;
template <>
constexpr const char* event_of<StartReport> = "start";
template <>
constexpr const char* event_of<StepReport> = "step";
template <>
constexpr const char* event_of<ValidationReport> = "validation";
template <>
constexpr const char* event_of<CheckpointReport> = "checkpoint";
template <>
constexpr const char* event_of<EndReport> = "end";

/// Adds a report's values to a JSON object.
struct Writer {
  Json& line;

  void operator()(const char* key, std::int64_t value, const char*, const char*) { line[key] = value; }
  void operator()(const char* key, const std::string& value, const char*, const char*) { line[key] = value; }
  void operator()(const char* key, double value, const char*, const char*) {
    line[key] = value;  // The library writes null for what is not finite.
  }
  void operator()(const char* key, const std::vector<double>& values, const char*, const char*) {
    if (!values.empty()) line[key] = values;
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value, const char* unit, const char* meaning) {
    if (value) (*this)(key, *value, unit, meaning);
  }
};

/// The count of a damaged line: no report has counted so far.
struct NoCount {};

/// 2⁶⁰, so that differences of counts fit into 64 bits.
constexpr double max_counted = 1152921504606846976.0;

/// Takes a report's values from a JSON object; those that are missing, as in a line of an earlier version,
/// stay.
/// @throws nlohmann::json::exception for a value of another type, NoCount
struct ReportReader {
  const Json& line;

  void operator()(const char* key, std::int64_t& value, const char*, const char*) {
    if (!line.contains(key)) return;
    if (!(std::abs(line.at(key).get<double>()) <= max_counted)) throw NoCount();
    line.at(key).get_to(value);
  }

  void operator()(const char* key, double& value, const char*, const char*) {
    if (!line.contains(key)) return;
    value = line.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : line.at(key).get<double>();
  }
  void operator()(const char* key, std::vector<double>& values, const char*, const char*) {
    if (!line.contains(key)) return;
    for (const Json& value : line.at(key))
      values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value, const char* unit, const char* meaning) {
    if (line.contains(key)) (*this)(key, value.emplace(), unit, meaning);
  }
  template <class T>
  void operator()(const char* key, T& value, const char*, const char*) {
    if (line.contains(key)) line.at(key).get_to(value);
  }
};

/// Adds a report's keys to the schema.
struct Lister {
  const char* event;
  std::vector<MetricKey>& keys;

  void operator()(const char* key, std::int64_t, const char* unit, const char* meaning) {
    keys.push_back({event, key, "integer", unit, meaning});
  }
  void operator()(const char* key, const std::string&, const char* unit, const char* meaning) {
    keys.push_back({event, key, "text", unit, meaning});
  }
  void operator()(const char* key, double, const char* unit, const char* meaning) {
    keys.push_back({event, key, "number", unit, meaning});
  }
  void operator()(const char* key, const std::vector<double>&, const char* unit, const char* meaning) {
    keys.push_back({event, key, "array of numbers, optional", unit, meaning});
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>&, const char* unit, const char* meaning) {
    (*this)(key, T{}, unit, meaning);
    keys.back().type += ", optional";
  }
};

template <class Report>
void list(std::vector<MetricKey>& keys) {
  const Report report;
  keys.push_back({event_of<Report>, "event", "text", "", "the name of the event"});
  keys.push_back({event_of<Report>, "time", "number", "s", "since 1970 (UTC), when the line was written"});
  Lister lister{event_of<Report>, keys};
  visit_keys(report, lister);
}

}  // namespace

std::vector<MetricKey> metrics_schema() {
  std::vector<MetricKey> keys;
  list<StartReport>(keys);
  list<StepReport>(keys);
  list<ValidationReport>(keys);
  list<CheckpointReport>(keys);
  list<EndReport>(keys);
  return keys;
}

template <class Report>
std::string metrics_line(const Report& report, double time_s) {
  Json line;
  line["event"] = event_of<Report>;
  line["time"] = std::round(time_s * 1e3) / 1e3;
  Writer writer{line};
  visit_keys(report, writer);
  // Paths need not be UTF-8; a metric is not worth an exception.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<ReadReport> read_metrics_line(std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object() || !line.contains("event") || !line.contains("time")) return std::nullopt;
  ReadReport read;
  const auto read_as = [&]<class Report>(Report report) {
    if (line.at("event") != event_of<Report>) return false;
    ReportReader reader{line};
    visit_keys(report, reader);
    read.report = std::move(report);
    return true;
  };
  try {
    line.at("time").get_to(read.time_s);
    if (read_as(StepReport()) || read_as(ValidationReport()) || read_as(CheckpointReport()) ||
        read_as(StartReport()) || read_as(EndReport()))
      return read;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const NoCount&) {
    return std::nullopt;
  }
  return std::nullopt;
}

int exit_code_of_reason(const std::string& reason) {
  if (reason == "diverged") return exit_user_error;
  return reason == "stopped" || reason == "time limit" ? exit_stopped : exit_done;
}

template std::string metrics_line(const StartReport&, double);
template std::string metrics_line(const StepReport&, double);
template std::string metrics_line(const ValidationReport&, double);
template std::string metrics_line(const CheckpointReport&, double);
template std::string metrics_line(const EndReport&, double);

}  // namespace flotilla
