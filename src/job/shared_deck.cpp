// SPDX-License-Identifier: Apache-2.0
#include "src/job/shared_deck.hpp"

#include <set>
#include <sstream>
#include <string_view>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"
#include "src/config/values.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

namespace {

bool may_differ(const config::Key& key) {
  static const std::set<std::string_view> of_a_host = {"data.threads",       "data.prefetch",  "data.cache",
                                                       "data.cache_mb",      "device.threads", "device.share",
                                                       "device.workspace_mb"};
  return key.path_role != config::PathRole::none || of_a_host.contains(key.path);
}

/// A line for each key that all ranks must agree on, in the order of the keys.
std::string shared_keys(const Config& config) {
  std::string text;
  for (const config::Key& key : config::all_keys())
    if (config::is_active(key, config) && !may_differ(key))
      text += cat(key.path, " = ", config::toml_text(key.field.read(config)), "\n");
  return text;
}

}  // namespace

void check_same_deck(const Config& config, const mpi::Communicator& world) {
  const std::string mine = shared_keys(config);
  std::string first = mine;
  world.broadcast(first);
  agree(world, [&] {
    if (mine == first) return;
    std::istringstream my_lines(mine);
    std::istringstream first_lines(first);
    std::string my_line;
    std::string first_line;
    while (my_line == first_line && std::getline(my_lines, my_line) && std::getline(first_lines, first_line))
      continue;
    throw UserError(cat("rank ", world.rank(), " has ", my_line, ", and rank 0 has ", first_line,
                        ": give all ranks the same arguments"));
  });
}

LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world) {
  std::string text;
  agree(world, [&] {
    if (world.is_root()) text = read_deck_file(path);
  });
  world.broadcast(text);
  LoadedDeck deck;
  agree(world, [&] { deck = load_deck({.path = path, .text = text, .overrides = overrides}); });
  check_same_deck(deck.config, world);
  return deck;
}

}  // namespace flotilla
