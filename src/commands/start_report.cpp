// SPDX-License-Identifier: Apache-2.0
#include "src/commands/start_report.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/commands/version.hpp"

namespace flotilla {

namespace {

/// Who is what, and which server holds how much.
void introduce_servers(const RunParts& run, Reporter& reporter) {
  const ServerConfig& server = *run.config.server();
  std::string mode(word(server.mode));
  if (server.mode == ServerMode::half_async || server.mode == ServerMode::geo)
    mode += cat(", a push every ", server.push_every, " steps");
  if (server.mode != ServerMode::sync && server.max_staleness > 0)
    mode += cat(", at most ", server.max_staleness, " pushes ahead");
  reporter.say(cat("strategy     parameter-server, ", mode));
  for (const std::string& line : mpi::lines_of(run.machine.servers->roles().table()))
    reporter.say(cat("  ", line));
  for (const std::string& line : run.machine.servers->placement_lines()) reporter.say(cat("  ", line));
  if (run.sync.embeddings && run.sync.embeddings->local() != nullptr)
    reporter.say(cat("  rows: ", describe_local_rows(run.config, run.data.training->slots())));
  const std::size_t apart = mpi::pairs_apart(run.machine.servers->roles().table()).size();
  if (run.config.roles.kind.value_or(RolesKind::symmetric) == RolesKind::symmetric && apart > 0)
    reporter.say(cat("  ", apart,
                     " of the pairs of a server and a worker lie on two hosts: ranks that are "
                     "numbered host by host (mpirun --map-by core) keep them together"));
}

/// The transport between the workers, for the start report.
std::string exchange_of(const RunParts& run) {
  if (run.machine.servers != nullptr) return "parameter-server";
  const bool sums = run.config.all_reduce() != nullptr;
  return std::string((sums ? run.sync.reduction : run.sync.averaging).first().name());
}

/// "period 8, from step 500 on".
std::string describe_period(const LocalSgdConfig& strategy) {
  std::string text = strategy.adaptive
                         ? cat("rule \"", strategy.rule, "\", first period ", strategy.initial_period)
                         : cat("period ", strategy.period);
  if (strategy.warm_up != PeriodWarmUp::none) text += cat(" after a ", strategy.warm_up, " warm-up");
  if (strategy.begin_step > 0) text += cat(", from step ", strategy.begin_step, " on");
  if (strategy.begin_epoch > 0.0) text += cat(", from epoch ", strategy.begin_epoch, " on");
  if (strategy.group_all_reduce) text += ", gradients reduced inside groups in every step";
  if (strategy.outer.kind != OuterKind::none) text += cat(", outer step \"", strategy.outer.kind, "\"");
  return text;
}

constexpr std::size_t most_rows_shown = 16;

/// Which rank computes on which GPU; for many ranks in the log only.
void introduce_gpus(const RunParts& run, Reporter& reporter) {
  const mpi::GpuBinding& gpus = run.machine.gpus;
  if (gpus.ranks.empty()) return;
  reporter.say(cat("gpus         ", mpi::describe_gpus(gpus)));
  for (const std::string& line : mpi::gpu_table(run.machine.places, gpus)) {
    if (gpus.ranks.size() <= most_rows_shown) {
      reporter.say(line);
    } else if (run.machine.workers.is_root()) {
      reporter.log(line);
    }
  }
}

/// Reports the hosts, ranks and devices of the run.
void introduce_hosts(const StartUp& start, const RunParts& run, Reporter& reporter) {
  const std::vector<std::string> lines = mpi::describe_hosts(start.places);
  reporter.say(cat("ranks        ", lines.front()));
  for (std::size_t line = 1; line < lines.size(); ++line) reporter.say(lines[line]);
  reporter.log(describe(run.machine.places[static_cast<std::size_t>(run.machine.workers.rank())]));
  if (start.network) reporter.say(cat("network      ", describe(*start.network)));
  reporter.say(cat("device       ", run.machine.device->description()));
  introduce_gpus(run, reporter);
}

void introduce(const StartFacts& start, RunParts& run, Reporter& reporter) {
  const Config& config = run.config;
  reporter.say(version_line());
  reporter.say(cat("deck         ", start.deck_path));
  reporter.say(cat("output       ", config.run.output));
  introduce_hosts(start.machines, run, reporter);
  if (run.model.loss_scale.enabled()) reporter.say(cat("loss scale   ", run.model.loss_scale.text()));
  reporter.say(cat("training     ", run.data.training->description()));
  if (run.data.validation) reporter.say(cat("validation   ", run.data.validation->description()));
  reporter.say(
      cat("model        ", config.model.kind, ", ", run.model.network->layout().values(), " parameters"));
  if (const ActivationMemory& memory = run.model.network->memory(); memory.recomputes())
    reporter.say(
        fmt::format("recompute    saves {:.1f} MiB of activations per rank",
                    static_cast<double>(memory.recomputation_saves()) * sizeof(float) / (1024.0 * 1024.0)));
  reporter.say(
      cat("batch        ", run.data.sharding.global_batch(), " = ", run.data.sharding.workers, " workers × ",
          run.data.sharding.batch,
          run.data.sharding.micro_steps > 1 ? cat(" × ", run.data.sharding.micro_steps, " micro-steps") : "",
          ", ", run.data.sharding.steps_per_epoch(), " steps per epoch"));
  if (run.machine.servers != nullptr) {
    introduce_servers(run, reporter);
  } else if (const LocalSgdConfig* local = config.local_sgd()) {
    reporter.say(cat("strategy     ", config.strategy_kind(), ", ", describe_period(*local)));
    reporter.say(cat("averaging    ", run.sync.averaging.description, " of parameters",
                     local->statistics == LocalStatistics::average && !run.model.weights.statistics.empty()
                         ? " and statistics"
                         : ""));
    for (const std::string& line : run.sync.averaging.table) reporter.say(cat("  measured   ", line));
  }
  // Workers that always step alone reduce nothing.
  if (config.all_reduce() != nullptr ||
      (run.machine.servers == nullptr && run.sync.reduction.first().ranks() > 1))
    reporter.say(cat("all-reduce   ", run.sync.reduction.description, ", ", describe(run.sync.buckets),
                     run.sync.reduction.first().queues()   ? ", queued on the device"
                     : !run.sync.communication             ? ", in the training thread"
                     : run.sync.communication->size() == 1 ? ", on a thread of its own"
                                                           : ", on threads of their own"));
  for (const std::string& line : run.sync.reduction.table) reporter.say(cat("  measured   ", line));
  if (const std::string straggler = run.machine.straggler->description(); !straggler.empty())
    reporter.say(cat("straggler    emulated: ", straggler));
  if (start.resumed != nullptr)
    reporter.say(cat("resumed      from ", start.resumed->path, ", step ", start.resumed->state.step,
                     ", epoch ", start.resumed->state.position.epoch));
}

void add_network(const mpi::NetworkReport& network, const std::vector<mpi::Place>& places,
                 StartReport& report) {
  const mpi::LinkFigures& slowest = network.verdict.slowest;
  const std::vector<std::string> names = mpi::names_of_hosts(places);
  report.network_gb_s = network.verdict.median_bytes_per_s * 1e-9;
  report.network_latency_us = network.verdict.median_latency_us;
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
  if (start.machines.network)
    for (const std::string& warning : start.machines.network->verdict.warnings) reporter.warn(warning);
  if (!start.continuation.note.empty()) reporter.say(start.continuation.note);
  if (start.staged) reporter.say(cat("staged       ", describe(*start.staged)));
  for (const std::string& line : start.loaded) reporter.say(line);
  for (const std::string& note : start.deck.notes) reporter.say(note);
  for (const std::string& warning : start.warnings) reporter.warn(warning);
}

}  // namespace

void report_start(const StartFacts& start, RunParts& run, Reporter& reporter) {
  introduce(start, run, reporter);
  warn(start, run, reporter);
  const Sharding& sharding = run.data.sharding;
  StartReport report{.deck = start.deck_path,
                     .workers = run.machine.workers.size(),
                     .hosts = mpi::hosts(start.machines.places),
                     .steps = planned_steps(run.config.train, sharding),
                     .steps_per_epoch = sharding.steps_per_epoch(),
                     .first_step = start.resumed == nullptr ? 0 : start.resumed->state.step,
                     .global_batch_size = sharding.global_batch(),
                     .parameters = run.model.network->layout().values(),
                     .device = run.machine.device->description(),
                     .all_reduce = exchange_of(run)};
  if (start.machines.network) add_network(*start.machines.network, start.machines.places, report);
  reporter.start(report);
}

}  // namespace flotilla
