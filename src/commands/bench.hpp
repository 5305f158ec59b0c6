// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/config.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct BenchAllReduceArguments {
  std::size_t min_bytes = 1024;
  std::size_t max_bytes = std::size_t{256} << 20U;
  bool in_place = false;                ///< Only the in-place rows
  DeviceKind device = DeviceKind::cpu;  ///< Device whose memory is summed
  int ranks_per_group = 0;              ///< Ranks per group of hierarchical algorithms; 0: a group per host
  int communicators = 1;                ///< More than 1: also rows with this many communicators
  std::string json{};                   ///< Also as a JSON array of the rows into this file; empty: no
  std::string* text = nullptr;          ///< Gets the JSON on rank 0; null: nowhere. In the next two as well
};

struct BenchInputArguments {
  std::string deck;                    ///< Its training data; empty: those of `list`
  std::vector<std::string> overrides;  ///< Overrides of the deck
  std::string list{};
  std::string root{};  ///< Empty: found by the list's name
  ResizeFilter filter = ResizeFilter::bilinear;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t threads = 1;  ///< Threads of each rank
  std::int64_t size = 224;   ///< Pixels
  double seconds = 5.0;      ///< Measured, after a tenth of that to warm up
  std::int64_t images = 0;   ///< Images of each rank, instead of seconds; 0: none
  bool no_decode = false;    ///< Images are read, not decoded
  std::string json{};        ///< Also as JSON into this file; empty: no
  std::string* text = nullptr;
};

struct BenchStepArguments {
  std::string deck;
  std::vector<std::string> overrides;
  std::int64_t steps = 200;           ///< Measured, after a tenth of that to warm up
  std::int64_t checkpoint_every = 0;  ///< Steps; 0: none. Written into a temporary folder below run.output
  bool operations = false;            ///< List every operation, not only their kinds
  std::string json{};                 ///< Also as JSON into this file; empty: no
  std::string* text = nullptr;
};

/// Collective. `flotilla bench all-reduce`: nccl-tests' columns for MPI_Allreduce and for each algorithm of
/// Flotilla; for another device's memory without MPI_Allreduce.
int bench_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world);

/// Collective. `flotilla bench input`: training samples per second of the loader, over all ranks, while
/// nothing else runs. No device is made: batches have the form for this kind of device.
int bench_input(const BenchInputArguments& arguments, const mpi::Communicator& world,
                FailureHandler& failure);

/// Collective. `flotilla bench step`: the time of a training step of a deck, of its phases, and of its
/// operations when each is timed alone on the step's own buffers, in the same run.
int bench_step(const BenchStepArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

/// Writes a benchmark's JSON to `file`, unless that is empty, and to `text`, unless that is null.
void hand_over(const std::string& json, const std::string& file, std::string* text);

struct Figure {
  std::string_view name;
  double value = 0.0;
};

/// Ends a benchmark's output with two lines for scripts: "figure samples_per_s=5281.4 step_ms=12.1", and
/// "valid: yes", or "valid: no: WHY" where `why_invalid` is not empty.
void print_figures(const std::vector<Figure>& figures, const std::string& why_invalid);

/// "64", "1K", "64M", "1G", with or without "B" or "iB": K is 1,024. @throws UserError for anything else.
std::size_t bytes_from_text(const std::string& text);

}  // namespace flotilla
