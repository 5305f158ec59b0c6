// SPDX-License-Identifier: Apache-2.0
#include "src/job/shared_deck.hpp"

#include "src/job/failure.hpp"

namespace flotilla {

LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world) {
  std::string text;
  agree(world, [&] {
    if (world.is_root()) text = read_deck_file(path);
  });
  world.broadcast(text);
  LoadedDeck deck;
  agree(world, [&] { deck = load_deck({.path = path, .text = text, .overrides = overrides}); });
  return deck;
}

}  // namespace flotilla
