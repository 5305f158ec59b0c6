// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "models/listed_models.hpp"
#include "src/config/deck.hpp"
#include "src/train/model_kinds.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

using test::mentions;

const std::string deck = R"(
[model]
kind = "own"
classes = 3
[model.own]
blocks = 4
[data]
kind = "random"
shape = [5]
[data.train]
samples = 64
[train]
steps = 10
batch_size = 8
[schedule]
learning_rate = 0.01
)";

/// An MLP of `blocks` hidden layers, each `width` wide.
std::unique_ptr<Network> make_own(Device& device, const Config& config, const NetworkUse& use) {
  const auto blocks = static_cast<std::size_t>(config::own_value<std::int64_t>(config, "blocks"));
  const LayerList layers =
      mlp_layers({.widths = std::vector(blocks, config::own_value<std::int64_t>(config, "width")),
                  .outputs = config.model.classes});
  return make_layer_network(device, plan_layers(layers, {use.sample.size()}),
                            {.batch = use.batch, .purpose = use.purpose, .accumulate = use.accumulate});
}

std::unique_ptr<Network> make_with_a_mistake(Device& device, const Config& config, const NetworkUse& use) {
  NetworkUse other = use;
  Config changed = config;
  if (config::own_value<bool>(config, "other_batch")) other.batch = 1;
  if (config::own_value<bool>(config, "other_purpose")) other.purpose = Purpose::training;
  if (config::own_value<bool>(config, "other_classes")) changed.model.classes = 2;
  changed.model.kind = "own";
  return make_own(device, changed, other);
}

class OwnModels : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    add_model({.name = "own",
               .keys = {{.name = "blocks", .value = 2, .help = "Layers", .rule = {.low = 1, .high = 8}},
                        {.name = "width", .value = 7, .help = "Of a layer"},
                        {.name = "rate", .value = 0.5, .help = "A number"},
                        {.name = "names", .value = std::vector<std::string>{"a"}, .help = "Texts"}},
               .make = make_own});
    add_model({.name = "wrong",
               .keys = {{.name = "other_batch", .value = false, .help = "A mistake"},
                        {.name = "other_purpose", .value = false, .help = "A mistake"},
                        {.name = "other_classes", .value = false, .help = "A mistake"}},
               .make = make_with_a_mistake});
  }

  static Config load(const std::vector<std::string>& overrides = {}) {
    return load_deck({.path = "own.toml", .text = deck, .overrides = overrides}).config;
  }
  static std::string mistake(const std::vector<std::string>& overrides) {
    return test::error_of([&] { load(overrides); });
  }
  static std::unique_ptr<Network> make(const Config& config, std::int64_t batch = 8) {
    static const std::unique_ptr<Device> device = make_device({.kind = "reference", .threads = 1});
    return make_network(*device, config, {.sample = {5}, .batch = batch, .purpose = Purpose::inference});
  }
};

TEST_F(OwnModels, AreBuiltByTheirOwnFunctionFromTheirOwnKeys) {
  const auto network = make(load({"model.own.width=6"}));

  EXPECT_EQ(network->layers().size(), 5U);
  EXPECT_EQ(network->layout()[2].shape, (Shape{6, 6}));
  EXPECT_EQ(network->batch(), 8);
}

TEST_F(OwnModels, TakeDefaultsForKeysThatNobodyGave) {
  const Config config = load();

  EXPECT_EQ(config::own_value<std::int64_t>(config, "blocks"), 4);
  EXPECT_EQ(config::own_value<std::int64_t>(config, "width"), 7);
  EXPECT_EQ(config::own_value<double>(config, "rate"), 0.5);
  EXPECT_EQ(config::own_value<std::vector<std::string>>(config, "names"), std::vector<std::string>{"a"});
}

TEST_F(OwnModels, StandInTheResolvedDeckWhichReadsBack) {
  const Config config = load({"model.own.rate=0.25", "model.own.names=b,c"});

  const Config again = read_saved_deck(config.resolved_text);

  EXPECT_TRUE(mentions(config.resolved_text, {"[model.own]\nblocks = 4\nwidth = 7\nrate = 0.25\n"}));
  EXPECT_EQ(config::own_value<double>(again, "rate"), 0.25);
  EXPECT_EQ(config::own_value<std::vector<std::string>>(again, "names"),
            (std::vector<std::string>{"b", "c"}));
}

TEST_F(OwnModels, ResumeWithTheirOldValuesOnly) {
  const std::string before = load().resolved_text;
  const auto differences = differences_at_resume(before, load({"model.own.blocks=3"}).resolved_text);

  EXPECT_TRUE(differences_at_resume(before, load().resolved_text).empty());
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].text(), "model.own.blocks: 4 in the checkpoint, 3 now");
}

TEST_F(OwnModels, HaveTheirKeysCheckedLikeAllOthers) {
  EXPECT_TRUE(mentions(mistake({"model.own.blocks=9"}), {"model.own.blocks must be at most 8, got 9"}));
  EXPECT_TRUE(mentions(mistake({"model.own.blocks=many"}), {"must be an integer"}));
  EXPECT_TRUE(mentions(mistake({"model.own.block=3"}), {"did you mean \"blocks\""}));
}

TEST_F(OwnModels, RefuseKeysOfOtherModels) {
  EXPECT_TRUE(mentions(mistake({"model.dropout=0.5"}), {"model.dropout needs model.kind"}));
  EXPECT_TRUE(mentions(mistake({"model.wrong.other_batch=true"}), {"needs model.kind to be \"wrong\""}));
}

TEST_F(OwnModels, AreNamedWhereAKindIsUnknown) {
  EXPECT_TRUE(mentions(mistake({"model.kind=else"}),
                       {"one of \"mlp\", \"resnet\", \"layers\", \"ctr-dnn\", \"own\", \"wrong\""}));
}

TEST_F(OwnModels, LeaveTheModelsThatComeAlongAsTheyAre) {
  const Config config = load({"model.kind=mlp", "model.widths=4"});

  EXPECT_EQ(make(config)->layers().size(), 2U);
  EXPECT_EQ(config.resolved_text.find("model.own"), std::string::npos);
}

TEST_F(OwnModels, AreRefusedWhereTheNetworkIsNotTheOneAskedFor) {
  EXPECT_THROW(make(load({"model.kind=wrong", "model.wrong.other_batch=true"})), InternalError);
  EXPECT_THROW(make(load({"model.kind=wrong", "model.wrong.other_classes=true"})), InternalError);
  EXPECT_THROW(make(load({"model.kind=wrong", "model.wrong.other_purpose=true"})), InternalError);
}

TEST_F(OwnModels, AreRefusedUnderNamesThatAreTakenOrNone) {
  const auto add = [](const std::string& name, std::vector<config::CustomKey> keys) {
    add_model({.name = name, .keys = std::move(keys), .make = make_own});
  };

  EXPECT_THROW(add("mlp", {}), UserError);
  EXPECT_THROW(add("own", {}), UserError);
  EXPECT_THROW(add("widths", {}), UserError);
  EXPECT_THROW(add("", {}), UserError);
  EXPECT_THROW(add("with space", {}), UserError);
  EXPECT_THROW(add("a", {{.name = "b.c", .value = 1, .help = "A dot"}}), UserError);
  EXPECT_THROW(
      add("b", {{.name = "twice", .value = 1, .help = "x"}, {.name = "twice", .value = 1, .help = "x"}}),
      UserError);
  EXPECT_THROW(add("c", {{.name = "low", .value = 1, .help = "Its default", .rule = {.low = 2}}}), UserError);
}

TEST_F(OwnModels, CannotAskForAKeyThatTheyDidNotDeclare) {
  const Config config = load();

  EXPECT_THROW(config::own_value<std::int64_t>(config, "depth"), InternalError);
  EXPECT_THROW(config::own_value<double>(config, "blocks"), InternalError);
}

}  // namespace
}  // namespace flotilla
