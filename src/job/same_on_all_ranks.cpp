// SPDX-License-Identifier: Apache-2.0
#include "src/job/same_on_all_ranks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/config/keys.hpp"
#include "src/config/values.hpp"
#include "src/files/file.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

void check_same_data(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     std::int64_t samples, std::string_view key) {
  const std::array<std::int64_t, 1> mine{samples};
  const std::vector<std::int64_t> all = world.all_gather(std::span<const std::int64_t>(mine));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw AgreedFailure(cat(key, " has ", all[rank], " samples on rank ", rank, " (", places[rank].host,
                            "), but ", all[0], " on rank 0 (", places[0].host,
                            "); give all hosts the same files, and start when they are complete"),
                        exit_user_error);
  }
}

namespace {

/// A line for each key that all ranks must agree on, in the order of the keys.
std::string shared_keys(const Config& config) {
  std::string text;
  for (const config::Key& key : config::all_keys())
    if (config::is_active(key, config) && !key.of_host && key.path_role == config::PathRole::none)
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

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds between_looks{100};

/// A file in the nearest existing folder; removed with this object.
class Token {
 public:
  explicit Token(const fs::path& folder) {
    std::error_code error;
    for (fs::path above = folder; !fs::is_directory(above, error); above = above.parent_path()) {
      if (above == above.parent_path()) return;
      ++levels_;
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    name_ = cat(".flotilla-", getpid(), "-", now);
    path_ = place_of(folder, levels_) / name_;
    const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    written_ = descriptor >= 0 && write_fully(descriptor, "to see whether all hosts have this folder\n") == 0;
    if (descriptor >= 0) written_ = close(descriptor) == 0 && written_;
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token() {
    if (!path_.empty()) unlink(path_.c_str());
  }

  bool written() const { return written_; }
  int levels() const { return levels_; }  ///< Above the folder
  const std::string& name() const { return name_; }

  static fs::path place_of(fs::path folder, int levels) {
    for (int level = 0; level < levels; ++level) folder = folder.parent_path();
    return folder;
  }

 private:
  int levels_ = 0;
  bool written_ = false;
  std::string name_;
  fs::path path_;
};

bool appears(const fs::path& folder, const std::string& name, double patience_s) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  std::error_code error;
  while (!fs::exists(folder / name, error)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    // Opening a folder makes a network file system ask what is in it.
    const fs::directory_iterator look(folder, error);
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

}  // namespace

void check_shared_folder(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                         const std::string& folder, const std::string& key, double patience_s) {
  if (world.size() < 2) return;
  // "runs/a/" has its name before the last slash.
  const fs::path here = (fs::path(folder).lexically_normal() / "").parent_path();
  std::optional<Token> token;
  if (world.is_root()) token.emplace(here);
  std::string name = token && token->written() ? token->name() : "";
  world.broadcast(name);
  if (name.empty()) return;
  int levels = token ? token->levels() : 0;
  world.broadcast(std::span(&levels, 1));

  // Every rank looks, not one per host: a rank may be in a container of its own.
  const int host = places[static_cast<std::size_t>(world.rank())].host_index;
  const double patience_here_s = host == places.front().host_index ? std::min(1.0, patience_s) : patience_s;
  const std::int64_t mine = appears(Token::place_of(here, levels), name, patience_here_s) ? 1 : 0;
  world.patient_barrier();
  const std::vector<std::int64_t> all = world.all_gather(std::span(&mine, 1));
  std::vector<std::string> without;
  for (const mpi::Place& place : places) {
    if (all[static_cast<std::size_t>(place.rank)] != 0) continue;
    const bool beside_root = place.host_index == places.front().host_index;
    const std::string name_of = beside_root ? cat("rank ", place.rank, " on ", place.host) : place.host;
    if (std::ranges::count(without, name_of) == 0) without.push_back(name_of);
  }
  if (without.empty()) return;
  std::string seen_by_root = here.string();
  world.broadcast(seen_by_root);
  const char* const all_of = mpi::hosts(places) > 1 ? "hosts" : "ranks";
  throw AgreedFailure(
      cat(key, " = ", seen_by_root, " is not one folder for all ", all_of, ": what rank 0 on ",
          places.front().host, " writes there is not seen on ", mpi::text_of_hosts(without),
          ", where checkpoints and logs would be lost; name a folder on a file system that all ", all_of,
          " share"),
      exit_user_error);
}

}  // namespace flotilla
