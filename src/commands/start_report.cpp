// SPDX-License-Identifier: Apache-2.0
#include "src/commands/start_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "kernels/error.hpp"
#include "mpi/all_reduce/emulated_link.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/commands/version.hpp"
#include "src/data/found.hpp"
#include "src/optim/parameter_patterns.hpp"
#include "src/strategy/reduce/power_sgd.hpp"
#include "src/train/beginning.hpp"
#include "src/train/plan_notes.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_rows_shown = 16;

/// Reports which rank computes on which GPU; for many ranks in the log only.
void introduce_gpus(const RunParts& run, Reporter& reporter) {
  const mpi::GpuBinding& gpus = run.machine.gpus;
  if (gpus.ranks.empty()) return;
  reporter.say(cat("gpus         ", mpi::describe_gpus(gpus)), Message::plan);
  for (const std::string& line : mpi::gpu_table(run.machine.places, gpus)) {
    if (gpus.ranks.size() <= max_rows_shown) {
      reporter.say(line, Message::detail);
    } else if (run.machine.workers.is_root()) {
      reporter.log(line);
    }
  }
}

/// Reports the hosts, ranks and devices of the run.
void introduce_hosts(const StartUp& start, const RunParts& run, Reporter& reporter) {
  const std::vector<std::string> lines = mpi::describe_hosts(start.places);
  reporter.say(cat("ranks        ", lines.front()), Message::plan);
  for (std::size_t line = 1; line < lines.size(); ++line) reporter.say(lines[line], Message::detail);
  reporter.log(describe(run.machine.own_place()));
  if (start.network) reporter.say(cat("network      ", describe(*start.network)), Message::detail);
  reporter.say(cat("device       ", run.machine.device->info().description), Message::detail);
  if (run.config.device.precision == DevicePrecision::automatic)
    reporter.say(cat("precision    ", name(run.machine.precision),
                     ", which device.precision = \"auto\" takes on processors ",
                     is_half(run.machine.precision) ? "with" : "without", " AMX (AMD's: AVX512_BF16)"),
                 Message::detail);
  introduce_gpus(run, reporter);
}

void introduce(const StartFacts& start, RunParts& run, Reporter& reporter) {
  const Config& config = run.config;
  if (!start.values.nothing_left.empty())
    reporter.say(nothing_left_line(start.resumed->path, start.values.nothing_left,
                                   start.values.continuation.differences));
  reporter.say(version_line(), Message::detail);
  reporter.say(cat("deck         ", start.deck_path,
                   start.keeps_deck ? ", which stays as it is: checkpoints hold the resolved one" : ""),
               Message::detail);
  reporter.say(cat("output       ", config.run.output), Message::plan);
  introduce_hosts(start.machines, run, reporter);
  if (run.model.loss_scale.enabled())
    reporter.say(cat("loss scale   ", run.model.loss_scale.text()), Message::detail);
  reporter.say(cat("training     ", run.data.training->description()), Message::plan);
  if (run.data.validation)
    reporter.say(cat("validation   ", run.data.validation->description()), Message::plan);
  if (const std::string found = found_line(config.data); !found.empty())
    reporter.say(cat("from data    ", found), Message::plan);
  reporter.say(cat("model        ", config.model.kind == "layers" ? cat(config.model.layers.size(), " ") : "",
                   config.model.kind, config.model.kind == "resnet" ? cat("-", config.model.depth) : "", ", ",
                   run.model.network->layout().values(), " parameters",
                   config.model.has_classes() ? ""
                                              : cat(", ", config.model.loss, " of ", config.model.outputs,
                                                    config.model.outputs == 1 ? " output" : " outputs")),
               Message::plan);
  if (const ActivationMemory& memory = run.model.network->memory(); memory.recomputes())
    reporter.say(
        fmt::format("recompute    saves {:.1f} MiB of activations per rank",
                    static_cast<double>(memory.recomputation_saves()) * sizeof(float) / (1024.0 * 1024.0)),
        Message::detail);
  reporter.say(
      cat("batch        ", run.data.sharding.global_batch(), " = ",
          mpi::counted(run.data.sharding.workers, "worker"), " × ", run.data.sharding.batch,
          run.data.sharding.micro_steps > 1 ? cat(" × ", run.data.sharding.micro_steps, " micro-steps") : "",
          ", ", run.data.sharding.steps_per_epoch(), " steps per epoch"),
      Message::plan);
  if (const auto& names = run.data.class_names; !names.empty())
    reporter.say(cat("classes      ", names.front(), names.size() > 1 ? cat(" … ", names.back()) : "",
                     text_of_class_names(names).empty() ? ": too many names for checkpoints to keep" : ""),
                 Message::detail);
  const Network& network = *run.model.network;
  for (const std::string& line :
       describe_patterns(run.config, network.layout(), network.statistics().layout()))
    reporter.say(line);
  for (const std::string& line : run.sync.strategy->description().lines) reporter.say(line, Message::detail);
  if (const std::string straggler = run.machine.straggler->description(); !straggler.empty())
    reporter.say(cat("straggler    emulated: ", straggler), Message::detail);
  if (const mpi::LinkModel& link = config.reduction.link; link.is_on())
    reporter.say(cat("link         emulated by run.emulate_link, for all-reduces: ", describe(link)));
  if (start.resumed != nullptr) reporter.say(resumed_line(*start.resumed));
}

void add_network(const mpi::NetworkReport& network, const std::vector<mpi::Place>& places,
                 StartReport& report) {
  const mpi::LinkFigures& slowest = network.summary.slowest;
  const std::vector<std::string> names = mpi::names_of_hosts(places);
  report.network_gb_s = network.summary.median_bytes_per_s * 1e-9;
  report.network_latency_us = network.summary.median_latency_us;
  report.slowest_link_gb_s = slowest.bytes_per_s * 1e-9;
  report.slowest_link =
      cat(names[static_cast<std::size_t>(slowest.a)], " ", names[static_cast<std::size_t>(slowest.b)]);
}

void warn(const StartFacts& start, const RunParts& run, Reporter& reporter) {
  const Machine& machine = run.machine;
  for (const std::string& warning : warnings_of_binding(run.config, start.machines, machine.places))
    reporter.warn(warning);
  for (const std::string& warning : mpi::gpu_warnings(machine.places, machine.gpus)) reporter.warn(warning);
  for (const Reduction* reduction : {&run.sync.averaging, &run.sync.reduction})
    if (!reduction->left_out.empty()) reporter.warn(reduction->left_out);
  if (run.sync.reduction.compression)
    for (const std::string& warning : run.sync.reduction.compression->warnings()) reporter.warn(warning);
  if (start.machines.network)
    for (const std::string& warning : start.machines.network->summary.warnings) reporter.warn(warning);
  for (const std::string& note : start.values.continuation.notes) reporter.say(note);
  if (start.staged) reporter.say(cat("staged       ", describe(*start.staged)));
  if (!start.values.loaded.summary.empty()) reporter.say(cat("weights      ", start.values.loaded.summary));
  for (const std::string& line : start.values.loaded.details) reporter.log(line);
  for (const std::string& note : start.deck.notes) reporter.say(note);
  for (const auto* warnings : {&run.data.warnings, &start.warnings})
    for (const std::string& warning : *warnings) reporter.warn(warning);
  const Sharding& sharding = run.data.sharding;
  const CheckpointState begin = start.resumed == nullptr ? CheckpointState() : start.resumed->state;
  for (const std::string& note : plan_notes(run.config, sharding, begin)) reporter.say(note);
  if (start.resumed == nullptr) return;
  if (const std::string jump = rate_jump(run.config, sharding, begin); !jump.empty()) reporter.warn(jump);
}

}  // namespace

std::string resumed_line(const LoadedCheckpoint& resumed) {
  return cat("resumed      from ", resumed.path, ", step ", resumed.state.step, ", epoch ",
             resumed.state.position.epoch);
}

void report_start(const StartFacts& start, RunParts& run, Reporter& reporter) {
  introduce(start, run, reporter);
  warn(start, run, reporter);
  const Sharding& sharding = run.data.sharding;
  const CheckpointState begin = start.resumed == nullptr ? CheckpointState() : start.resumed->state;
  const RunEnd end = end_of(run.config.train, sharding, begin.step, begin.position);
  const mpi::LinkModel& link = run.config.reduction.link;
  StartReport report{.deck = start.deck_path,
                     .workers = run.machine.workers.size(),
                     .hosts = mpi::hosts(start.machines.places),
                     .steps = std::isfinite(end.epochs) ? end.step : 0,
                     .steps_per_epoch = sharding.steps_per_epoch(),
                     .first_step = begin.step,
                     .global_batch_size = sharding.global_batch(),
                     .parameters = run.model.network->layout().values(),
                     .device = run.machine.device->info().description,
                     .all_reduce = run.sync.strategy->description().transport,
                     .data = run.data.identities};
  if (link.is_on()) report.all_reduce += cat(", emulated link: ", describe(link));
  if (start.machines.network) add_network(*start.machines.network, start.machines.places, report);
  reporter.start(report);
}

}  // namespace flotilla
