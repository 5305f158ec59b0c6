// SPDX-License-Identifier: Apache-2.0
#include "models/listed_models.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Appends the layer of a text to a list. @param name empty: it has no tensors
ListedLayer& add_layer(LayerList& list, std::string name, const std::string& text) {
  const auto is_called = [&](const LayerKind* kind) { return kind->word == words_in(text).front(); };
  const auto known = layer_kinds();
  const auto found = std::ranges::find_if(known, is_called);
  const LayerKind& kind = found != known.end() ? **found : is_called(&part_kind) ? part_kind : shortcut_kind;
  list.layers.push_back(read_layer(kind, text));
  list.layers.back().name = std::move(name);
  return list.layers.back();
}

/// One network of the family.
struct Family {
  std::int64_t depth;
  bool bottleneck;
  std::array<int, 4> blocks;  ///< Numbers of those of layer1 … layer4
};

constexpr std::array<Family, 5> families = {{{18, false, {2, 2, 2, 2}},
                                             {34, false, {3, 4, 6, 3}},
                                             {50, true, {3, 4, 6, 3}},
                                             {101, true, {3, 4, 23, 3}},
                                             {152, true, {3, 8, 36, 3}}}};

const Family& family_of(std::int64_t depth) {
  const auto family = std::ranges::find(families, depth, &Family::depth);
  if (family == families.end())
    throw UserError(cat("model.depth must be 18, 34, 50, 101 or 152, got ", depth));
  return *family;
}

/// Marks the layers that are recomputed. @throws UserError for a word that names none
void mark_recomputed(LayerList& list, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    bool used = false;
    for (ListedLayer& layer : list.layers) {
      if (layer.kind != &part_kind && layer.kind != &residual_kind) continue;
      if (word != "blocks" && word != layer.name && !layer.name.starts_with(word + ".")) continue;
      used = layer.arguments.recompute = true;
    }
    if (!used)
      throw UserError(cat("model.recompute names \"", word,
                          "\", which this model does not have; give \"blocks\", \"conv1\", \"layer1\" … "
                          "\"layer4\", or a block such as \"layer1.0\""));
  }
}

/// The layers of a list from a residual or part to its end, without activations.
struct PartOfList {
  const ListedLayer* begin = nullptr;
  std::vector<ListedLayer*> body{};
  std::vector<ListedLayer*> shortcut{};
  std::size_t index = 0;  ///< Number of parts in front
};

/// For inference everything is done in place: a convolution and the batch norm after it share a slot, outputs
/// of parts alternate between two.
void share_for_inference(const PartOfList& part) {
  const std::size_t output_slot = (part.index + 1) % 2;
  constexpr std::size_t inner_slots = 2;    // one for each inner convolution of a block
  constexpr std::size_t shortcut_slot = 4;  // also the first layer's
  const bool is_block = part.begin->kind == &residual_kind;
  for (std::size_t i = 0; i < part.body.size(); ++i) {
    const bool last = part.body.size() - i <= (is_block ? 2 : 1);
    part.body[i]->arguments.shared = {last ? output_slot : is_block ? inner_slots + i / 2 : shortcut_slot};
  }
  for (ListedLayer* layer : part.shortcut) layer->arguments.shared = {shortcut_slot};
}

/// For training everything is kept except the output of a shortcut, which is not read after the sum, and what
/// is recomputed.
void share_for_training(const PartOfList& part) {
  constexpr std::size_t shortcut_slot = 0;
  constexpr std::size_t last_slot = 1;    // of the last convolution of a block
  constexpr std::size_t inner_slots = 2;  // one for each inner layer of a block
  const bool is_block = part.begin->kind == &residual_kind;
  const bool again = part.begin->arguments.recompute;
  for (std::size_t i = 0; again && i + 1 < part.body.size(); ++i) {
    const bool last = i + 2 == part.body.size();
    const std::size_t slot = last ? last_slot : is_block ? inner_slots + i : shortcut_slot;
    part.body[i]->arguments.shared = {slot, again};
  }
  if (part.shortcut.empty()) return;
  part.shortcut.back()->arguments.shared = {shortcut_slot};
  if (again) part.shortcut.front()->arguments.shared = {shortcut_slot, again};
}

/// Decides where the outputs of a residual network's layers lie.
void share_outputs(LayerList& list, Purpose purpose) {
  PartOfList part;
  std::vector<ListedLayer*>* layers = nullptr;  // those at hand; null: they are in no part
  for (ListedLayer& layer : list.layers) {
    if (layer.kind == &part_kind || layer.kind == &residual_kind) {
      part = {.begin = &layer, .index = part.index};
      layers = &part.body;
    } else if (layer.kind == &shortcut_kind) {
      layers = &part.shortcut;
    } else if (layer.kind == &end_kind) {
      purpose == Purpose::inference ? share_for_inference(part) : share_for_training(part);
      layers = nullptr;
      ++part.index;
    } else if (layers != nullptr && layer.kind->activation == Activation::identity) {
      layers->push_back(&layer);
    }
  }
}

/// y = relu(body(x) + shortcut(x)) (He et al. 2016), the shortcut a 1×1 convolution with batch norm where the
/// shape changes. The last batch norm makes the sum.
struct ResnetBlock {
  std::int64_t width;  ///< Channels of the inner convolutions
  std::int64_t out;    ///< Channels of the output
  std::int64_t stride;
  bool projects;
};

void add_block(LayerList& list, const std::string& name, bool bottleneck, const ResnetBlock& block) {
  add_layer(list, name, "residual").arguments.fused = true;
  if (bottleneck) {
    add_layer(list, "conv1", cat("conv ", block.width, " 1 no_bias"));
    add_layer(list, "bn1", "batch_norm");
    add_layer(list, "relu", "relu");
    add_layer(list, "conv2", cat("conv ", block.width, " 3 stride ", block.stride, " padding 1 no_bias"));
    add_layer(list, "bn2", "batch_norm");
    add_layer(list, "relu", "relu");
    add_layer(list, "conv3", cat("conv ", block.out, " 1 no_bias"));
    add_layer(list, "bn3", "batch_norm");
  } else {
    add_layer(list, "conv1", cat("conv ", block.width, " 3 stride ", block.stride, " padding 1 no_bias"));
    add_layer(list, "bn1", "batch_norm");
    add_layer(list, "relu", "relu");
    add_layer(list, "conv2", cat("conv ", block.out, " 3 padding 1 no_bias"));
    add_layer(list, "bn2", "batch_norm");
  }
  if (block.projects) {
    add_layer(list, name, "shortcut");
    add_layer(list, "downsample.0", cat("conv ", block.out, " 1 stride ", block.stride, " no_bias"));
    add_layer(list, "downsample.1", "batch_norm");
  }
  add_layer(list, name, "end");
  add_layer(list, name + ".relu", "relu");
}

}  // namespace

LayerList mlp_layers(const MlpSpec& spec) {
  LayerList list{.layers = {}, .outputs = spec.outputs};
  for (std::size_t i = 0; i < spec.widths.size(); ++i) {
    add_layer(list, cat("fc", i + 1), cat("linear ", spec.widths[i]));
    if (spec.activation != Activation::identity)
      add_layer(list, cat("activation", i + 1), std::string(word_of(spec.activation)));
    if (spec.dropout > 0.0)
      add_layer(list, cat("dropout", i + 1), cat("dropout ", spec.dropout)).arguments.probability =
          spec.dropout;
  }
  add_layer(list, cat("fc", spec.widths.size() + 1), cat("linear ", spec.outputs));
  return list;
}

LayerList resnet_layers(const ResnetSpec& spec) {
  const auto& [depth, bottleneck, blocks] = family_of(spec.depth);
  const std::int64_t expansion = bottleneck ? 4 : 1;
  LayerList list{.layers = {}, .outputs = spec.outputs};
  add_layer(list, "conv1", "part");
  add_layer(list, "conv1", "conv 64 7 stride 2 padding 3 no_bias");
  add_layer(list, "bn1", "batch_norm");
  add_layer(list, "relu", "relu");
  add_layer(list, "maxpool", "max_pool 3 stride 2 padding 1");
  add_layer(list, "conv1", "end");
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::int64_t out = width * expansion;
      add_block(
          list, cat("layer", stage + 1, ".", i), bottleneck,
          {.width = width, .out = out, .stride = i == 0 && stage > 0 ? 2 : 1, .projects = channels != out});
      channels = out;
    }
  }
  add_layer(list, "avgpool", "global_average_pool");
  if (spec.dropout > 0.0)
    add_layer(list, "dropout", cat("dropout ", spec.dropout)).arguments.probability = spec.dropout;
  add_layer(list, "fc", cat("linear ", spec.outputs)).arguments.initializer = {
      .kind = Initializer::Kind::uniform, .scale = 1.0 / std::sqrt(static_cast<double>(channels))};
  for (ListedLayer& layer : list.layers)
    if (layer.kind == &conv_kind)
      layer.arguments.initializer = {.kind = Initializer::Kind::he_normal_fan_out};
  mark_recomputed(list, spec.recompute);
  share_outputs(list, spec.purpose);
  return list;
}

}  // namespace flotilla
