// SPDX-License-Identifier: Apache-2.0
#include "tests/train/half_parameters.hpp"

#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/on_gpu.hpp"

namespace flotilla::test {
namespace {

struct HalvesOnGpu : OnGpu {
  static HalvesDevice device() {
    return {.bfloat16 = {"device.kind=cuda", "device.precision=bfloat16", "device.share=true"},
            .graphs = {"device.graphs=true"},
            .float16 = {"device.precision=float16", "device.loss_scale.initial=1e9",
                        "device.loss_scale.backoff=0.01", "device.loss_scale.backoff_every=1"}};
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnGpu, HalvesOfParameters, HalvesOnGpu);

TEST_F(HalvesOnGpu, AreWrittenByTheUpdateWithAllReduce) {
  for (const Texts& more : all_reduces(device())) {
    const Texts keys = device().bfloat16 + more;
    with_run(small_mlp_deck, keys, [&](TrainingRun& run) {
      TrainingRun rounding(run.world.collective_clone(), small_mlp_deck, keys);
      const auto launches = [](TrainingRun& of) {
        const fake::Done before = fake::done();
        of.step();
        const fake::Done after = fake::done();
        return after.alone + after.in_graphs - before.alone - before.in_graphs;
      };
      for (int step = 0; step < 10; ++step) {
        rounding.parts.model.network->halves()->expire();
        const std::int64_t written = launches(run);
        const std::int64_t rounded = launches(rounding);
        if (step == 0) continue;
        EXPECT_EQ(written, rounded - run.parts.data.sharding.micro_steps) << text_of(more);
      }

      EXPECT_EQ(bits_of(run.parameters()), bits_of(rounding.parameters())) << text_of(more);
      EXPECT_EQ(run.parts.model.loss_scale.enabled(), run.parts.model.loss_scale.skipped() > 0);
    });
  }
}

}  // namespace
}  // namespace flotilla::test
