// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "models/listed_models.hpp"
#include "src/train/model_state.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

/// Tensors whose values are all their number in the file, counted from 1.
class Weights final : public ValueSource {
 public:
  explicit Weights(const std::vector<std::pair<std::string, Shape>>& tensors) {
    for (const auto& [name, shape] : tensors)
      tensors_.push_back({.path = "parameters/" + name, .shape = shape});
  }
  std::span<const CheckpointTensor> tensors() const override { return tensors_; }
  std::span<const float> values(std::size_t tensor) override {
    values_.assign(static_cast<std::size_t>(tensors_[tensor].shape.size()), static_cast<float>(tensor + 1));
    return values_;
  }

 private:
  std::vector<CheckpointTensor> tensors_;
  std::vector<float> values_;
};

/// fc1 5x6, fc2 3x5, with biases.
class InitialWeights : public testing::Test {
 protected:
  InitialWeights()
      : device_(make_device({.kind = "reference", .threads = 1})),
        network_(make_layer_network(*device_, plan_layers(mlp_layers({.widths = {5}, .outputs = 3}), {6}),
                                    {.batch = 4})),
        parameters_(device_->memory().allocate(static_cast<std::size_t>(network_->layout().size()))) {
    device_->flat().fill(parameters_.span(), 0.0F);
  }

  LoadedWeights load(Weights weights, WeightNames names = WeightNames::same) {
    return load_matching(weights, "w.h5", *network_, {parameters_.span(), {}}, names);
  }
  /// The first value of each tensor, by name.
  std::map<std::string, float> first_values() {
    std::vector<float> all(parameters_.span().size());
    device_->memory().download(parameters_.span(), all);
    std::map<std::string, float> first;
    for (const Slice& slice : network_->layout().slices())
      first[slice.name] = all[static_cast<std::size_t>(slice.offset)];
    return first;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Network> network_;
  Storage parameters_;
};

TEST_F(InitialWeights, AreToldInOneLineWithWhatDidNotFit) {
  const LoadedWeights loaded =
      load(Weights({{"fc1.weight", {5, 6}}, {"fc1.bias", {5}}, {"fc2.weight", {7, 5}}, {"other.bias", {7}}}));

  EXPECT_EQ(loaded.summary,
            "loaded 2 of 4 tensors from w.h5; left: fc2.weight 7x5 in the file, 3x5 here; not in the file: "
            "fc2.bias; not needed: parameters/other.bias");
  EXPECT_EQ(loaded.details,
            (std::vector<std::string>{"loaded         fc1.weight", "loaded         fc1.bias",
                                      "shape differs  fc2.weight: 7x5 in the file, 3x5 in the model",
                                      "missing        fc2.bias", "not needed     parameters/other.bias"}));
  EXPECT_EQ(first_values(),
            (std::map<std::string, float>{
                {"fc1.weight", 1.0F}, {"fc1.bias", 2.0F}, {"fc2.weight", 0.0F}, {"fc2.bias", 0.0F}}));
}

TEST_F(InitialWeights, OfManyTensorsThatAreLeftTheFirstAreTold) {
  std::vector<std::pair<std::string, Shape>> tensors = {{"fc1.bias", {5}}};
  for (int i = 0; i < 9; ++i) tensors.emplace_back("t" + std::to_string(i), Shape{2});

  EXPECT_TRUE(load(Weights(tensors)).summary.ends_with("parameters/t3 and 5 more (see the log)"));
}

TEST_F(InitialWeights, OfOtherNamesAreTakenInOrderOnRequestOnly) {
  const Weights weights({{"0.weight", {5, 6}}, {"0.bias", {5}}, {"10.weight", {3, 5}}, {"10.bias", {3}}});

  EXPECT_TRUE(test::mentions(test::error_of([&] { load(weights); }), {"model.weight_names = \"order\""}));
  EXPECT_EQ(load(weights, WeightNames::order).summary, "loaded 4 of 4 tensors from w.h5");
  EXPECT_EQ(first_values(),
            (std::map<std::string, float>{
                {"fc1.weight", 1.0F}, {"fc1.bias", 2.0F}, {"fc2.weight", 3.0F}, {"fc2.bias", 4.0F}}));
}

TEST_F(InitialWeights, InOrderLeaveOutWhatHasAnotherShape) {
  const LoadedWeights loaded =
      load(Weights({{"0.weight", {5, 6}}, {"0.bias", {5}}, {"2.weight", {9, 5}}, {"2.bias", {9}}}),
           WeightNames::order);

  EXPECT_EQ(loaded.summary,
            "loaded 2 of 4 tensors from w.h5; left: fc2.weight from parameters/2.weight 9x5 in the file, 3x5 "
            "here, fc2.bias from parameters/2.bias 9 in the file, 3 here");
}

TEST_F(InitialWeights, InOrderMustBeAsMany) {
  EXPECT_THROW(load(Weights({{"0.weight", {5, 6}}, {"0.bias", {5}}}), WeightNames::order), UserError);
}

}  // namespace
}  // namespace flotilla
