// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> run_and_device_keys() {
  return {
      {.path = "run.seed",
       .field = field<&Config::run, &RunConfig::seed>,
       .rule = at_least(0),
       .help = "Seed of initial weights, order of samples and random data",
       .on_resume = must_match},
      {.path = "run.output",
       .field = field<&Config::run, &RunConfig::output>,
       .rule = any(),
       .help = "Folder of the run, relative to the current folder",
       .path_role = PathRole::output,
       .default_text = "runs/<name of the deck>"},
      {.path = "run.resume",
       .field = field<&Config::run, &RunConfig::resume>,
       .rule = any(),
       .help =
           "\"auto\": from the newest good checkpoint in run.output; \"never\": refuse if there is one; or a "
           "checkpoint",
       .path_role = PathRole::input},
      {.path = "run.log_every",
       .field = field<&Config::run, &RunConfig::log_every>,
       .rule = positive(most_steps),
       .help = "Steps between reports"},
      {.path = "run.trace",
       .field = field<&Config::run, &RunConfig::trace>,
       .rule = any(),
       .help = "Write a Chrome trace per rank into run.output/trace"},
      {.path = "run.watchdog_s",
       .field = field<&Config::run, &RunConfig::watchdog_s>,
       .rule = at_least(0),
       .help = "Seconds without progress after which the job is ended with a report; 0: never"},
      {.path = "run.time_limit_s",
       .field = field<&Config::run, &RunConfig::time_limit_s>,
       .rule = at_least(0),
       .help = "Seconds after which the run saves a checkpoint and stops; 0: none"},
      {.path = "run.reproducible",
       .field = field<&Config::run, &RunConfig::reproducible>,
       .rule = any(),
       .help = "The same bits for every number of workers: a step is computed in virtual_shards shards, "
               "added in one tree"},
      {.path = "run.virtual_shards",
       .field = field<&Config::run, &RunConfig::virtual_shards>,
       .rule = at_least(1, 65536),
       .help = "\"reproducible\": shards of a step, shared out evenly, a power of two to each worker"},
      {.path = "device.kind",
       .field = field<&Config::device, &DeviceConfig::kind>,
       .rule = one_of({"cpu", "cuda", "reference"}),
       .help = "\"reference\" has the plainest loops, to compare the others with"},
      {.path = "device.precision",
       .field = field<&Config::device, &DeviceConfig::precision>,
       .rule = one_of({"float32"}, "the devices \"cpu\" and \"reference\" compute in float32 only"),
       .help = "Precision of activations and gradients"},
      {.path = "device.convolution",
       .field = field<&Config::device, &DeviceConfig::convolution>,
       .rule = one_of({"winograd", "direct"}),
       .help = "\"winograd\": 3x3 convolutions of stride 1 by Winograd's algorithm where the library has it "
               "for this "
               "processor: fewer multiplications, rounding some five times that of \"direct\"",
       .condition = {"device.kind", {"cpu"}}},
      {.path = "device.threads",
       .field = field<&Config::device, &DeviceConfig::threads>,
       .rule = at_least(0, 4096),
       .help = "Threads of a rank; 0: the cores that it is bound to, shared fairly with other ranks on them"},
  };
}

}  // namespace flotilla::config
