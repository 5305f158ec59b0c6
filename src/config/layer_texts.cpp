// SPDX-License-Identifier: Apache-2.0
#include "src/config/layer_texts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>

#include "kernels/error.hpp"
#include "src/config/choices.hpp"
#include "src/config/key_table.hpp"
#include "src/config/read_value.hpp"
#include "src/config/suggestions.hpp"

namespace flotilla {

namespace {

using Kind = LayerText::Kind;

struct Form {
  std::string_view word;
  Kind kind;
  std::string_view usage;
};

/// Activations besides, each by its own word.
constexpr std::array forms = {
    Form{"conv", Kind::conv, "conv CHANNELS KERNEL [stride S] [padding P] [no_bias]"},
    Form{"max_pool", Kind::max_pool, "max_pool KERNEL [stride S] [padding P]"},
    Form{"average_pool", Kind::average_pool, "average_pool KERNEL [stride S] [padding P]"},
    Form{"global_average_pool", Kind::global_average_pool, "global_average_pool"},
    Form{"batch_norm", Kind::batch_norm, "batch_norm"},
    Form{"layer_norm", Kind::layer_norm, "layer_norm"},
    Form{"dropout", Kind::dropout, "dropout SHARE"},
    Form{"flatten", Kind::flatten, "flatten"},
    Form{"linear", Kind::linear, "linear OUTPUTS"},
    Form{"residual", Kind::residual, "residual [projection]"},
    Form{"end", Kind::end, "end"},
};

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

std::vector<std::string> all_words_of_layers() {
  std::vector<std::string> words;
  for (const Form& form : forms) words.emplace_back(form.word);
  // All but "identity"
  for (const std::string_view activation : words_of<Activation>().subspan(1)) words.emplace_back(activation);
  return words;
}

/// Without what names of layers differ in elsewhere: "BatchNorm2d" and "batch_norm" are "batchnorm".
std::string plain_word(std::string_view word) {
  std::string plain;
  for (const char letter : word)
    if (letter != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const std::string_view ending : {"1d", "2d"})
    if (plain.ends_with(ending)) plain.resize(plain.size() - ending.size());
  return plain;
}

[[noreturn]] void refuse_word(std::string_view word) {
  const std::vector<std::string> known = all_words_of_layers();
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

/// The words behind the first one of a text, taken from the front.
class Arguments {
 public:
  Arguments(std::span<const std::string_view> words, std::string_view usage) : words_(words), usage_(usage) {}

  std::int64_t count(std::int64_t least = 1) {
    const std::string_view word = next();
    const auto value = config::value_from_text(word, std::int64_t{0});
    if (!value || std::get<std::int64_t>(*value) < least || std::get<std::int64_t>(*value) > most)
      refuse(cat(config::quoted(word), " is no integer from ", least, " to ", most));
    return std::get<std::int64_t>(*value);
  }
  double share() {
    const std::string_view word = next();
    const auto value = config::value_from_text(word, 0.0);
    if (!value || !(std::get<double>(*value) >= 0.0 && std::get<double>(*value) < 1.0))
      refuse(cat(config::quoted(word), " is no number from 0 up to 1"));
    return std::get<double>(*value);
  }
  bool take(std::string_view word) {
    if (words_.empty() || words_.front() != word) return false;
    words_ = words_.subspan(1);
    return true;
  }
  void finish() const {
    if (!words_.empty()) refuse(cat(config::quoted(words_.front()), " has no meaning here"));
  }

 private:
  static constexpr std::int64_t most = 16777216;

  std::string_view next() {
    if (words_.empty()) refuse("something is missing");
    const std::string_view word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(cat(what, "; write ", config::quoted(usage_)));
  }

  std::span<const std::string_view> words_;
  std::string_view usage_;
};

void read_window(Arguments& arguments, LayerText& layer) {
  layer.kernel = arguments.count();
  if (layer.kind != Kind::conv) layer.stride = layer.kernel;
  for (bool more = true; more;) {
    more = false;
    if (arguments.take("stride")) more = true, layer.stride = arguments.count();
    if (arguments.take("padding")) more = true, layer.padding = arguments.count(0);
    if (layer.kind == Kind::conv && arguments.take("no_bias")) more = true, layer.bias = false;
  }
}

}  // namespace

LayerText parse_layer(std::string_view text) {
  const std::vector<std::string_view> words = words_in(text);
  if (words.empty()) throw UserError("an empty text is no layer");
  LayerText layer;
  std::string usage(words[0]);
  const auto form = std::ranges::find(forms, words[0], &Form::word);
  const auto activations = words_of<Activation>().subspan(1);
  if (form != forms.end()) {
    layer.kind = form->kind;
    usage = form->usage;
  } else if (std::ranges::find(activations, words[0]) != activations.end()) {
    layer.kind = Kind::activation;
    layer.activation = choice<Activation>(words[0]);
  } else {
    refuse_word(words[0]);
  }
  Arguments arguments(std::span<const std::string_view>(words).subspan(1), usage);
  switch (layer.kind) {
    case Kind::conv: layer.outputs = arguments.count(); [[fallthrough]];
    case Kind::max_pool:
    case Kind::average_pool: read_window(arguments, layer); break;
    case Kind::linear: layer.outputs = arguments.count(); break;
    case Kind::dropout: layer.probability = arguments.share(); break;
    case Kind::residual: layer.projection = arguments.take("projection"); break;
    default: break;
  }
  arguments.finish();
  return layer;
}

std::vector<LayerText> parse_layers(const std::vector<std::string>& texts) {
  std::vector<LayerText> layers;
  for (const std::string& text : texts) layers.push_back(parse_layer(text));
  return layers;
}

}  // namespace flotilla
