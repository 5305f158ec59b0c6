// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/config/deck.hpp"
#include "src/train/trainer.hpp"

namespace flotilla::test {

/// A small residual network on random images; every test adds what it is about.
inline const std::string resnet_deck = R"(
[model]
kind = "resnet"
depth = 18
classes = 4
[data]
kind = "random"
shape = [3, 32, 32]
[data.train]
samples = 64
[train]
steps = 1000
global_batch_size = 16
[optimizer]
kind = "momentum"
weight_decay = 1e-4
no_decay = ["biases", "batch_norm"]
[schedule]
learning_rate = 0.01
)";

/// An MLP on random data of three classes, which takes no time; every test adds what it is about.
inline const std::string small_mlp_deck = R"(
[model]
kind = "mlp"
widths = [24, 12]
activation = "tanh"
classes = 3
[data]
kind = "random"
shape = [30]
[data.train]
samples = 240
[train]
steps = 1000
global_batch_size = 16
[optimizer]
kind = "momentum"
[schedule]
learning_rate = 0.05
)";

/// Overrides of a deck.
using Texts = std::vector<std::string>;

/// A training without folder and checkpoints, in process.
struct TrainingRun {
  TrainingRun(mpi::Communicator communicator, const std::string& deck_text, std::vector<std::string> more,
              trace::Sink* communication = nullptr, ServerLink* servers = nullptr)
      : world(std::move(communicator)),
        deck(
            load_deck({.path = "test.toml", .text = deck_text, .overrides = with_defaults(std::move(more))})),
        failure(world.rank(), world.size(), "test"),
        parts(deck.config, {world, servers, failure, watchdog}, {}, sinks_of(communication)),
        reporter({.folder = "", .rank = 1}),
        trainer({.run = parts,
                 .reporter = reporter,
                 .writers = {},
                 .failure = failure,
                 .loading = {.threads = 1, .prefetch = 2, .sink = {}},
                 .build = ""},
                {}),
        loader(trainer.make_loader()) {
    parts.sync.strategy->start();
  }

  /// The tests that trace use one communicator.
  static std::vector<trace::Sink*> sinks_of(trace::Sink* communication) {
    return communication == nullptr ? std::vector<trace::Sink*>() : std::vector{communication};
  }
  static std::vector<std::string> with_defaults(std::vector<std::string> more) {
    more.insert(more.begin(), {"run.output=/nowhere", "device.threads=1"});
    return more;
  }
  StepOutcome step() { return trainer.step(*loader); }
  std::vector<float> values(DeviceSpan<const float> span) {
    std::vector<float> host(span.size());
    parts.machine.device->memory().download(span, host);
    return host;
  }
  std::vector<float> parameters() { return values(parts.model.weights.parameters); }
  std::vector<float> statistics() { return values(parts.model.weights.statistics); }

  mpi::Communicator world;
  LoadedDeck deck;
  FailureHandler failure;
  mpi::Watchdog watchdog{0.0, nullptr};
  RunParts parts;
  Reporter reporter;
  Trainer trainer;
  std::unique_ptr<Loader> loader;
};

inline Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A run of the deck that comes along, an MLP on random data, on all workers.
struct ShippedMlpRun : TrainingRun {
  explicit ShippedMlpRun(const Texts& more, trace::Sink* communication = nullptr)
      : TrainingRun(mpi::Communicator::world(), read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                    more, communication) {}
};

/// Whether every worker has worker 0's values.
template <class T>
bool same_on_all(const mpi::Communicator& workers, const std::vector<T>& mine) {
  std::vector<T> roots = mine;
  workers.broadcast(std::span<T>(roots));
  return mine == roots;
}

}  // namespace flotilla::test
