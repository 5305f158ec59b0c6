// SPDX-License-Identifier: Apache-2.0
#include "models/layer_kind.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t max_count = 16777216;

template <class T>
std::optional<T> number_of(std::string_view word) {
  T value{};
  const char* const end = word.data() + word.size();
  const auto [read, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && read == end ? std::optional(value) : std::nullopt;
}

std::string quoted(std::string_view word) {
  return cat("\"", word, "\"");
}

/// One kind for each activation but the identity.
std::vector<LayerKind> activation_kinds() {
  std::vector<LayerKind> kinds;
  for (const Activation activation : all_activations)
    if (activation != Activation::identity) kinds.push_back(kind_of(activation));
  return kinds;
}

}  // namespace

std::span<const LayerKind* const> layer_kinds() {
  static const std::vector<LayerKind> activations = activation_kinds();
  static const std::vector<const LayerKind*> all = [] {
    std::vector<const LayerKind*> kinds = {
        &conv_kind,       &max_pool_kind,   &average_pool_kind, &global_average_pool_kind,
        &batch_norm_kind, &layer_norm_kind, &dropout_kind,      &flatten_kind,
        &linear_kind,     &residual_kind,   &end_kind};
    for (const LayerKind& activation : activations) kinds.push_back(&activation);
    return kinds;
  }();
  return all;
}

std::vector<std::string_view> words_in(std::string_view text) {
  constexpr std::string_view blanks = " \t\n";
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(blanks); begin != text.npos;
       begin = text.find_first_not_of(blanks, begin)) {
    const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

ListedLayer read_layer(const LayerKind& kind, const std::string& text) {
  const std::vector<std::string_view> words = words_in(text);
  ListedLayer layer{.kind = &kind, .text = text};
  ArgumentReader reader(std::span<const std::string_view>(words).subspan(1), kind.usage);
  if (kind.read != nullptr) kind.read(reader, layer.arguments);
  reader.finish();
  return layer;
}

std::int64_t ArgumentReader::count(std::int64_t least) {
  const std::string_view word = next();
  const auto value = number_of<std::int64_t>(word);
  if (!value || *value < least || *value > max_count)
    refuse(cat(quoted(word), " is no integer from ", least, " to ", max_count));
  return *value;
}

double ArgumentReader::share() {
  const std::string_view word = next();
  const auto value = number_of<double>(word);
  if (!value || !(*value >= 0.0 && *value < 1.0)) refuse(cat(quoted(word), " is no number from 0 up to 1"));
  return *value;
}

bool ArgumentReader::take(std::string_view word) {
  if (words_.empty() || words_.front() != word) return false;
  words_ = words_.subspan(1);
  return true;
}

void ArgumentReader::window(LayerArguments& layer, bool with_bias) {
  layer.kernel = count();
  if (!with_bias) layer.stride = layer.kernel;
  for (bool more = true; more;) {
    more = false;
    if (take("stride")) more = true, layer.stride = count();
    if (take("padding")) more = true, layer.padding = count(0);
    if (with_bias && take("no_bias")) more = true, layer.bias = false;
  }
}

void ArgumentReader::finish() const {
  if (!words_.empty()) refuse(cat(quoted(words_.front()), " has no meaning here"));
}

std::string_view ArgumentReader::next() {
  if (words_.empty()) refuse("something is missing");
  const std::string_view word = words_.front();
  words_ = words_.subspan(1);
  return word;
}

void ArgumentReader::refuse(const std::string& what) const {
  throw UserError(cat(what, "; write ", quoted(usage_)));
}

Shape LayerSite::batch() const {
  if (is_image()) return {1, shape[0], shape[1], shape[2]};
  throw UserError(cat("this layer takes images, and here are rows of ", shape.text(),
                      " values: it must stand before flatten, linear and global_average_pool"));
}

void LayerSite::needs_plain_rows() const {
  if (flattened)
    throw UserError("between flatten and the linear layer behind it only activations and dropout may stand");
}

void LayerSite::needs_room(const LayerArguments& layer) const {
  const Shape image = batch();
  if (image[2] + 2 * layer.padding >= layer.kernel && image[3] + 2 * layer.padding >= layer.kernel) return;
  throw UserError(cat("a kernel of ", layer.kernel, " is larger than the image, ", shape.text(),
                      " with padding ", layer.padding));
}

void LayerSite::flatten() {
  if (!is_image()) return;
  if (in_residual)
    throw UserError("an image cannot be flattened in a residual: close it with \"end\" before");
  flattened = !first;
  shape = {shape.size()};
}

}  // namespace flotilla
