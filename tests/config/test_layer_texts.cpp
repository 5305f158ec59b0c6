// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/config/layer_texts.hpp"
#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_layer(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LayerTexts, HoldNumbersAndOptionsInAnyOrder) {
  const ListedLayer layer = parse_layer(" conv 32 3 no_bias padding 1  stride 2");
  const LayerArguments& conv = layer.arguments;
  EXPECT_EQ(layer.kind, &conv_kind);
  EXPECT_EQ(conv.outputs, 32);
  EXPECT_EQ(conv.kernel, 3);
  EXPECT_EQ(conv.stride, 2);
  EXPECT_EQ(conv.padding, 1);
  EXPECT_FALSE(conv.bias);
  EXPECT_TRUE(parse_layer("conv 1 1").arguments.bias);
  EXPECT_EQ(parse_layer("max_pool 3").arguments.stride, 3);
  EXPECT_EQ(parse_layer("average_pool 3 stride 1").arguments.stride, 1);
  EXPECT_EQ(parse_layer("dropout 0.25").arguments.probability, 0.25);
  EXPECT_EQ(parse_layer("gelu").kind->activation, Activation::gelu);
  EXPECT_TRUE(parse_layer("residual projection").arguments.projection);
  EXPECT_FALSE(parse_layer("residual").arguments.projection);
}

TEST(LayerTexts, AreRefusedSayingHowToWriteThem) {
  const std::string conv = "; write \"conv CHANNELS KERNEL [stride S] [padding P] [no_bias]\"";
  EXPECT_EQ(refusal("conv 32"), "something is missing" + conv);
  EXPECT_EQ(refusal("conv 0 3"), "\"0\" is no integer from 1 to 16777216" + conv);
  EXPECT_EQ(refusal("conv 8 3 padding -1"), "\"-1\" is no integer from 0 to 16777216" + conv);
  EXPECT_EQ(refusal("conv 8 3 dilation 2"), "\"dilation\" has no meaning here" + conv);
  EXPECT_EQ(refusal("linear ten"), "\"ten\" is no integer from 1 to 16777216; write \"linear OUTPUTS\"");
  EXPECT_EQ(refusal("dropout 1"), "\"1\" is no number from 0 up to 1; write \"dropout SHARE\"");
  EXPECT_EQ(refusal("relu 6"), "\"6\" has no meaning here; write \"relu\"");
  EXPECT_EQ(refusal(" "), "an empty text is no layer");
  EXPECT_EQ(refusal("maxpool 2").substr(0, 56),
            "no layer is called \"maxpool\"; did you mean \"max_pool\"?; ");
  for (const char* far : {"identity", "5", "softmax"})
    EXPECT_EQ(refusal(far).find("; did you mean"), std::string::npos) << refusal(far);
  for (const auto& [torch, own] :
       std::vector<std::pair<std::string, std::string>>{{"ReLU", "relu"},
                                                        {"Conv2d 8 3", "conv"},
                                                        {"MaxPool2d 2", "max_pool"},
                                                        {"BatchNorm2d", "batch_norm"},
                                                        {"LayerNorm", "layer_norm"},
                                                        {"SiLU", "silu"},
                                                        {"Linear 10", "linear"}})
    EXPECT_NE(refusal(torch).find("; did you mean \"" + own + "\"?"), std::string::npos) << refusal(torch);
}

TEST(LayerTexts, HaveTheirPlaceInTheDeck) {
  const std::string deck =
      "[model]\nkind = \"layers\"\nlayers = [\"conv 4 3\",\n  \"pool 2\", \"linear 3\"]\nclasses = "
      "3\n[data]\n"
      "kind = \"random\"\nshape = [1, 8, 8]\ntrain.samples = 9\n[schedule]\nlearning_rate = "
      "1\n[train]\nsteps = 1\n"
      "batch_size = 2\n";

  EXPECT_NE(
      test::mistakes_of(deck).find("bad.toml:4:3: model.layers[1] = \"pool 2\": no layer is called \"pool\""),
      std::string::npos)
      << test::mistakes_of(deck);
  const LoadedDeck loaded = test::load(deck, {"model.layers=conv 4 3, relu, linear 3"});
  EXPECT_EQ(loaded.config.model.layers, (std::vector<std::string>{"conv 4 3", "relu", "linear 3"}));
  EXPECT_EQ(loaded.config.model.layer_places[2], "command line: model.layers=conv 4 3, relu, linear 3");
}

}  // namespace
}  // namespace flotilla
