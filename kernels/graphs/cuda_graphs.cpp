// SPDX-License-Identifier: Apache-2.0
#include "kernels/graphs/cuda_graphs.hpp"

#include <utility>

namespace flotilla {

namespace {

constexpr std::size_t floats_per_number = sizeof(std::uint64_t) / sizeof(float);
constexpr std::size_t most_numbers = 512;  // A step takes a handful.

class CudaGraph : public WorkGraph {
 public:
  CudaGraph(CudaMemory memory, GraphLaunch graph) : memory_(std::move(memory)), graph_(std::move(graph)) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override { cudaStreamSynchronize(memory_.bare_stream()); }  // It may be running.

  void launch() override { check(cudaGraphLaunch(graph_.get(), memory_.bare_stream()), "cudaGraphLaunch"); }

 private:
  CudaMemory memory_;
  GraphLaunch graph_;
};

}  // namespace

CudaGraphs::CudaGraphs(const CudaMemory& memory, CudaUploads& uploads)
    : memory_(memory), uploads_(uploads), numbers_(memory.allocate(most_numbers * floats_per_number)) {}

void CudaGraphs::begin() {
  // Other threads (the loader's, a communication lane) go on calling what may not be captured.
  check(cudaStreamBeginCapture(memory_.bare_stream(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
}

std::unique_ptr<WorkGraph> CudaGraphs::end() {
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(memory_.bare_stream(), &captured), "cudaStreamEndCapture");
  const Graph graph(captured);
  return std::make_unique<CudaGraph>(
      memory_, created<GraphLaunch>("cudaGraphInstantiate", cudaGraphInstantiate, graph.get(), 0ULL));
}

void CudaGraphs::abandon() noexcept {
  cudaGraph_t captured = nullptr;
  cudaStreamEndCapture(memory_.bare_stream(), &captured);  // Fails where end() has ended it.
  const Graph dropped(captured);
  cudaGetLastError();
}

const std::uint64_t* CudaGraphs::numbers() const {
  return reinterpret_cast<const std::uint64_t*>(numbers_.span().address());
}

std::size_t CudaGraphs::room() const {
  return most_numbers;
}

void CudaGraphs::upload(std::span<const std::uint64_t> numbers) {
  const std::size_t floats = numbers.size() * floats_per_number;
  uploads_.copy({reinterpret_cast<const float*>(numbers.data()), floats}, numbers_.span().subspan(0, floats));
}

}  // namespace flotilla
