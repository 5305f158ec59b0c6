// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/gpu_binding.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/host_lines.hpp"

namespace flotilla::mpi {

namespace {

std::string text_of(const std::vector<int>& processors) {
  std::string text;
  for (const int id : processors) text += cat(text.empty() ? "" : ",", id);
  return text;
}

/// A line for the processors, and three for each GPU.
std::string text_of(const GpuView& view) {
  std::string text = text_of(view.own) + "\n";
  for (const GpuView::Gpu& gpu : view.gpus)
    text += gpu.pci_id + "\n" + gpu.name + "\n" + text_of(gpu.near) + "\n";
  return text;
}

GpuView view_of(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  GpuView view;
  std::getline(lines, line);
  view.own = parse_processor_list(line);
  while (std::getline(lines, line)) {
    GpuView::Gpu& gpu = view.gpus.emplace_back();
    gpu.pci_id = line;
    std::getline(lines, gpu.name);
    std::getline(lines, line);
    gpu.near = parse_processor_list(line);
  }
  return view;
}

bool is_near(const GpuView::Gpu& gpu, const std::vector<int>& own) {
  return gpu.near.empty() ||
         std::ranges::any_of(gpu.near, [&](int id) { return std::ranges::count(own, id) > 0; });
}

/// The ranks of one host and the GPUs that they see: a matching, by augmenting paths.
class Matching {
 public:
  /// @param ranks of the host, in their order on it
  Matching(const std::vector<int>& ranks, const std::vector<GpuView>& views, std::size_t ranks_per_gpu)
      : views_(views), capacity_(ranks_per_gpu) {
    for (const int rank : ranks) {
      std::set<std::string> tried;
      if (!place(rank, tried)) unplaced_ = rank;
    }
  }

  bool complete() const { return unplaced_ < 0; }
  const std::map<std::string, std::vector<int>>& ranks_of() const { return ranks_of_; }

 private:
  const GpuView& view(int rank) const { return views_[static_cast<std::size_t>(rank)]; }

  /// The GPUs that the rank sees, close ones first.
  std::vector<std::string> wishes(int rank) const {
    std::vector<std::string> ids;
    for (const bool near : {true, false})
      for (const GpuView::Gpu& gpu : view(rank).gpus)
        if (is_near(gpu, view(rank).own) == near) ids.push_back(gpu.pci_id);
    return ids;
  }

  bool place(int rank, std::set<std::string>& tried) {
    const std::vector<std::string> ids = wishes(rank);
    for (std::size_t load = 0; load < capacity_; ++load)
      for (const std::string& id : ids)
        if (ranks_of_[id].size() == load) {
          ranks_of_[id].push_back(rank);
          return true;
        }
    for (const std::string& id : ids) {
      if (!tried.insert(id).second) continue;
      for (int& other : ranks_of_[id]) {
        if (!place(other, tried)) continue;
        other = rank;
        return true;
      }
    }
    return false;
  }

  const std::vector<GpuView>& views_;
  std::size_t capacity_;
  std::map<std::string, std::vector<int>> ranks_of_;
  int unplaced_ = -1;
};

std::string names_of(const std::vector<Place>& places, const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t at = 0; at < ranks.size(); ++at)
    text += cat(at == 0                  ? ""
                : at + 1 == ranks.size() ? " and "
                                         : ", ",
                places[static_cast<std::size_t>(ranks[at])].rank);
  return text;
}

[[noreturn]] void refuse_blind(const Place& place) {
  throw UserError(cat("device.kind = \"cuda\", but rank ", place.rank, " on ", place.host,
                      " sees no GPU: ask for them (srun --gpus-per-node, a container's --gpus), check "
                      "CUDA_VISIBLE_DEVICES and nvidia-smi on that host, or use device.kind = \"cpu\""));
}

/// Names the first GPU that two ranks would have to share.
[[noreturn]] void refuse_sharing(const std::vector<Place>& places, const std::vector<int>& ranks,
                                 const Matching& shared, std::size_t gpus) {
  const auto crowd =
      std::ranges::find_if(shared.ranks_of(), [](const auto& of) { return of.second.size() > 1; });
  const std::string& host = places[static_cast<std::size_t>(ranks.front())].host;
  std::string text = cat("ranks ", names_of(places, crowd->second), " on ", host, " would share one GPU (",
                         crowd->first, "), which slows each of them down: the ", ranks.size(),
                         " ranks there see ", gpus, gpus == 1 ? " GPU" : " GPUs");
  if (gpus < ranks.size()) {
    text += cat(" together; start one rank for each (mpirun --map-by ppr:", gpus,
                ":node, srun --ntasks-per-node=", gpus, ")");
  } else {
    text +=
        cat(", but not each one of its own; show every rank all GPUs of its host (srun --gpu-bind=none "
            "with --gpus-per-node=",
            gpus, ")");
  }
  throw UserError(text + ", or allow it with device.share = true");
}

/// The ranks of each host, in their order on it.
std::vector<std::vector<int>> by_host(const std::vector<Place>& places) {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(hosts(places)));
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    all[static_cast<std::size_t>(places[rank].host_index)].push_back(static_cast<int>(rank));
  for (std::vector<int>& ranks : all)
    std::ranges::sort(ranks, {}, [&](int rank) { return places[static_cast<std::size_t>(rank)].local_rank; });
  std::erase_if(all, [](const std::vector<int>& ranks) { return ranks.empty(); });  // servers only
  return all;
}

Matching match(const std::vector<Place>& places, const std::vector<int>& ranks,
               const std::vector<GpuView>& views, bool share) {
  std::set<std::string> gpus;
  for (const int rank : ranks) {
    const GpuView& view = views[static_cast<std::size_t>(rank)];
    if (view.gpus.empty()) refuse_blind(places[static_cast<std::size_t>(rank)]);
    for (const GpuView::Gpu& gpu : view.gpus) gpus.insert(gpu.pci_id);
  }
  for (std::size_t ranks_per_gpu = 1;; ++ranks_per_gpu) {
    Matching matching(ranks, views, ranks_per_gpu);
    if (!matching.complete()) continue;
    if (ranks_per_gpu > 1 && !share) refuse_sharing(places, ranks, matching, gpus.size());
    return matching;
  }
}

}  // namespace

GpuView look_at_gpus(const std::vector<GpuInfo>& visible, const std::string& root) {
  GpuView view{.own = find_processors(root).own};
  for (const GpuInfo& gpu : visible) {
    std::ifstream file(cat(root, "/sys/bus/pci/devices/", gpu.pci_id, "/local_cpulist"));
    std::string line;
    std::getline(file, line);
    view.gpus.push_back({.name = gpu.name, .pci_id = gpu.pci_id, .near = parse_processor_list(line)});
  }
  return view;
}

std::vector<GpuView> all_gather(const Communicator& ranks, const GpuView& mine) {
  std::vector<GpuView> views;
  for (const std::string& text : ranks.all_gather(text_of(mine))) views.push_back(view_of(text));
  return views;
}

bool GpuBinding::shared() const {
  return std::ranges::any_of(ranks, [](const Bound& bound) { return bound.sharing.size() > 1; });
}

GpuBinding bind_gpus(const std::vector<Place>& places, const std::vector<GpuView>& views, bool share) {
  require(places.size() == views.size(), "GPUs of ", views.size(), " ranks for ", places.size());
  GpuBinding binding;
  binding.ranks.resize(places.size());
  for (const std::vector<int>& ranks : by_host(places)) {
    const Matching matching = match(places, ranks, views, share);
    for (const auto& [id, sharing] : matching.ranks_of())
      for (const int rank : sharing) {
        const GpuView& view = views[static_cast<std::size_t>(rank)];
        const auto gpu = std::ranges::find(view.gpus, id, &GpuView::Gpu::pci_id);
        GpuBinding::Bound& bound = binding.ranks[static_cast<std::size_t>(rank)];
        bound = {.ordinal = static_cast<int>(gpu - view.gpus.begin()), .gpu = *gpu, .own = view.own};
        for (const int other : sharing) bound.sharing.push_back(places[static_cast<std::size_t>(other)].rank);
        std::ranges::sort(bound.sharing);
      }
  }
  return binding;
}

std::vector<std::string> gpu_warnings(const std::vector<Place>& places, const GpuBinding& binding) {
  std::vector<std::string> far;
  std::string text;
  for (std::size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const GpuBinding::Bound& bound = binding.ranks[rank];
    if (is_near(bound.gpu, bound.own)) continue;
    const Place& place = places[rank];
    if (text.empty())
      text =
          cat("rank ", place.rank, " on ", place.host, " is bound to core",
              bound.own.size() == 1 ? " " : "s ", text_of_ranks(bound.own), ", but its GPU (",
              bound.gpu.pci_id, ") is next to ", text_of_ranks(bound.gpu.near),
              ", and what is copied to it takes the longer way: bind ranks in blocks (srun "
              "--distribution=block:block --cpu-bind=cores, mpirun --map-by numa --bind-to numa; nvidia-smi "
              "topo -m shows what is next to what)");
    else
      far.push_back(cat(place.rank));
  }
  if (text.empty()) return {};
  if (!far.empty()) text += cat(" (and ", far.size(), far.size() == 1 ? " rank more)" : " ranks more)");
  return {text};
}

std::string describe_gpus(const GpuBinding& binding) {
  std::map<std::string, double> kinds;
  std::size_t most = 1;
  for (const GpuBinding::Bound& bound : binding.ranks) {
    most = std::max(most, bound.sharing.size());
    kinds[bound.gpu.name] += 1.0 / static_cast<double>(bound.sharing.size());
  }
  std::string text;
  for (const auto& [name, number] : kinds)
    text += cat(text.empty() ? "" : ", ", std::lround(number), " × ", name);
  return text + (most == 1 ? ", one for each rank" : cat(", up to ", most, " ranks on one"));
}

std::vector<std::string> gpu_table(const std::vector<Place>& places, const GpuBinding& binding) {
  std::size_t host_width = 4;
  for (const Place& place : places) host_width = std::max(host_width, place.host.size());
  const auto row = [&](const auto& rank, const std::string& host, const auto& gpu, const std::string& id,
                       const std::string& rest) {
    std::ostringstream line;
    line << std::setw(6) << rank << "  " << std::left << std::setw(static_cast<int>(host_width)) << host
         << std::right << std::setw(5) << gpu << "  " << std::left << std::setw(12) << id << "  " << rest;
    return line.str();
  };
  std::vector<std::string> lines = {row("rank", "host", "GPU", "PCI id", "cores")};
  for (std::size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const GpuBinding::Bound& bound = binding.ranks[rank];
    lines.push_back(
        row(places[rank].rank, places[rank].host, bound.ordinal, bound.gpu.pci_id, text_of_ranks(bound.own)));
  }
  return lines;
}

}  // namespace flotilla::mpi
