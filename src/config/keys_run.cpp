// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> run_and_device_keys() {
  const Condition on_gpu = {"device.kind", {"cuda"}};
  const Condition scaled = {"device.precision", {"float16"}};
  const Condition unchanging = {"device.loss_scale.kind", {"static"}};
  const Condition dynamic = {"device.loss_scale.kind", {"dynamic"}};
  return {
      {.path = "run.seed",
       .field = field<&Config::run, &RunConfig::seed>(),
       .rule = at_least(0),
       .help = "Seed of initial weights, order of samples and random data",
       .on_resume = must_match},
      {.path = "run.output",
       .field = field<&Config::run, &RunConfig::output>(),
       .help = "Folder of the run, relative to the current folder",
       .path_role = PathRole::output,
       .default_text = "runs/<name of the deck>"},
      {.path = "run.resume",
       .field = field<&Config::run, &RunConfig::resume>(),
       .help =
           "\"auto\": from the newest good checkpoint in run.output; \"never\": refuse if there is one; or a "
           "checkpoint",
       .path_role = PathRole::input},
      {.path = "run.resume_with",
       .field = field<&Config::run, &RunConfig::resume_with>(),
       .help = "Keys and tables, as \"schedule\" or \"optimizer.weight_decay\", that may differ from the "
               "checkpoint's: those of schedule, train and data, model.dropout, and all of optimizer but its "
               "kind. What differs is said, and kept in later checkpoints"},
      {.path = "run.log_every",
       .field = field<&Config::run, &RunConfig::log_every>(),
       .rule = positive(most_steps),
       .help = "Steps between reports"},
      {.path = "run.trace",
       .field = field<&Config::run, &RunConfig::trace>(),
       .help = "Write a Chrome trace per rank into run.output/trace"},
      {.path = "run.mlperf_log",
       .field = field<&Config::run, &RunConfig::mlperf_log>(),
       .help =
           "Write the run's events into run.output/mlperf.log, as MLPerf's compliance checker reads them; "
           "needs model.kind = \"resnet\", checkpoint.best = \"accuracy_top1\" and train.target"},
      {.path = "run.watchdog_s",
       .field = field<&Config::run, &RunConfig::watchdog_s>(),
       .rule = at_least(0, most_seconds),
       .help = "Seconds without progress after which the job is ended with a report; 0: never"},
      {.path = "run.check_network",
       .field = field<&Config::run, &RunConfig::check_network>(),
       .help = "With several hosts: measure the network between them at the start, for about a second, and "
               "name what is slow"},
      {.path = "run.check_collectives",
       .field = field<&Config::run, &RunConfig::check_collectives>(),
       .help =
           "Ranks compare each collective call (kind, values, place in the source, step) before they make "
           "it, and end the job where they differ. For tests: without it they compare once a rank has waited "
           "for a second"},
      {.path = "run.time_limit_s",
       .field = field<&Config::run, &RunConfig::time_limit_s>(),
       .rule = at_least(0, most_seconds),
       .help = "Seconds from the start of the process within which the run saves a checkpoint and stops, as "
               "it does before Slurm's limit; 0: none"},
      {.path = "run.stop_margin_s",
       .field = field<&Config::run, &RunConfig::stop_margin_s>(),
       .rule = at_least(0, most_seconds),
       .help = "Seconds kept free before Slurm's limit; more if the longest step, validation and "
               "checkpoint so far need more"},
      {.path = "run.reproducible",
       .field = field<&Config::run, &RunConfig::reproducible>(),
       .help = "The same bits for every number of workers: a step is computed in virtual_shards shards, "
               "added in one tree"},
      {.path = "run.virtual_shards",
       .field = field<&Config::run, &RunConfig::virtual_shards>(),
       .rule = at_least(1, 65536),
       .help = "\"reproducible\": shards of a step, shared out evenly, a power of two to each worker"},
      {.path = "run.agreement_every",
       .field = field<&Config::run, &RunConfig::agreement_every>(),
       .rule = at_least(0, most_steps),
       .help = "Steps between checks that all workers hold the same model; 0: at reports and checkpoints"},
      {.path = "run.emulate_straggler.rank",
       .field = field<&Config::run, &RunConfig::emulate_straggler, &EmulatedStragglerConfig::rank>(),
       .rule = at_least(0, most_count),
       .help = "Worker that is made slow, to see what a straggler costs; with slow_factor or pause_s",
       .presence = Necessity::optional},
      {.path = "run.emulate_straggler.slow_factor",
       .field = field<&Config::run, &RunConfig::emulate_straggler, &EmulatedStragglerConfig::slow_factor>(),
       .rule = {.low = 1, .low_itself = false},
       .help = "Its forward and backward pass take this many times as long",
       .presence = Necessity::optional},
      {.path = "run.emulate_straggler.pause_s",
       .field = field<&Config::run, &RunConfig::emulate_straggler, &EmulatedStragglerConfig::pause_s>(),
       .rule = positive(most_seconds),
       .help = "Seconds that it pauses before the end of its backward pass",
       .presence = Necessity::optional},
      {.path = "run.emulate_straggler.every",
       .field = field<&Config::run, &RunConfig::emulate_straggler, &EmulatedStragglerConfig::every>(),
       .rule = at_least(1, most_steps),
       .help = "Every how many steps; left out: in each",
       .presence = Necessity::optional},
      {.path = "run.emulate_straggler.take_turns",
       .field = field<&Config::run, &RunConfig::emulate_straggler, &EmulatedStragglerConfig::take_turns>(),
       .help = "Each time another worker, the next one, beginning with rank",
       .presence = Necessity::optional},
      {.path = "device.kind",
       .field = field<&Config::device, &DeviceConfig::kind>(),
       .help = "\"reference\" has the plainest loops, to compare the others with"},
      {.path = "device.precision",
       .field = field<&Config::device, &DeviceConfig::precision>(),
       .help = "Of activations, their gradients and the weights in products; parameters, statistics and sums "
               "are float32 in any case (docs/precision.md). \"auto\": on processors with AMX (AMD's: "
               "AVX512_BF16) \"bfloat16\", else \"float32\""},
      {.path = "device.convolution",
       .field = field<&Config::device, &DeviceConfig::convolution>(),
       .help = "\"winograd\": 3x3 convolutions of stride 1 by Winograd's algorithm where the library has it "
               "for this "
               "processor: fewer multiplications, rounding some five times that of \"direct\"",
       .condition = {"device.kind", {"cpu"}}},
      {.path = "device.threads",
       .field = field<&Config::device, &DeviceConfig::threads>(),
       .rule = at_least(0, 4096),
       .help = "Threads of a rank; 0: the cores that it is bound to, shared fairly with other ranks on them"},
      {.path = "device.share",
       .field = field<&Config::device, &DeviceConfig::share>(),
       .help = "Several ranks may compute on one GPU, and exchange gradients through the host's memory; else "
               "that is a mistake",
       .condition = on_gpu},
      {.path = "device.graphs",
       .field = field<&Config::device, &DeviceConfig::graphs>(),
       .help = "The work of a step is launched as CUDA graphs once it has been done twice: for small models, "
               "whose kernels end before the next one is launched (docs/gpu.md)",
       .condition = on_gpu},
      {.path = "device.workspace_mb",
       .field = field<&Config::device, &DeviceConfig::workspace_mb>(),
       .rule = at_least(0, 65536),
       .help = "MiB of workspace that the algorithm of a convolution may take: with more, cuDNN may find a "
               "faster one",
       .condition = on_gpu},
      {.path = "device.tf32",
       .field = field<&Config::device, &DeviceConfig::tf32>(),
       .help = "With float32, what may round its operands to TF32 (10 bits of mantissa), some times as fast "
               "on GPUs since 2020. \"convolutions\" is what PyTorch does; \"all\": linear layers too",
       .condition = on_gpu},
      {.path = "device.loss_scale.kind",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::kind>(),
       .help = "What the loss is multiplied with, so that small gradients are not lost in float16: a scale "
               "that follows overflows, or one number. A step that overflows is skipped",
       .condition = scaled},
      {.path = "device.loss_scale.value",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::value>(),
       .rule = at_least(1, largest_loss_scale),
       .help = "That number",
       .condition = unchanging},
      {.path = "device.loss_scale.initial",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::initial>(),
       .rule = at_least(1, largest_loss_scale),
       .help = "The scale of the first step",
       .condition = dynamic},
      {.path = "device.loss_scale.growth",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::growth>(),
       .rule = {.low = 1, .low_itself = false},
       .help = "Factor after growth_every good steps in a row",
       .condition = dynamic},
      {.path = "device.loss_scale.growth_every",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::growth_every>(),
       .rule = at_least(1, most_steps),
       .help = "Good steps in a row after which the scale grows",
       .condition = dynamic},
      {.path = "device.loss_scale.backoff",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::backoff>(),
       .rule = {.low = 0, .high = 1, .low_itself = false, .high_itself = false},
       .help = "Factor after backoff_every steps in a row that overflowed; the scale stays at least 1",
       .condition = dynamic},
      {.path = "device.loss_scale.backoff_every",
       .field = field<&Config::device, &DeviceConfig::loss_scale, &LossScaleConfig::backoff_every>(),
       .rule = at_least(1, most_steps),
       .help = "Steps in a row that overflowed, after which the scale falls",
       .condition = dynamic},
  };
}

}  // namespace flotilla::config
