// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/gpu_view.hpp"

#include <fstream>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/machine/processors.hpp"

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

}  // namespace flotilla::mpi
