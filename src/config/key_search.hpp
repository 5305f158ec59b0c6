// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/keys.hpp"

namespace flotilla {

namespace config {

/// A key as a topic lists it.
struct TopicKey {
  std::string_view path;
  /// What PyTorch, Lightning, Keras, Horovod, Paddle and their users call it, apart by commas
  std::string_view other_names = {};
};

/// Keys that belong together for a reader, the most important first.
struct Topic {
  std::string_view title;
  std::vector<TopicKey> keys;
};

/// The one place of topics and of other programs' names for keys.
std::span<const Topic> topics();

/// The keys of that name or, if there are none, those that other programs call so, the likeliest first.
/// @param name "batch_size", "num_workers"; "-", "_" and capitals make no difference
std::vector<const Key*> keys_called(std::string_view name);

}  // namespace config

/// The page of topics, each with the paths of its keys.
std::string keys_by_topic();

/// The five keys that have most to do with the words: path, default and a sentence of each. The search is
/// over names, other programs' names, allowed values and help.
/// @throws UserError where no key has to do with any of the words, with a word that is similar
std::string found_keys(const std::vector<std::string>& words);

}  // namespace flotilla
