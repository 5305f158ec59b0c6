// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "kernels/error.hpp"
#include "kernels/gpu/graphs/work_list.hpp"
#include "models/half_parameters.hpp"
#include "tests/cuda/fake/cublas.hpp"
#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/fake/cudnn.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// Work that leaves a trace: what is done, in order, with "[" and "]" around what a graph does.
struct Scribe : WorkRecorder {
  std::string text;
  std::string* graph = nullptr;
  std::array<std::uint64_t, 4> device{};  ///< Memory of the device
  bool bad = false;                       ///< Nothing can be written.
  bool bad_graphs = false;                ///< Nothing can be written in a graph.

  void write(char letter) {
    if (bad || (bad_graphs && graph != nullptr)) throw LibraryError("write", "no ink");
    (graph != nullptr ? *graph : text) += letter;
  }
  void write_number(const int* number) { write(static_cast<char>('0' + *number)); }

  void begin() override { graph = new std::string; }
  std::unique_ptr<WorkGraph> end() override {
    struct Copy : WorkGraph {
      Scribe* scribe = nullptr;
      std::unique_ptr<std::string> text;
      void launch() override { scribe->text += "[" + *text + "]"; }
    };
    auto made = std::make_unique<Copy>();
    made->scribe = this;
    made->text.reset(std::exchange(graph, nullptr));
    return made;
  }
  void abandon() noexcept override { delete std::exchange(graph, nullptr); }
  const std::uint64_t* numbers() const override { return device.data(); }
  std::size_t room() const override { return device.size(); }
  void upload(std::span<const std::uint64_t> numbers) override {
    std::copy(numbers.begin(), numbers.end(), device.begin());
  }

  std::ptrdiff_t launches() const { return std::ranges::count(text, '['); }  ///< Launches of graphs
  void add_to(WorkList& list, const std::string& letters) {
    for (const char letter : letters) list.add<&Scribe::write>(*this, letter);
    list.submit();
  }
};

TEST(WorkList, IsDoneInOrderAndFromTheSecondTimeOnAsAGraph) {
  Scribe scribe;
  WorkList list(scribe);

  for (int step = 0; step < 3; ++step) scribe.add_to(list, "abcd");
  EXPECT_EQ(scribe.text, "abcd[abcd][abcd]");

  scribe.add_to(list, "abce");
  scribe.add_to(list, "abcde");
  scribe.add_to(list, "abcd");
  EXPECT_EQ(scribe.text, "abcd[abcd][abcd]abceabcde[abcd]") << "other work, longer work, and the same again";
}

TEST(WorkList, IsOnlyDoneOnceItIsSubmitted) {
  Scribe scribe;
  WorkList list(scribe);
  list.add<&Scribe::write>(scribe, 'a');
  EXPECT_EQ(scribe.text, "");

  list.submit();
  list.submit();

  EXPECT_EQ(scribe.text, "a");
}

TEST(WorkList, MakesNoGraphOfAFewCalls) {
  Scribe scribe;
  WorkList list(scribe);

  for (int step = 0; step < 3; ++step) scribe.add_to(list, "abc");

  EXPECT_EQ(scribe.text, "abcabcabc");
}

TEST(WorkList, OtherObjectsAndMethodsAreOtherWork) {
  Scribe scribe;
  Scribe other;
  WorkList list(scribe);
  for (int step = 0; step < 2; ++step) scribe.add_to(list, "abcd");

  for (const char letter : {'a', 'b', 'c', 'd'}) list.add<&Scribe::write>(other, letter);
  list.submit();

  EXPECT_EQ(scribe.text, "abcd[abcd]");
  EXPECT_EQ(other.text, "abcd");
}

TEST(WorkList, NumbersThatChangeTravelBesideTheGraph) {
  Scribe scribe;
  WorkList list(scribe);

  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 4; ++i) list.add<&Scribe::write_number>(scribe, list.number(step + i));
    list.submit();
    // A graph of a GPU reads them again at each launch; the scribe's keeps what it wrote when it was
    // recorded.
    EXPECT_EQ(scribe.device[0] & 0xFFU, static_cast<std::uint64_t>(step));
    EXPECT_EQ(scribe.device[3] & 0xFFU, static_cast<std::uint64_t>(step + 3));
  }

  EXPECT_EQ(scribe.launches(), 2);
}

TEST(WorkList, IsSubmittedWhereThereIsNoRoomForMoreNumbers) {
  Scribe scribe;
  WorkList list(scribe);
  for (int i = 0; i < 6; ++i) list.add<&Scribe::write_number>(scribe, list.number(i));
  list.submit();

  EXPECT_EQ(scribe.text, "012345");
}

TEST(WorkList, ANumberStaysForTheWorkAddedNextWhateverIsSubmittedBetween) {
  Scribe scribe;
  WorkList list(scribe);
  list.add<&Scribe::write>(scribe, 'a');
  const int* const first = list.number(1);
  list.submit();  // as for memory or a table that the next work needs
  list.add<&Scribe::write_number>(scribe, first);
  list.add<&Scribe::write_number>(scribe, list.number(2));
  list.submit();

  EXPECT_EQ(scribe.text, "a12");
}

TEST(WorkList, ForgetsItsGraphsWhenMemoryIsGivenBack) {
  Scribe scribe;
  WorkList list(scribe);
  for (int step = 0; step < 2; ++step) scribe.add_to(list, "abcd");
  list.add<&Scribe::write>(scribe, 'e');

  list.before_release();
  EXPECT_EQ(scribe.text, "abcd[abcd]e") << "what may use the memory is done before";
  scribe.add_to(list, "abcd");

  EXPECT_EQ(scribe.text, "abcd[abcd]eabcd");
}

TEST(WorkList, WhatFailsBeforeARelease_IsThrownByTheNextSubmit) {
  Scribe scribe;
  WorkList list(scribe);
  scribe.bad = true;
  list.add<&Scribe::write>(scribe, 'a');

  list.before_release();

  EXPECT_THROW(list.submit(), LibraryError);
  EXPECT_NO_THROW(list.submit());
}

TEST(WorkList, AGraphThatCannotBeMadeIsAbandonedAndSaysWhatDoesWithout) {
  Scribe scribe;
  WorkList list(scribe);
  scribe.add_to(list, "abcd");
  scribe.bad_graphs = true;

  try {
    scribe.add_to(list, "abcd");
    FAIL() << "the graph cannot be made";
  } catch (const LibraryError& error) {
    EXPECT_NE(std::string(error.what()).find("no ink"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("device.graphs = false"), std::string::npos) << error.what();
  }
  EXPECT_EQ(scribe.graph, nullptr);
  EXPECT_FALSE(list.recording());
  scribe.add_to(list, "xy");
  EXPECT_EQ(scribe.text, "abcdxy");
}

TEST(WorkList, KeepsTheListsOfAStepAndNotThoseOfLongAgo) {
  Scribe scribe;
  WorkList list(scribe);
  const auto one_of = [](int i) {
    return "abc" + std::string(1, static_cast<char>('A' + i % 26)) +
           std::string(1, static_cast<char>('A' + i / 26 % 26)) +
           std::string(1, static_cast<char>('A' + i / 676));
  };
  constexpr int most = 1024;
  for (int step = 0; step < 3; ++step)
    for (int i = 0; i < most; ++i) scribe.add_to(list, one_of(i));
  EXPECT_EQ(scribe.launches(), 2 * most);

  for (int i = most; i < 2 * most; ++i) scribe.add_to(list, one_of(i));
  scribe.add_to(list, one_of(0));

  EXPECT_EQ(scribe.launches(), 2 * most) << "the first ones have made room";
}

class Graphs : public test::OnGpu {};

/// A small network of two layers, with everything that changes from step to step.
std::vector<float> trained(const DeviceSpec& spec, int steps, bool adam, fake::Done& last_step) {
  const auto device = test::gpu(spec);
  constexpr std::int64_t batch = 6;
  const DropoutSpec drops{.input = {batch, 8}, .probability = 0.25F, .seed = 3, .layer = 1};
  const auto first = device->layers().linear(
      {.batch = batch, .in = 5, .out = 8, .bias = true, .activation = Activation::relu});
  const auto dropout = device->layers().dropout(drops);
  const auto second = device->layers().linear({.batch = batch, .in = 8, .out = 4, .bias = false});
  const auto loss = device->layers().softmax_loss({.batch = batch, .classes = 4});
  constexpr std::size_t size = 192;  // 40 at 0, 8 at 64, 32 at 128
  std::vector<float> initial = test::exact_values(size, 9);
  Storage parameters = test::storage_of(*device, initial);
  Storage gradients = device->memory().allocate(size);
  std::optional<HalfParameters> halves;
  if (device->info().reads_halves) halves.emplace(*device, size).bind(parameters.span());
  std::array<Storage, 2> state = {device->memory().allocate(size), device->memory().allocate(size)};
  Storage sums = device->memory().allocate(loss_sums);
  Tensor x({batch, 5}, DeviceSpan<float>{});
  Tensor hidden = device->tensors().zeros({batch, 8});
  Tensor dropped = device->tensors().zeros({batch, 8});
  Tensor logits = device->tensors().zeros({batch, 4});
  Tensor dlogits = device->tensors().zeros({batch, 4});
  Tensor dhidden = device->tensors().zeros({batch, 8});
  const std::array<FlatRange, 2> ranges = {
      {{.offset = 0, .count = 64, .weight_decay = 0.01F}, {.offset = 64, .count = 128}}};
  const std::vector<std::int32_t> labels = {0, 1, 2, 3, 0, 1};
  const std::vector<std::int32_t> others = {3, 2, 1, 0, 3, 2};

  for (int step = 0; step < steps; ++step) {
    const fake::Done before = fake::done();
    const auto values = [&](auto& storage, std::size_t offset, std::size_t count) {
      return storage.span().subspan(offset, count);
    };
    Weights w1{values(parameters, 0, 40), values(parameters, 64, 8)};
    Weights w2{values(parameters, 128, 32), {}};
    if (halves) {
      halves->prepare();
      w1 = {w1.weight, w1.bias, halves->values().subspan(0, 40), halves->values().subspan(64, 8)};
      w2.half_weight = halves->values().subspan(128, 32);
    }
    std::vector<float> inputs = test::exact_values(30, static_cast<std::uint64_t>(step));
    const Targets targets{.labels = labels,
                          .valid = batch,
                          .other_labels = others,
                          .other_share = step % 3 == 0 ? 0.0F : 0.05F * static_cast<float>(step)};
    device->tensors().stage(inputs, x);
    first->forward(x, w1, hidden);
    dropout->forward(static_cast<std::uint64_t>(step), hidden, dropped);
    second->forward(dropped, w2, logits);
    loss->forward(logits, targets, sums.span());
    loss->backward(logits, targets, 0.5F / static_cast<float>(step + 1), dlogits);
    second->backward(dropped, logits, w2, dlogits, {values(gradients, 128, 32), {}}, &dhidden);
    dropout->backward(static_cast<std::uint64_t>(step), dhidden, dhidden);
    first->backward(x, hidden, w1, dhidden, {values(gradients, 0, 40), values(gradients, 64, 8)}, nullptr);
    const UpdateInput in{.parameters = parameters.span(),
                         .gradients = gradients.span(),
                         .ranges = ranges,
                         .learning_rate = 0.1F / static_cast<float>(step + 2),
                         .gradient_scale = static_cast<float>(step + 1),
                         .decay = Decay::decoupled,
                         .step = step + 1,
                         .halves = halves ? halves->target(parameters.span()) : HalfCopy{}};
    const UpdateRule rule = step % 2 == 1 ? UpdateRule(rules::Nesterov{}) : rules::Momentum{};
    if (adam)
      device->updates().update(in, rules::Adam{0.9F, 0.99F, 1e-6F}, {state[0].span(), state[1].span()});
    else
      device->updates().update(in, rule, {state[0].span()});
    if (halves) halves->keep();
    device->queue().submit();
    device->tensors().finish_staging();
    last_step = {.alone = fake::done().alone - before.alone,
                 .in_graphs = fake::done().in_graphs - before.in_graphs,
                 .graphs = fake::done().graphs - before.graphs};
  }
  std::vector<float> result = test::read(*device, parameters);
  const std::vector<float> added = test::read(*device, sums);
  result.insert(result.end(), added.begin(), added.end());
  return result;
}

TEST_F(Graphs, TrainToTheSameBitsAsOneCallAfterTheOther) {
  for (const Precision precision : test::precisions) {
    for (const bool adam : {false, true}) {
      fake::Done plain;
      fake::Done graphs;
      const std::vector<float> expected = trained({.precision = precision}, 12, adam, plain);
      const std::vector<float> actual = trained({.precision = precision, .graphs = true}, 12, adam, graphs);

      EXPECT_EQ(actual, expected);
      EXPECT_EQ(plain.graphs, 0);
      EXPECT_GT(graphs.graphs, 0);
      EXPECT_LE(graphs.graphs, 2) << "the labels' upload lies between two";
      EXPECT_EQ(graphs.alone, 0) << "nothing is left to be launched by itself";
      EXPECT_EQ(graphs.in_graphs, plain.alone);
    }
  }
}

/// The same work over and over: a product, a convolution, and values put into four arrays.
class Repeating {
 public:
  Repeating() : device_(test::gpu({.graphs = true})) {
    for (Storage& storage : storages_) storage = device_->memory().allocate(8);
  }
  Device& device() { return *device_; }
  void step() {
    plan_->forward(x_, {storages_[0].span().subspan(0, 4), {}}, y_);
    convolution_->forward(image_, {storages_[1].span().subspan(0, 1), {}}, image_result_);
    for (Storage& storage : storages_) device_->flat().fill(storage.span(), 3.0F);
    device_->queue().submit();
  }
  std::vector<float> values() { return test::read(*device_, storages_[3]); }

 private:
  std::unique_ptr<Device> device_;
  std::array<Storage, 4> storages_;
  std::unique_ptr<Linear> plan_ = device_->layers().linear({.batch = 1, .in = 2, .out = 2, .bias = false});
  Tensor x_ = device_->tensors().zeros({1, 2});
  Tensor y_ = device_->tensors().zeros({1, 2});
  std::unique_ptr<Conv2d> convolution_ =
      device_->layers().conv2d({.input = {1, 1, 2, 2}, .out_channels = 1, .kernel = 1});
  Tensor image_ = device_->images().tensor({1, 1, 2, 2});
  Tensor image_result_ = device_->images().tensor({1, 1, 2, 2});
};

TEST_F(Graphs, ACaptureThatFailsSaysWhatDoesWithoutAndLeavesTheStreamUsable) {
  const std::size_t before = fake::left_over();
  for (const auto& make_it_fail :
       {fake::refuse_captured_products, fake::refuse_captured_convolutions, fake::spoil_captures}) {
    Repeating work;
    work.step();
    make_it_fail(1);
    try {
      work.step();
      FAIL() << "nothing can be captured";
    } catch (const LibraryError& error) {
      EXPECT_NE(std::string(error.what()).find("device.graphs = false"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(work.device().queue().synchronize()) << "the stream is not captured any more";
    EXPECT_NO_THROW(work.step());
    EXPECT_EQ(work.values(), std::vector<float>(8, 3.0F));
  }
  EXPECT_EQ(fake::left_over(), before);
}

TEST_F(Graphs, AGraphThatRunsIsWaitedForBeforeItGoes) {
  const std::size_t before = fake::left_over();
  for (int i = 0; i < 5; ++i) {
    Repeating work;
    for (int step = 0; step < 3; ++step) work.step();
  }
  EXPECT_EQ(fake::left_over(), before);
}

TEST_F(Graphs, MemoryGivenBackBetweenStepsSpoilsNothing) {
  const auto device = test::gpu({.graphs = true});
  const auto plan =
      device->layers().linear({.batch = 2, .in = 3, .out = 2, .bias = true, .activation = Activation::tanh});
  std::vector<float> weights = test::exact_values(6, 1);
  for (int step = 0; step < 6; ++step) {
    // The arrays may get the addresses of the previous step.
    Storage weight = test::storage_of(*device, weights);
    Storage bias = device->memory().allocate(2);
    std::vector<float> inputs = test::exact_values(6, static_cast<std::uint64_t>(step));
    Tensor x({2, 3}, DeviceSpan<float>{});
    device->tensors().stage(inputs, x);
    Tensor y = device->tensors().zeros({2, 2});
    for (int again = 0; again < 2; ++again) plan->forward(x, {weight.span(), bias.span()}, y);

    const auto dot = [](const float* a, const float* b) { return std::inner_product(a, a + 3, b, 0.0F); };
    const std::vector<float> values = test::values_of(*device, y);
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t o = 0; o < 2; ++o)
        EXPECT_TRUE(test::within(values[2 * n + o], std::tanh(dot(&inputs[3 * n], &weights[3 * o])), 1e-6));
  }
}

TEST_F(Graphs, ANumberForTheHostWaitsForAllThatWasHandedOut) {
  const auto device = test::gpu({.graphs = true});
  Storage x = device->memory().allocate(4);
  for (int step = 1; step <= 4; ++step) {
    for (int i = 0; i < 5; ++i) device->flat().fill(x.span(), static_cast<float>(step));

    EXPECT_EQ(device->flat().sum_of_squares(x.span()), 4.0 * step * step);
    EXPECT_TRUE(device->flat().all_finite(x.span()));
  }
}

TEST_F(Graphs, APlanThatGoesBeforeItsWorkIsDoneDoesItFirst) {
  const auto device = test::gpu({.graphs = true});
  std::vector<float> inputs = {1, 2, 3};
  Storage weight = test::storage_of(*device, {1, 1, 1});
  Tensor x({1, 3}, DeviceSpan<float>{});
  device->tensors().stage(inputs, x);
  Tensor y = device->tensors().zeros({1, 1});
  device->layers().linear({.batch = 1, .in = 3, .out = 1, .bias = false})->forward(x, {weight.span(), {}}, y);

  EXPECT_EQ(test::values_of(*device, y), std::vector<float>{6});
}

}  // namespace
}  // namespace flotilla
