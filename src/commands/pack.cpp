// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/subcommand.hpp"
#include "src/config/config.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/images/image_list.hpp"
#include "src/data/sampler.hpp"
#include "src/data/shards/shard_writer.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"
#include "src/job/failure.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

struct PackArguments {
  std::string list;             ///< A list of images, or a folder of class folders
  std::string root;             ///< Folder that the list's paths begin at; empty: found by the list's name
  std::string output;           ///< Folder of the shards
  std::string name;             ///< Name of the shards; empty: the list's name without its extension
  std::int64_t shard_mb = 256;  ///< MiB of a shard, at most, up to a sample
};

namespace fs = std::filesystem;

constexpr std::int64_t max_list_labels = 16777216;  // the largest model.classes

/// The images to pack and the files to write.
struct Packing {
  ImageList list;
  std::string classes;              ///< Names of the classes, a line each; empty: they are not known
  std::string beginning;            ///< "/data/shards/train"
  std::vector<std::int64_t> bytes;  ///< Size of each image
  std::vector<ShardPart> shards;
};

/// The results of a rank.
struct Packed {
  std::int64_t shards = 0;    ///< Written
  std::int64_t finished = 0;  ///< Shards finished by an earlier run
  std::int64_t bytes = 0;     ///< Size of the images in both
};

Packing open_packing(const PackArguments& arguments) {
  Packing packing;
  fs::path named = fs::path(arguments.list).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "train/"
  if (is_folder(arguments.list)) {
    const std::vector<std::string> classes = class_folders(arguments.list);
    packing.list = read_image_folder(arguments.list, {.classes = std::ssize(classes)});
    for (const std::string& name : classes) packing.classes += name + "\n";
  } else {
    packing.list =
        read_image_list(arguments.list, {.root = arguments.root,
                                         .classes = max_list_labels,
                                         .missing_allowed = true,  // examine_images() checks all of them
                                         .root_key = "--root"});
    const std::string beside = (named.parent_path() / "classes.txt").string();
    if (is_there(beside)) packing.classes = open_data_file(beside).text();
    named.replace_extension();
  }
  const std::string name = arguments.name.empty() ? named.filename().string() : arguments.name;
  packing.beginning = (fs::path(arguments.output) / name).string();
  return packing;
}

/// Collective. Looks up the size of each image, a part of them on each rank.
void examine_images(Packing& packing, const mpi::Communicator& world) {
  const std::int64_t count = packing.list.size();
  const ValidationShard part = validation_shard(count, world.size(), world.rank());
  packing.bytes.assign(static_cast<std::size_t>(count), 0);
  MistakeList mistakes;
  {
    ProgressLine progress("looking up the images", part.end - part.begin, Amount::items);
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      packing.bytes[static_cast<std::size_t>(i)] = examine_image(packing.list, i, mistakes);
      progress.at(i - part.begin);
    }
  }
  world.all_reduce(std::span(packing.bytes));
  const MistakeList all = gathered_mistakes(mistakes, world);
  throw_alike([&] { all.throw_if_any(packing.list.source); });
}

void cut_list(Packing& packing, std::int64_t shard_mb) {
  const std::vector<std::int64_t> begins = cut_into_shards(packing.list, packing.bytes, shard_mb << 20);
  for (std::size_t k = 0; k + 1 < begins.size(); ++k)
    packing.shards.push_back({begins[k], begins[k + 1], fmt::format("{}-{:06}.tar", packing.beginning, k)});
}

/// Makes the folder and the file of class names, and removes what a run that was killed has left.
/// @throws UserError if shards of another packing lie there, which would be read with these
void prepare_folder(const Packing& packing, const std::string& folder) {
  make_output_folder(folder, "--output");
  const std::string beginning = fs::path(packing.beginning).filename().string() + "-";
  std::set<std::string> own;
  for (const ShardPart& shard : packing.shards) own.insert(fs::path(shard.path).filename().string());
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(beginning) && name.ends_with(".tar") && !own.contains(name)) others.push_back(name);
  }
  if (!others.empty())
    throw UserError(cat(folder, ": holds ", *std::ranges::min_element(others),
                        others.size() == 1 ? "" : cat(" and ", others.size() - 1, " more"),
                        " of another packing, which would be read together with the ", own.size(),
                        " of this one; remove them, or name another --output or --name"));
  const std::string names = folder + "/classes.txt";
  if (!packing.classes.empty()) {
    if (is_there(names) && open_data_file(names).text() != packing.classes)
      throw UserError(cat(names, ": names other classes than those of ", packing.list.source,
                          "; pack data sets of different classes into folders of their own"));
    write_text_file_atomically(names, packing.classes);
  }
  remove_unfinished_in(folder, beginning);
}

/// The shards of this rank: every world.size()-th.
Packed write_shards(const Packing& packing, const mpi::Communicator& world, MistakeList& mistakes) {
  const auto bytes_of = [&](const ShardPart& shard) {
    return std::span(packing.bytes)
        .subspan(static_cast<std::size_t>(shard.begin), static_cast<std::size_t>(shard.end - shard.begin));
  };
  std::vector<ShardPart> own;
  std::int64_t total = 0;
  for (std::size_t k = static_cast<std::size_t>(world.rank()); k < packing.shards.size();
       k += static_cast<std::size_t>(world.size())) {
    own.push_back(packing.shards[k]);
    for (const std::int64_t bytes : bytes_of(own.back())) total += bytes;
  }
  ProgressLine progress(cat("packing, rank ", world.rank(), " of ", world.size()), total, Amount::bytes);
  Packed packed;
  std::int64_t done = 0;
  for (const ShardPart& shard : own) {
    std::int64_t bytes = 0;
    for (const std::int64_t image : bytes_of(shard)) bytes += image;
    std::int64_t read = 0;
    const auto advance = [&](std::int64_t more) { progress.at(done + std::min(read += more, bytes)); };
    if (is_packed(packing.list, shard, advance)) {
      ++packed.finished;
    } else {
      read = 0;
      if (write_shard(packing.list, shard, bytes_of(shard), advance, mistakes) > 0) ++packed.shards;
    }
    done += bytes;
  }
  packed.bytes = done;
  return packed;
}

std::string shards_text(std::int64_t shards) {
  return cat(shards, shards == 1 ? " shard" : " shards");
}

/// Collective. `flotilla pack`: packs images with their labels into WebDataset's shards, divided over the
/// ranks by shards. Shards that an earlier run has finished are read and left as they are.
/// @throws AgreedFailure with all images that cannot be packed
int pack(const PackArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  const std::int64_t began_ns = trace::now_ns();
  if (world.is_root()) Console::of_process().use_terminal();
  Packing packing;
  agree(world, [&] { packing = open_packing(arguments); });
  examine_images(packing, world);
  cut_list(packing, arguments.shard_mb);
  std::optional<RunLock> lock;
  agree(world, [&] {
    if (!world.is_root()) return;
    make_output_folder(arguments.output, "--output");
    lock.emplace(arguments.output);
    prepare_folder(packing, arguments.output);
  });
  MistakeList mistakes;
  const Packed mine = end_job_on_failure(failure, [&] { return write_shards(packing, world, mistakes); });
  world.patient_barrier();
  const MistakeList all = gathered_mistakes(mistakes, world);
  throw_alike([&] { all.throw_if_any(packing.list.source); });

  std::array<std::int64_t, 3> sums{mine.shards, mine.finished, mine.bytes};
  world.all_reduce(std::span<std::int64_t>(sums));
  agree(world, [&] {
    if (!world.is_root()) return;
    const double seconds = static_cast<double>(trace::now_ns() - began_ns) * 1e-9;
    print_line(fmt::format(
        "packed {} images, {}, into {} {}-*.tar by {} in {:.2f} s: {:.0f} images/s, {}/s{}",
        packing.list.size(), bytes_text(sums[2]), shards_text(std::ssize(packing.shards)), packing.beginning,
        mpi::counted(world.size(), "rank"), seconds, static_cast<double>(packing.list.size()) / seconds,
        bytes_text(static_cast<std::int64_t>(static_cast<double>(sums[2]) / seconds)),
        packing.list.left_out.text()));
    if (sums[1] > 0)
      print_line(cat(shards_text(sums[1]), sums[1] == 1 ? " was" : " were",
                     " there already, unchanged by its checksum"));
    if (std::ssize(packing.shards) < world.size())
      print_line(cat("only ", packing.shards.size(), " of ", world.size(),
                     " ranks had a shard to write; a smaller --shard-mb makes more of them"));
  });
  return exit_done;
}

}  // namespace

Subcommand pack_command() {
  return SubcommandOf<PackArguments>{
      .name = "pack",
      .help = "Pack images into tar files, to be read in large pieces",
      .add_options =
          [](CLI::App& command, PackArguments& arguments, Positionals& /*positionals*/) {
            command
                .add_option("LIST", arguments.list,
                            "List of images: path, white space, label; or a folder that has a folder of "
                            "images per class")
                ->required();
            command.add_option("--output", arguments.output, "Folder for the shards")->required();
            command.add_option("--root", arguments.root,
                               "Folder that the list's paths begin at (default: by its name)");
            command.add_option("--name", arguments.name, "Shards are NAME-000000.tar … (the list's name)")
                ->check([](const std::string& name) {
                  return name.find('/') == name.npos ? std::string()
                                                     : std::string("a name without a folder is needed");
                });
            command.add_option("--shard-mb", arguments.shard_mb, "Size of a shard, MiB, at most (256)")
                ->check(CLI::Range(1, 1048576));
          },
      .run_on_ranks = pack,
  };
}

}  // namespace flotilla
