// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/graphs/cuda_graphs.hpp"

#include <utility>

#include "kernels/gpu/graphs/work_list.hpp"

namespace flotilla {

namespace {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphLaunch = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

constexpr std::size_t floats_per_number = sizeof(std::uint64_t) / sizeof(float);
constexpr std::size_t max_numbers = 512;  // A step takes a handful.

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

class CudaGraphs : public WorkRecorder {
 public:
  CudaGraphs(const CudaMemory& memory, CudaUploads& uploads);

  void begin() override;
  std::unique_ptr<WorkGraph> end() override;
  void abandon() noexcept override;
  const std::uint64_t* numbers() const override;
  std::size_t room() const override;
  void upload(std::span<const std::uint64_t> numbers) override;

 private:
  const CudaMemory& memory_;
  CudaUploads& uploads_;
  Storage numbers_;
};

CudaGraphs::CudaGraphs(const CudaMemory& memory, CudaUploads& uploads)
    : memory_(memory), uploads_(uploads), numbers_(memory.allocate(max_numbers * floats_per_number)) {}

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
  return max_numbers;
}

void CudaGraphs::upload(std::span<const std::uint64_t> numbers) {
  const std::size_t floats = numbers.size() * floats_per_number;
  uploads_.copy({reinterpret_cast<const float*>(numbers.data()), floats}, numbers_.span().subspan(0, floats));
}

/// A list of work, and the recorder of its graphs.
struct RecordedWork {
  RecordedWork(const CudaMemory& memory, CudaUploads& uploads) : graphs(memory, uploads), list(graphs) {}
  CudaGraphs graphs;
  WorkList list;
};

}  // namespace

std::shared_ptr<WorkQueue> make_cuda_graphs(const CudaMemory& memory, CudaUploads& uploads) {
  const auto work = std::make_shared<RecordedWork>(memory, uploads);
  return {work, &work->list};
}

}  // namespace flotilla
