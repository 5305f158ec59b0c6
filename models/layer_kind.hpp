// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

class GraphWalk;
class LayerBuilder;
struct LayerKind;

/// The numbers and options of a layer in a list ("conv 32 3 padding 1"); each kind uses some of them.
struct LayerArguments {
  std::int64_t outputs = 0;  ///< conv: channels; linear: values
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool bias = true;
  bool projection = false;   ///< residual: its shortcut is a convolution and a batch norm that are not listed
  double probability = 0.0;  ///< dropout

  // For lists that a program makes:
  std::optional<Initializer> initializer{};  ///< conv, linear; empty: LayerUse::initializer
  /// residual: the last layer of its body, a batch norm, adds the shortcut and applies the ReLU after the
  /// sum.
  bool fused = false;
  bool recompute = false;                ///< residual, part: only its output is kept for backward
  std::optional<SharedOutput> shared{};  ///< conv, batch_norm, pooling
};

/// A layer of a network's list, before its shapes are known.
struct ListedLayer {
  const LayerKind* kind;
  LayerArguments arguments{};
  std::string text;  ///< The layer as a deck writes it
  std::string
      name{};  ///< Name of its tensors, after that of its residual; empty: its place in the list, from 0
};

/// A layer with its whole name ("5.0", "layer1.0.conv1") and shapes, (C,H,W) of an image or (values) of a
/// row.
struct PlannedLayer : ListedLayer {
  Shape input;
  Shape output{};
  std::int64_t parameters = 0;
  std::int64_t multiplications = 0;  ///< Per forward pass of one sample: convolutions and linear layers
};

/// Reads the words after a layer's name. @throws UserError saying what is wrong and how to write the layer
class ArgumentReader {
 public:
  ArgumentReader(std::span<const std::string_view> words, std::string_view usage)
      : words_(words), usage_(usage) {}
  std::int64_t count(std::int64_t least = 1);
  double share();  ///< From 0 up to 1
  bool take(std::string_view word);
  /// "KERNEL [stride S] [padding P]", and "[no_bias]" where `with_bias` says so.
  void window(LayerArguments& layer, bool with_bias);
  void finish() const;

 private:
  std::string_view next();
  [[noreturn]] void refuse(const std::string& what) const;

  std::span<const std::string_view> words_;
  std::string_view usage_;
};

/// The shape of a sample after the layers planned so far.
struct LayerSite {
  Shape shape;             ///< (C,H,W) or (values)
  bool first = true;       ///< No layer precedes it
  bool flattened = false;  ///< The rows lie in memory as the images of which they were made
  bool in_residual = false;

  bool is_image() const { return shape.rank() == 3; }
  Shape batch() const;  ///< The image as a batch of one. @throws UserError where there are rows
  /// @throws UserError between flatten and the linear layer after it
  void needs_plain_rows() const;
  /// @throws UserError where the window of `layer` is larger than the padded image
  void needs_room(const LayerArguments& layer) const;
  void flatten();
};

/// A kind of layer that lists of layers name: all that is known of it. A new one is described at the end of
/// its layer's source and named here and in layer_kinds().
struct LayerKind {
  std::string_view word;
  std::string_view usage;     ///< "dropout SHARE"
  bool takes_batch = false;   ///< May be the first layer of a network for images
  bool gives_logits = false;  ///< May be the last layer
  /// Reads the arguments after the word. Null: the layer takes none
  void (*read)(ArgumentReader& reader, LayerArguments& layer) = nullptr;
  /// Sets the shape after the layer, and layer.parameters. Null: the shape stays, there are no parameters.
  /// @throws UserError that says why the layer cannot be at this place
  void (*plan)(LayerSite& site, PlannedLayer& layer) = nullptr;
  /// Null result: nothing is computed.
  std::unique_ptr<Layer> (*make)(LayerBuilder& builder, const PlannedLayer& layer) = nullptr;
  /// Appends what the layer computes in inference. @returns the name of its output
  std::string (*graph)(GraphWalk& walk, const std::string& x, const PlannedLayer& layer) = nullptr;
  Activation activation = Activation::identity;  ///< An activation by itself
};

/// `shortcut_kind` begins the layers of a residual's shortcut, after those of its body; `part_kind` begins
/// layers up to "end" that are one layer of the network. Decks cannot write either.
extern const LayerKind conv_kind, max_pool_kind, average_pool_kind, global_average_pool_kind, batch_norm_kind,
    layer_norm_kind, dropout_kind, flatten_kind, linear_kind, residual_kind, end_kind, shortcut_kind,
    part_kind;

LayerKind kind_of(Activation activation);

/// All kinds that decks can write, activations last.
std::span<const LayerKind* const> layer_kinds();

std::vector<std::string_view> words_in(std::string_view text);

/// The layer of this kind that a text describes ("conv 32 3 padding 1").
/// @throws UserError saying what is wrong after the first word, and how to write such a layer
ListedLayer read_layer(const LayerKind& kind, const std::string& text);

}  // namespace flotilla
