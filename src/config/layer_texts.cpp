// SPDX-License-Identifier: Apache-2.0
#include "src/config/layer_texts.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/suggestions.hpp"
#include "src/config/values.hpp"

namespace flotilla {

namespace {

/// The word without what differs between the layer names of other programs: "BatchNorm2d" and "batch_norm"
/// become "batchnorm".
std::string plain_word(std::string_view word) {
  std::string plain = config::lower_case(word);
  std::erase(plain, '_');
  for (const std::string_view ending : {"1d", "2d"})
    if (plain.ends_with(ending)) plain.resize(plain.size() - ending.size());
  return plain;
}

[[noreturn]] void refuse_word(std::string_view word) {
  std::vector<std::string> known;
  for (const LayerKind* kind : layer_kinds()) known.emplace_back(kind->word);
  const std::string plain = plain_word(word);
  const auto distance = [&](const std::string& other) {
    return config::edit_distance(plain, plain_word(other));
  };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  const bool is_near = distance(*nearest) <= std::min<std::size_t>(3, plain.size() / 2);
  std::string text = cat("no layer is called ", config::quoted(word),
                         is_near ? cat("; did you mean ", config::quoted(*nearest), "?") : "", "; there are");
  for (const std::string& each : known) text += (each == known.front() ? " " : ", ") + each;
  throw UserError(text);
}

}  // namespace

ListedLayer parse_layer(const std::string& text) {
  const std::vector<std::string_view> words = words_in(text);
  if (words.empty()) throw UserError("an empty text is no layer");
  const auto kind = std::ranges::find(layer_kinds(), words[0], &LayerKind::word);
  if (kind == layer_kinds().end()) refuse_word(words[0]);
  return read_layer(**kind, text);
}

LayerList layers_of(const ModelConfig& model) {
  LayerList list{.layers = {},
                 .places = model.layer_places,
                 .outputs = model.output_width(),
                 .has_classes = model.has_classes()};
  for (const std::string& text : model.layers) list.layers.push_back(parse_layer(text));
  return list;
}

}  // namespace flotilla
