// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/train/resume.hpp"
#include "src/train/run_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/agreed_failure.hpp"
#include "tests/train/plain_values.hpp"

// Saving and going on, in process, on 1, 2 and 4 workers.

namespace {

/// While this is set, a write takes longer than a step.
std::atomic<bool> disk_is_slow = false;

}  // namespace

extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t position) {
  if (disk_is_slow) ::usleep(10000);
  return static_cast<ssize_t>(::syscall(SYS_pwrite64, descriptor, bytes, count, position));
}

namespace flotilla {
namespace {

using test::mentions;

/// Every worker drifts off from the common model in its own direction, and the strategy counts its steps and
/// sums up the common model in an array of its own.
class Drifting : public Strategy {
 public:
  explicit Drifting(RunParts& parts)
      : parts_(parts),
        inner_(std::move(parts.sync.strategy)),
        sum_(parts.machine.device->memory().allocate(parts.model.weights.parameters.size())),
        mean_(parts.machine.device->memory().allocate(parts.model.weights.parameters.size())) {}

  void start() override {
    inner_->start();
    broadcast(*parts_.machine.device, parts_.machine.workers,
              std::vector<StateArray>{{"strategy/sum", StateArray::Layout::parameters, sum_.span()}});
  }
  void resume(const Resumption& resumed) override {
    resumed_with_own = resumed.own_state;
    if (!resumed.numbers.empty()) steps_ = resumed.numbers.at("steps");
  }
  void begin_step(bool asks_to_stop) override { inner_->begin_step(asks_to_stop); }
  StepOutcome exchange(const StepInfo& info, const StepOutcome& own) override {
    const StepOutcome outcome = inner_->exchange(info, own);
    parts_.machine.device->flat().axpy(1.0F, mean(), sum_.span());
    const float factor =
        1.0F + 1e-3F * static_cast<float>((parts_.machine.workers.rank() + 1) * (++steps_ + 1.0));
    parts_.machine.device->flat().scale(parts_.model.weights.parameters, factor);
    return outcome;
  }
  Model consensus() override { return {mean(), parts_.model.weights.statistics}; }
  StrategyState state() override {
    std::vector<StateArray> own = state_arrays(parts_.model.weights, parts_.model.optimizer.get());
    std::vector<StateArray> shared = own;
    shared.front().values = mean();
    shared.push_back({"strategy/sum", StateArray::Layout::parameters, sum_.span()});
    return {.shared = shared,
            .own = own,
            .numbers = {{"steps", steps_}},
            .optimizer_steps = parts_.model.optimizer->steps()};
  }
  std::vector<StateArray> live() override {
    std::vector<StateArray> arrays = state_arrays(parts_.model.weights, parts_.model.optimizer.get());
    arrays.push_back({"strategy/sum", StateArray::Layout::parameters, sum_.span()});
    return arrays;
  }
  Replicated replicated() const override { return {}; }
  StrategyDescription description() const override { return inner_->description(); }

  std::optional<bool> resumed_with_own;

 private:
  DeviceSpan<float> mean() {
    const DeviceSpan<float> mean = mean_.span();
    std::vector<float> values(mean.size());
    parts_.machine.device->memory().download(parts_.model.weights.parameters, values);
    parts_.machine.workers.all_reduce(std::span<float>(values));
    parts_.machine.device->memory().upload(values, mean);
    parts_.machine.device->flat().scale(mean, 1.0F / static_cast<float>(parts_.machine.workers.size()));
    return mean;
  }

  RunParts& parts_;
  std::unique_ptr<Strategy> inner_;
  Storage sum_;
  Storage mean_;
  double steps_ = 0.0;
};

enum class Kind { all_reduce, drifting };

/// A training that saves into a folder, and may go on from a checkpoint.
struct SavingRun {
  SavingRun(mpi::Communicator communicator, const std::string& folder, Kind kind,
            const std::vector<std::string>& more, const std::string& resumed = {})
      : world(std::move(communicator)),
        deck(load_deck({.path = "test.toml",
                        .text = read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                        .overrides = with_defaults(more)})),
        failure(world.rank(), world.size(), "test"),
        parts(deck.config, {world, nullptr, failure, watchdog}, {}),
        reporter({.folder = "", .rank = 1}),
        writer(folder, 9,
               saving_workers(world, mpi::find_topology(world)[static_cast<std::size_t>(world.rank())])) {
    if (kind == Kind::drifting) parts.sync.strategy = std::make_unique<Drifting>(parts);
    Beginning beginning;
    if (!resumed.empty()) {
      const CheckpointState state = read_checkpoint(resumed).state;
      continuation = restore_run({.path = resumed, .state = state}, parts);
      beginning = {.step = state.step, .position = state.position, .samples = state.samples};
    }
    if (!continuation.own_state) parts.sync.strategy->start();
    if (!resumed.empty())
      parts.sync.strategy->resume(
          {.steps = 0, .epochs = 0.0, .numbers = continuation.numbers, .own_state = continuation.own_state});
    trainer = std::make_unique<Trainer>(Trainer::Parts{.run = parts,
                                                       .reporter = reporter,
                                                       .writers = {.shared = &writer},
                                                       .failure = failure,
                                                       .loading = {.threads = 1, .prefetch = 2, .sink = {}},
                                                       .build = ""},
                                        beginning);
    loader = trainer->make_loader();
  }
  static std::vector<std::string> with_defaults(std::vector<std::string> more) {
    more.insert(more.begin(), {"run.output=/nowhere", "device.threads=1", "train.global_batch_size=32",
                               "optimizer.kind=adam"});
    return more;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) trainer->step(*loader);
  }
  /// Parameters, slots and the strategy's own, as they are on this worker.
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (const StateArray& array : parts.sync.strategy->live()) {
      all.emplace_back(array.values.size());
      parts.machine.device->memory().download(array.values, all.back());
    }
    return all;
  }
  std::vector<float> common_parameters() {
    const Model common = parts.sync.strategy->consensus();
    std::vector<float> values(common.parameters.size());
    parts.machine.device->memory().download(common.parameters, values);
    return values;
  }
  void finish() {
    writer.finish();
    for (const SaveReport& report : writer.reports()) EXPECT_EQ(report.error, "");
    world.barrier();
  }

  mpi::Communicator world;
  LoadedDeck deck;
  FailureHandler failure;
  mpi::Watchdog watchdog{0.0, nullptr};
  RunParts parts;
  Reporter reporter;
  CheckpointWriter writer;
  Continuation continuation;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Loader> loader;
};

/// One folder for all workers; removed by worker 0.
class Saving : public testing::Test {
 protected:
  Saving() {
    folder_ = own_.path();
    world_.broadcast(folder_);
  }
  ~Saving() override { world_.barrier(); }
  std::string checkpoint(std::int64_t step) const {
    return folder_ + "/" + CheckpointFolder::file_name(step);
  }

  mpi::Communicator world_ = mpi::Communicator::world();
  test::TemporaryFolder own_;
  std::string folder_;
};

/// Above StateSource::copied_below_bytes with the optimizer's slots.
const std::vector<std::string> large = {"model.widths=[1700,1700]"};

TEST(RankLogs, HaveAllLinesUpTo64WorkersUnlessTheDeckSaysOtherwise) {
  EXPECT_EQ(log_lines(RankLogs::automatic, 64), LogLines::all);
  EXPECT_EQ(log_lines(RankLogs::automatic, 65), LogLines::own);
  EXPECT_EQ(log_lines(RankLogs::own, 2), LogLines::own);
  EXPECT_EQ(log_lines(RankLogs::none, 2), LogLines::none);
  EXPECT_EQ(log_lines(RankLogs::all, 1000), LogLines::all);
}

TEST_F(Saving, OfALargeModelTakesNoCopyAndIsOfItsOwnStep) {
  if (world_.size() > 2) GTEST_SKIP() << "as on two workers, but slow";
  SavingRun run(mpi::Communicator::world(), folder_, Kind::all_reduce, large);
  ASSERT_FALSE(StateSource(*run.parts.model.network, run.parts.sync.strategy->live()).copies());
  std::map<std::int64_t, std::vector<std::vector<float>>> expected;

  for (const std::int64_t step : {1, 2}) {
    run.steps(1);
    expected[step] = run.values();
    disk_is_slow = true;
    run.trainer->save();
  }
  run.steps(1);
  disk_is_slow = false;
  run.finish();

  for (const auto& [step, values] : expected) {
    const Snapshot saved = read_checkpoint(checkpoint(step));
    for (const CheckpointTensor& tensor : saved.tensors) {
      if (tensor.path != "parameters/fc2.bias" && tensor.path != "optimizer/first/fc2.bias") continue;
      const Slice& slice =
          *std::ranges::find(run.parts.model.network->layout().slices(), "fc2.bias", &Slice::name);
      const auto& array = values[tensor.path.starts_with("parameters") ? 0 : 2];
      const auto begin = array.begin() + slice.offset;
      EXPECT_TRUE(std::ranges::equal(saved.of(tensor), std::vector<float>(begin, begin + slice.shape.size())))
          << tensor.path << " of step " << step;
    }
  }
}

TEST_F(Saving, GivesEachWorkerItsOwnStateBackToTheBit) {
  for (const auto& more : {std::vector<std::string>{}, large}) {
    if (world_.size() > 2 && more == large) break;  // as on two workers, but slow
    SavingRun whole(mpi::Communicator::world(), folder_, Kind::drifting, more);
    whole.steps(2);
    whole.trainer->save();
    whole.steps(2);
    whole.finish();

    SavingRun resumed(mpi::Communicator::world(), folder_, Kind::drifting, more, checkpoint(2));
    resumed.steps(2);

    EXPECT_TRUE(resumed.continuation.own_state);
    EXPECT_TRUE(resumed.continuation.notes.empty());
    EXPECT_EQ(resumed.values(), whole.values());
    EXPECT_EQ(read_checkpoint(checkpoint(2)).state.parts.size(), static_cast<std::size_t>(world_.size()));
    std::vector<float> roots = whole.values().front();
    world_.broadcast(std::span(roots));
    EXPECT_EQ(roots == whole.values().front(), world_.is_root()) << "the workers were to differ";
  }
}

/// The state in the order of files, since each device orders values in its own way.
std::vector<float> plain_state(SavingRun& run) {
  return test::plain_values(*run.parts.model.network, run.parts.sync.strategy->live());
}

TEST_F(Saving, TakesARunFromDeviceToDevice) {
  std::string resumed;
  std::vector<float> before;
  std::int64_t step = 0;
  for (const std::string device : {"cpu", "reference", "cpu"}) {
    SavingRun run(mpi::Communicator::world(), folder_, Kind::drifting, {"device.kind=" + device}, resumed);
    if (!resumed.empty()) {
      EXPECT_TRUE(run.continuation.own_state);
      EXPECT_EQ(plain_state(run), before) << device;
    }
    run.steps(1);
    run.trainer->save();
    before = plain_state(run);
    run.finish();
    resumed = checkpoint(++step);
  }
}

TEST_F(Saving, LetsAnotherNumberOfWorkersBeginWithTheSharedModel) {
  if (world_.size() == 1) GTEST_SKIP() << "there is no smaller number of workers";
  SavingRun whole(mpi::Communicator::world(), folder_, Kind::drifting, {});
  whole.steps(3);
  whole.trainer->save();
  const std::vector<float> common = whole.common_parameters();
  whole.finish();

  SavingRun resumed(world_.split(world_.rank()), own_.path(), Kind::drifting, {}, checkpoint(3));

  EXPECT_FALSE(resumed.continuation.own_state);
  ASSERT_EQ(resumed.continuation.notes.size(), 2U);
  EXPECT_EQ(resumed.continuation.notes[0],
            cat("changed      workers ", world_.size(), " → 1 since the checkpoint"));
  EXPECT_TRUE(mentions(resumed.continuation.notes[1], {cat("of ", world_.size(), " workers")}));
  EXPECT_EQ(resumed.values().front(), common);
  EXPECT_NE(resumed.values().front(), whole.values().front());
  EXPECT_EQ(resumed.values().back(), whole.values().back()) << "what the strategy has of its own";
}

TEST_F(Saving, GoesOnWithTheSameDataOnly) {
  SavingRun run(mpi::Communicator::world(), folder_, Kind::all_reduce, {});
  run.steps(1);
  run.trainer->save();
  run.finish();
  CheckpointState state = read_checkpoint(checkpoint(1)).state;
  EXPECT_EQ(state.training_samples, 128128);
  state.training_samples = 128127;
  const std::string error =
      test::failure_of([&] { restore_run({.path = checkpoint(1), .state = state}, run.parts); });

  EXPECT_TRUE(mentions(error, {"had 128127 samples when it was saved, and has 128128 now"}));
}

TEST_F(Saving, RefusesAPartOfAnotherSave) {
  SavingRun run(mpi::Communicator::world(), folder_, Kind::drifting, {});
  for (int step = 0; step < 2; ++step) {
    run.steps(1);
    run.trainer->save();
  }
  run.finish();
  if (world_.is_root())
    std::filesystem::copy_file(folder_ + "/step-00000001.parts/worker-0000.h5",
                               folder_ + "/step-00000002.parts/worker-0000.h5",
                               std::filesystem::copy_options::overwrite_existing);
  world_.barrier();
  const std::string error = test::failure_of([&] {
    restore_run({.path = checkpoint(2), .state = read_checkpoint(checkpoint(2)).state}, run.parts);
  });

  EXPECT_TRUE(mentions(error, {"worker-0000.h5' was written by another save"}));
}

}  // namespace
}  // namespace flotilla
