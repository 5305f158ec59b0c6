// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "src/data/arrays/chunked_array.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// The numbers that predict and evaluate --vectors give are those of plain loops over the weights.

namespace flotilla::test {
namespace {

using Numbers = std::vector<double>;
constexpr std::size_t rows = 23;
constexpr std::size_t inputs = 4;
constexpr std::size_t hidden = 5;
constexpr std::size_t outputs = 2;

const std::string deck =
    "[model]\nwidths = [5]\nactivation = \"tanh\"\noutputs = 2\n"
    "[data]\nkind = \"hdf5\"\ninputs = \"x\"\ntargets = \"y\"\n"
    "input_mean = [1.0, 2.0, 3.0, 4.0]\ninput_std = [2.0]\n"
    "[train]\nsteps = 30\nglobal_batch_size = 8\n[schedule]\nlearning_rate = 0.1\n"
    "[device]\nthreads = 1\n";

class RegressionValues : public testing::Test {
 protected:
  RegressionValues() {
    for (std::size_t k = 0; k < rows * inputs; ++k) x.push_back(static_cast<double>(k * 37 % 23) / 4.0 - 1.0);
    for (std::size_t k = 0; k < rows * outputs; ++k) y.push_back(static_cast<double>(k % 2));
    const NumberType f32{NumberType::Kind::f32};
    save_hdf5(path("a.h5"),
              {of_values("x", f32, {rows, inputs}, x), of_values("y", f32, {rows, outputs}, y)});
    write_file(path("deck.toml"), deck);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

  void train(const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", path("deck.toml"), "run.output=" + path("run"),
                                    "data.train.path=" + path("a.h5"),
                                    "data.validation.path=" + path("a.h5")};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = flotilla(2, all);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }

  /// The network's outputs for all rows, before they are scaled.
  Numbers applied() const {
    const Snapshot model = final_model(path("run"));
    const auto values = [&](const std::string& name) {
      for (const CheckpointTensor& tensor : model.tensors)
        if (tensor.path == "parameters/" + name) return model.of(tensor);
      throw std::out_of_range(name);
    };
    const auto w1 = values("fc1.weight");
    const auto b1 = values("fc1.bias");
    const auto w2 = values("fc2.weight");
    const auto b2 = values("fc2.bias");
    Numbers all;
    for (std::size_t row = 0; row < rows; ++row) {
      Numbers h(hidden);
      for (std::size_t k = 0; k < hidden; ++k) {
        double sum = double{b1[k]};
        for (std::size_t i = 0; i < inputs; ++i)
          sum += double{w1[k * inputs + i]} * (x[row * inputs + i] - static_cast<double>(i + 1)) / 2.0;
        h[k] = std::tanh(sum);
      }
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = double{b2[o]};
        for (std::size_t k = 0; k < hidden; ++k) sum += double{w2[o * hidden + k]} * h[k];
        all.push_back(sum);
      }
    }
    return all;
  }

  /// The columns after each sample's number.
  Numbers predicted(int ranks) const {
    const Result result = flotilla(ranks, {"predict", path("run"), path("a.h5")});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::istringstream lines(result.output);
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "sample,output_0,output_1");
    Numbers all;
    for (std::size_t row = 0; std::getline(lines, line); ++row) {
      std::replace(line.begin(), line.end(), ',', ' ');
      std::istringstream fields(line);
      std::size_t number = 0;
      double first = 0.0;
      double second = 0.0;
      fields >> number >> first >> second;
      EXPECT_EQ(number, row);
      all.insert(all.end(), {first, second});
    }
    return all;
  }

  Numbers vectors(int ranks) const {
    const Result result = flotilla(ranks, {"evaluate", path("run"), "--vectors", path("vectors.h5")});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const auto array =
        open_hdf5_arrays(path("vectors.h5"), std::make_shared<ChunkCache>(1 << 20))->open("vectors");
    EXPECT_EQ(array->form().extents, (std::vector<std::int64_t>{rows, outputs}));
    std::vector<float> values(rows * outputs);
    array->read(0, rows, std::as_writable_bytes(std::span(values)));
    return {values.begin(), values.end()};
  }

  Numbers x;
  Numbers y;

 private:
  TemporaryFolder folder_;
};

void expect_near(const Numbers& found, const Numbers& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(test::within(found[i], expected[i], tolerance)) << i;
}

TEST_F(RegressionValues, OfNumbersAreInUnitsOfTheData) {
  train({"model.loss=mse", "data.target_mean=[100.0, -5.0]", "data.target_std=[20.0, 3.0]"});
  Numbers expected = applied();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = i % 2 == 0 ? 20.0 * expected[i] + 100.0 : 3.0 * expected[i] - 5.0;
  expect_near(predicted(2), expected, 1e-4);
  expect_near(vectors(3), expected, 1e-4);

  // The figures of the validation are those of these numbers.
  double squares = 0.0;
  double absolute = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    squares += (y[i] - expected[i]) * (y[i] - expected[i]);
    absolute += std::abs(y[i] - expected[i]);
  }
  const nlohmann::json found = last_metrics(path("run"), "validation");
  const auto count = static_cast<double>(y.size());
  EXPECT_TRUE(test::within(found.at("rmse").get<double>(), std::sqrt(squares / count), 1e-4));
  EXPECT_TRUE(test::within(found.at("mae").get<double>(), absolute / count, 1e-4));
}

TEST_F(RegressionValues, OfLabelsAreProbabilitiesOrLogits) {
  train({"model.loss=binary"});
  const Numbers logits = applied();
  expect_near(vectors(1), logits, 1e-5);
  Numbers probabilities;
  for (const double logit : logits) probabilities.push_back(1.0 / (1.0 + std::exp(-logit)));
  expect_near(predicted(1), probabilities, 1e-5);
}

TEST_F(RegressionValues, TheBoreholeDeckReachesItsR2InAShortRun) {
  const Result made = flotilla(1, {"make-data", "borehole", "--rows", "8192", "--valid-rows", "2048",
                                   "--output", path("borehole.h5")});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  const Result result = flotilla(
      2, {"train", source_path("inputs/borehole.toml"), "run.output=" + path("run"),
          "data.train.path=" + path("borehole.h5"), "data.validation.path=" + path("borehole.valid.h5"),
          "model.widths=[32,32]", "train.epochs=15", "train.global_batch_size=64",
          "schedule.learning_rate=0.01", "device.threads=1", "run.reproducible=true"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  // The deck promises 0.999 of six times the samples and a network 16 times as large; this one leaves 1.5e-4.
  EXPECT_GT(last_metrics(path("run"), "validation").at("r2").get<double>(), 0.999);
}

}  // namespace
}  // namespace flotilla::test
