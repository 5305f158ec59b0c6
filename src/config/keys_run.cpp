// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "src/config/key_table.hpp"
#include "src/config/rules.hpp"
#include "src/config/suggestions.hpp"

namespace flotilla::config {
namespace {

class RunRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void resume_with() {
    if (!usable({"run.resume_with"})) return;
    for (const std::string& path : config.run.resume_with) {
      bool known = false;
      bool changeable = false;
      for (const Key& key : all_keys()) {
        if (key.path != path && !key.path.starts_with(path + ".")) continue;
        known = true;
        changeable = changeable || key.on_resume != OnResume::must_match;
      }
      if (changeable) continue;
      const auto dot = path.rfind('.');
      const std::string meant =
          dot == path.npos ? suggest("", path).text : suggest(path.substr(0, dot), path.substr(dot + 1)).text;
      reject({"run.resume_with"}, known
                                      ? cat("run.resume_with: ", path,
                                            " must be the checkpoint's; start another run, from its weights "
                                            "(model.initial_weights) where shapes agree")
                                      : cat("run.resume_with: ", quoted(path), " is no key or table", meant));
    }
  }

  void mlperf_log() {
    if (!config.run.files.mlperf_log || !usable({"model.kind", "checkpoint.best", "train.target"})) return;
    if (config.model.kind != "resnet" || config.checkpoint.best != BestMetric::accuracy_top1 ||
        config.train.target == 0.0)
      reject({"run.mlperf_log"},
             "run.mlperf_log is of runs to an accuracy: it needs model.kind = \"resnet\", checkpoint.best = "
             "\"accuracy_top1\" and train.target");
  }

  void best_checkpoint() {
    if (!usable({"checkpoint.best", "train.patience", "train.target"})) return;
    const BestMetric best = config.checkpoint.best;
    if (config.train.patience > 0 && config.validation.every == 0)
      reject({"train.patience", "validation.every"},
             "train.patience counts validations, and validation.every = 0 asks for none before the end");
    if (config.train.target > 0 && config.validation.every == 0)
      reject({"train.target", "validation.every"},
             "train.target is compared after each validation, and validation.every = 0 asks for none before "
             "the end");
    if (best == BestMetric::none) {
      if (config.checkpoint.keep_best > 1 && usable({"checkpoint.keep_best"}))
        reject({"checkpoint.keep_best"},
               "checkpoint.keep_best needs checkpoint.best, the figure of a validation that is to improve");
      if (config.train.patience > 0)
        reject({"train.patience"},
               "train.patience needs checkpoint.best, the figure of a validation that is to improve");
      if (config.train.target > 0)
        reject({"train.target"},
               "train.target needs checkpoint.best, the figure of a validation that is to reach it");
      return;
    }
    if (!config.data.has_validation())
      reject({"checkpoint.best"}, "checkpoint.best = ", quoted(word(best)),
             " is a figure of validations: set data.validation.share or data.validation.path");
    if ((best == BestMetric::auc || best == BestMetric::log_loss) && !config.model.has_embeddings())
      reject({"checkpoint.best"}, "checkpoint.best = ", quoted(word(best)),
             " needs model.kind = \"ctr-dnn\", which predicts clicks");
    const bool of_all_classes =
        best == BestMetric::macro_f1 || best == BestMetric::balanced_accuracy || best == BestMetric::roc_auc;
    if (of_all_classes && config.model.has_embeddings())
      reject({"checkpoint.best"}, "checkpoint.best = ", quoted(word(best)),
             " is not told of clicks: give \"auc\" or \"log_loss\"");
    if (best == BestMetric::roc_auc && usable({"model.classes"}) && config.model.classes > 1000)
      reject({"checkpoint.best", "model.classes"},
             "checkpoint.best = \"roc_auc\" is told up to 1000 classes: give \"macro_f1\" or "
             "\"balanced_accuracy\"");
  }

  void precision() {
    if (!usable({"device.kind", "device.precision"})) return;
    const DeviceConfig& device = config.device;
    if (device.kind != DeviceKind::cpu && device.precision == DevicePrecision::automatic)
      reject({"device.precision", "device.kind"},
             "device.precision = \"auto\" needs device.kind = \"cpu\", whose processors it asks: for ",
             quoted(word(device.kind)), " name the precision");
    if (device.kind != DeviceKind::cpu || device.precision != DevicePrecision::float16) return;
    reject({"device.precision", "device.kind"},
           "device.precision = \"float16\" needs device.kind = \"cuda\", or \"reference\", which shows "
           "slowly what it does to a model: \"cpu\" computes in float32 and bfloat16; use \"bfloat16\" "
           "(docs/precision.md says why)");
  }

  void reproducible() {
    if (!usable({"run.reproducible"}) || !config.run.reproducible) return;
    const TrainConfig& train = config.train;
    const auto refuse = [this](bool wrong, std::string_view path, std::string_view what) {
      if (wrong && usable({path})) reject({path, "run.reproducible"}, "run.reproducible ", what);
    };
    refuse(config.all_reduce() == nullptr, "strategy.kind", "needs strategy.kind = \"all-reduce\"");
    refuse(train.batch_size > 0, "train.batch_size",
           "needs train.global_batch_size instead of train.batch_size: the samples of a step must not depend "
           "on the number of workers");
    refuse(train.global_batch_size % config.run.virtual_shards != 0, "train.global_batch_size",
           cat("needs a train.global_batch_size that is a multiple of run.virtual_shards (",
               config.run.virtual_shards, "), got ", train.global_batch_size));
    const std::int64_t pairs = 2 * config.run.virtual_shards;
    refuse(train.mixes_pairs() && train.global_batch_size % pairs != 0, train.pairs_key(),
           cat("with ", train.pairs_key(),
               " needs a train.global_batch_size that is a multiple of twice "
               "run.virtual_shards (",
               pairs, "): pairs are mixed inside a shard"));
    refuse(train.accumulate_steps > 1, "train.accumulate_steps",
           "and train.accumulate_steps exclude each other: every shard is a micro-step already; give more "
           "run.virtual_shards");
    refuse(config.device.threads == 0, "device.threads",
           "needs a number in device.threads, such as 1: 0 takes what the ranks of a host leave each other, "
           "and sums inside an operation depend on it");
    refuse(config.reduction.wire != Wire::float32, "strategy.wire",
           cat("and strategy.wire = ", quoted(word(config.reduction.wire)),
               " exclude each other: what is rounded on the way depends on the number of workers"));
    refuse(config.model.synchronises_batch_norm(), "model.batch_norm",
           "and model.batch_norm = \"synchronised\" exclude each other: every shard has statistics of its "
           "own");
  }

  void emulated_link() {
    constexpr std::string_view rate = "run.emulate_link.gbit_s";
    constexpr std::string_view latency = "run.emulate_link.latency_us";
    constexpr std::string_view both_ways = "run.emulate_link.both_ways";
    constexpr std::string_view burst = "run.emulate_link.burst_kb";
    constexpr std::string_view jitter = "run.emulate_link.jitter";
    if (!usable({rate, latency, jitter})) return;
    const mpi::LinkModel& link = config.reduction.link;
    for (const std::string_view other : {latency, both_ways, burst, jitter})
      if (!link.is_on() && given.find(other) != nullptr)
        return reject({other}, rate, " is missing: the rate of the link in Gbit/s");
    if (link.jitter > 0.0 && link.latency_us == 0.0)
      reject({jitter}, jitter, " is a part of ", latency, ", which is missing or 0");
    if (link.is_on() && (config.server() != nullptr || config.model.synchronises_batch_norm()))
      reject({rate},
             "run.emulate_link slows down all-reduces, not messages to servers (strategy.kind) nor inside "
             "layers (model.batch_norm = \"synchronised\"): shape the real link for these");
  }

  void emulated_straggler() {
    const std::string table = "run.emulate_straggler";
    const std::string rank = table + ".rank";
    const std::string factor = table + ".slow_factor";
    const std::string pause = table + ".pause_s";
    const std::string every = table + ".every";
    if (!usable({rank, factor, pause, every})) return;
    const EmulatedStragglerConfig& straggler = config.emulate_straggler;
    const bool slow = given.find(factor) != nullptr;
    const bool pauses = given.find(pause) != nullptr;
    if (given.find(rank) == nullptr) {
      const std::string turns = table + ".take_turns";
      if (slow || pauses || given.find(every) != nullptr || given.find(turns) != nullptr)
        reject({factor, pause, every, turns}, rank + " is missing: the worker to make slow");
    } else if (slow == pauses) {
      reject({slow ? pause : rank}, table,
             slow ? ": slow_factor and pause_s exclude each other; give one of them"
                  : " needs slow_factor or pause_s");
    }
    const double patience_s = config.run.watchdog_s;
    if (usable({"run.watchdog_s"}) && patience_s > 0 && straggler.pause_s >= patience_s)
      reject({pause}, pause, " must be less than run.watchdog_s (", patience_s,
             "), which else ends the job, got ", straggler.pause_s);
  }
};

}  // namespace

std::vector<Key> run_and_device_keys() {
  const Condition on_gpu = {"device.kind", {"cuda"}};
  const Condition scaled = {"device.precision", {"float16"}};
  const Condition unchanging = {"device.loss_scale.kind", {"static"}};
  const Condition dynamic = {"device.loss_scale.kind", {"dynamic"}};
  return {
      key<&RunConfig::seed>("run.seed", at_least(0), must_match,
                            "Seed of initial weights, order of samples and random data"),
      key<&RunConfig::output>("run.output", any_value(), of_start,
                              "Folder of the run, relative to the current folder")
          .output_path()
          .with_default("runs/<name of the deck>"),
      key<&RunConfig::resume>("run.resume", any_value(), of_start,
                              "\"auto\": from the newest good checkpoint in run.output; \"never\": refuse if "
                              "there is one; \"step-N\": from that of step N in run.output; or a checkpoint")
          .input_path(),
      key<&RunConfig::resume_with>(
          "run.resume_with", any_value(), of_start,
          "Keys and tables, as \"schedule\" or \"optimizer.weight_decay\", that may differ from the "
          "checkpoint's: those of schedule, train and data, model.dropout, and all of optimizer but its "
          "kind. What differs is said, and kept in later checkpoints"),
      key<&RunConfig::log_every>("run.log_every", positive(max_steps), of_machine, "Steps between reports"),
      key<&RunConfig::files, &RunFilesConfig::rank_logs>(
          "run.rank_logs", any_value(), of_machine,
          "Logs of the ranks besides 0: \"all\" lines; \"own\": a file where a rank "
          "alone has something to warn "
          "of; \"none\"; \"auto\": \"all\" up to 64 workers, else \"own\""),
      key<&RunConfig::files, &RunFilesConfig::trace>("run.trace", any_value(), of_machine,
                                                     "Write a Chrome trace per rank into run.output/trace"),
      key<&RunConfig::files, &RunFilesConfig::mlperf_log>(
          "run.mlperf_log", any_value(), of_machine,
          "Write the run's events into run.output/mlperf.log, as MLPerf's compliance checker reads them; "
          "needs model.kind = \"resnet\", checkpoint.best = \"accuracy_top1\" and train.target"),
      key<&RunConfig::watchdog_s>(
          "run.watchdog_s", at_least(0, max_seconds), of_machine,
          "Seconds without progress after which the job is ended with a report; 0: never"),
      key<&RunConfig::check_network>("run.check_network", any_value(), of_machine,
                                     "With several hosts: measure the network between them at the start, for "
                                     "about a second, and name what is slow"),
      key<&RunConfig::check_collectives>(
          "run.check_collectives", any_value(), of_machine,
          "Ranks compare each collective call (kind, values, place in the source, step) before they make it, "
          "and end the job where they differ. For tests: without it they compare once a rank has waited for "
          "a second"),
      key<&RunConfig::time_limit_s>("run.time_limit_s", at_least(0, max_seconds), of_machine,
                                    "Seconds from the start of the process within which the run saves a "
                                    "checkpoint and stops, as it does before Slurm's limit; 0: none"),
      key<&RunConfig::stop_margin_s>("run.stop_margin_s", at_least(0, max_seconds), of_machine,
                                     "Seconds kept free before Slurm's limit; more if the longest step, "
                                     "validation and checkpoint so far need more"),
      key<&RunConfig::reproducible>("run.reproducible", any_value(), may_change,
                                    "The same bits for every number of workers: a step is computed in "
                                    "virtual_shards shards, added in one tree"),
      key<&RunConfig::virtual_shards>(
          "run.virtual_shards", at_least(1, 65536), may_change,
          "\"reproducible\": shards of a step, shared out evenly, a power of two to each worker"),
      key<&RunConfig::agreement_every>(
          "run.agreement_every", at_least(0, max_steps), of_machine,
          "Steps between checks that all workers hold the same model; 0: at reports and checkpoints"),
      key<&EmulatedStragglerConfig::rank>(
          "run.emulate_straggler.rank", at_least(0, max_count), may_change,
          "Worker that is made slow, to see what a straggler costs; with slow_factor or pause_s")
          .may_be_left_out(),
      key<&EmulatedStragglerConfig::slow_factor>("run.emulate_straggler.slow_factor",
                                                 {.low = 1, .low_itself = false}, may_change,
                                                 "Its forward and backward pass take this many times as long")
          .may_be_left_out(),
      key<&EmulatedStragglerConfig::pause_s>("run.emulate_straggler.pause_s", positive(max_seconds),
                                             may_change,
                                             "Seconds that it pauses before the end of its backward pass")
          .may_be_left_out(),
      key<&EmulatedStragglerConfig::every>("run.emulate_straggler.every", at_least(1, max_steps), may_change,
                                           "Every how many steps; left out: in each")
          .may_be_left_out(),
      key<&EmulatedStragglerConfig::take_turns>("run.emulate_straggler.take_turns", any_value(), may_change,
                                                "Each time another worker, the next one, beginning with rank")
          .may_be_left_out(),
      key<&ReductionConfig::link, &mpi::LinkModel::gbit_s>(
          "run.emulate_link.gbit_s", positive(1e6), of_machine,
          "All-reduces take as long as if each worker, or each group of strategy.ranks_per_group, had a link "
          "of this rate each way, to see what a strategy gains on a slow network (docs/local_sgd.md)")
          .may_be_left_out(),
      key<&ReductionConfig::link, &mpi::LinkModel::latency_us>("run.emulate_link.latency_us",
                                                               at_least(0, max_seconds), of_machine,
                                                               "Microseconds that a message takes besides")
          .may_be_left_out(),
      key<&ReductionConfig::link, &mpi::LinkModel::both_ways>(
          "run.emulate_link.both_ways", at_least(1, 2), of_machine,
          "How many times as long messages take both ways at a time (Open MPI 4 over TCP: about 1.05 between "
          "two hosts, 1.8 between more)")
          .may_be_left_out(),
      key<&ReductionConfig::link, &mpi::LinkModel::burst_kb>(
          "run.emulate_link.burst_kb", at_least(0, max_count), of_machine,
          "KiB that the link takes at once after a rest, as the burst of tc's tbf")
          .may_be_left_out(),
      key<&ReductionConfig::link, &mpi::LinkModel::jitter>(
          "run.emulate_link.jitter", at_least(0, max_count), of_machine,
          "Mean of an exponential addition to the latency, as a part of it, drawn for each all-reduce")
          .may_be_left_out(),
      key<&DeviceConfig::kind>("device.kind", any_value(), of_machine,
                               "Where the ranks compute: \"cuda\" is a GPU; \"reference\" has the plainest "
                               "loops, to compare the others with"),
      key<&DeviceConfig::precision>(
          "device.precision", any_value(), may_change,
          "Number format of activations, their gradients and the weights in products; parameters, statistics "
          "and sums are "
          "float32 in any case (docs/precision.md). \"auto\": on processors with AMX (AMD's: AVX512_BF16) "
          "\"bfloat16\", else \"float32\""),
      key<&DeviceConfig::convolution>(
          "device.convolution", any_value(), may_change,
          "\"winograd\": 3x3 convolutions of stride 1 in float32 by Winograd's algorithm where it is faster: "
          "fewer multiplications, rounding errors 3 to 15 times those of \"direct\"")
          .only_for({"device.kind", {"cpu"}}),
      key<&DeviceConfig::threads>(
          "device.threads", at_least(0, 4096), of_machine,
          "Threads of a rank; 0: the cores that it is bound to, shared fairly with other ranks on them")
          .may_differ_between_hosts(),
      key<&DeviceConfig::share>("device.share", any_value(), of_machine,
                                "Several ranks may compute on one GPU, and exchange gradients through the "
                                "host's memory; else that is a mistake")
          .may_differ_between_hosts()
          .only_for(on_gpu),
      key<&DeviceConfig::graphs>(
          "device.graphs", any_value(), of_machine,
          "The work of a step is launched as CUDA graphs once it has been done twice: for small models, "
          "whose kernels end before the next one is launched (docs/gpu.md)")
          .only_for(on_gpu),
      key<&DeviceConfig::workspace_mb>("device.workspace_mb", at_least(0, 65536), of_machine,
                                       "MiB of workspace that the algorithm of a convolution may take: with "
                                       "more, cuDNN may find a faster one")
          .may_differ_between_hosts()
          .only_for(on_gpu),
      key<&DeviceConfig::tf32>(
          "device.tf32", any_value(), may_change,
          "With float32, what may round its operands to TF32 (10 bits of mantissa), some times as fast on "
          "GPUs since 2020. \"convolutions\" is what PyTorch does; \"all\": linear layers too")
          .only_for(on_gpu),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::kind>(
          "device.loss_scale.kind", any_value(), may_change,
          "What the loss is multiplied with, so that small gradients are not lost in float16: a scale that "
          "follows overflows, or one number. A step that overflows is skipped")
          .only_for(scaled),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::value>(
          "device.loss_scale.value", at_least(1, largest_loss_scale), may_change, "That number")
          .only_for(unchanging),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::initial>("device.loss_scale.initial",
                                                                at_least(1, largest_loss_scale), may_change,
                                                                "The scale of the first step")
          .only_for(dynamic),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::growth>(
          "device.loss_scale.growth", {.low = 1, .low_itself = false}, may_change,
          "Factor after growth_every good steps in a row")
          .only_for(dynamic),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::growth_every>(
          "device.loss_scale.growth_every", at_least(1, max_steps), may_change,
          "Good steps in a row after which the scale grows")
          .only_for(dynamic),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::backoff>(
          "device.loss_scale.backoff", {.low = 0, .high = 1, .low_itself = false, .high_itself = false},
          may_change, "Factor after backoff_every steps in a row that overflowed; the scale stays at least 1")
          .only_for(dynamic),
      key<&DeviceConfig::loss_scale, &LossScaleConfig::backoff_every>(
          "device.loss_scale.backoff_every", at_least(1, max_steps), may_change,
          "Steps in a row that overflowed, after which the scale falls")
          .only_for(dynamic),
  };
}

std::vector<Key> checkpoint_and_validation_keys() {
  return {
      key<&CheckpointConfig::every>(
          "checkpoint.every", at_least(0, max_steps), of_machine,
          "Steps between checkpoints; 0: none but those of every_s and the one at the end"),
      key<&CheckpointConfig::every_s>(
          "checkpoint.every_s", at_least(0, max_steps), of_machine,
          "Seconds after which a checkpoint is saved if there was none meanwhile; 0: never by time"),
      key<&CheckpointConfig::keep>("checkpoint.keep", at_least(1, max_count), of_machine,
                                   "Newest checkpoints that are kept"),
      key<&CheckpointConfig::best>(
          "checkpoint.best", any_value(), of_machine,
          "Figure of a validation, as metrics.jsonl calls it, whose best checkpoint is kept beside the "
          "newest ones and is found as checkpoints/best.h5; a checkpoint is saved at each improvement"),
      key<&CheckpointConfig::keep_best>(
          "checkpoint.keep_best", at_least(1, 1000), of_machine,
          "Checkpoints of the best validations that are kept: checkpoints/best.h5, best-2.h5, …; needs "
          "checkpoint.best"),
      key<&CheckpointConfig::per_rank>(
          "checkpoint.per_rank", any_value(), of_machine,
          "Every rank saves its own model into a folder of its own as well (checkpoints/rank-0000)"),
      key<&CheckpointConfig::resident>(
          "checkpoint.resident", any_value(), of_machine,
          "Keep the newest state in the memory of the hosts (/dev/shm) too, from which a run whose processes "
          "were killed goes on (docs/reference.md). \"auto\": where there is room for two states; true and "
          "false "
          "need no quotes"),
      key<&ValidationConfig::every>("validation.every", at_least(0, max_steps), of_machine,
                                    "Epochs between validations; 0: after the last step only"),
      key<&ValidationConfig::batch_size>("validation.batch_size", at_least(0, max_count), of_machine,
                                         "Samples per worker; 0: as in training"),
  };
}

void check_run_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  RunRules rules(config, given, mistakes);
  rules.resume_with();
  rules.mlperf_log();
  rules.best_checkpoint();
  rules.precision();
  rules.reproducible();
  rules.emulated_straggler();
  rules.emulated_link();
}

}  // namespace flotilla::config
