// SPDX-License-Identifier: Apache-2.0
#include "src/job/shared_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <thread>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/files/write_fully.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

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

  // Not only one rank of each host: a rank may be in a container of its own.
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
