// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/train/training_run.hpp"

// A training in which the last worker's memory fails after some steps; test_bad_memory launches it:
// bad_memory_job WHAT KEY=VALUE… MARK, WHAT being added to one of its parameters.
int main(int argc, char** argv) {
  flotilla::mpi::Environment environment(argc, argv);
  std::vector<std::string> keys(argv + 2, argv + argc - 1);
  keys.emplace_back("train.global_batch_size=24");
  flotilla::test::TrainingRun run(flotilla::mpi::Communicator::world(),
                                  flotilla::read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                                  keys);
  constexpr int steps_before = 2;
  for (int i = 0; i < steps_before; ++i) run.step();
  if (run.world.rank() + 1 == run.world.size())
    run.parts.model.weights.parameters.address()[0] += std::stof(argv[1]);
  run.trainer.run();
  return 0;
}
