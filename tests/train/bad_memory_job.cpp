// SPDX-License-Identifier: Apache-2.0
#include "tests/train/training_run.hpp"

// A training in which the last worker's memory fails; test_disagreeing_job launches it.
int main(int argc, char** argv) {
  flotilla::mpi::Environment environment(argc, argv);
  flotilla::test::TrainingRun run(flotilla::mpi::Communicator::world(),
                                  flotilla::read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                                  {"train.global_batch_size=24", "train.steps=20", "run.agreement_every=3"});
  if (run.world.rank() + 1 == run.world.size()) run.assembly.model.parameters.address()[0] += 0.5F;
  run.trainer.run();
  return 0;
}
