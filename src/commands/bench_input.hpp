// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/choices.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct BenchInputArguments {
  std::string deck;                    ///< Its training data; empty: those of `list`
  std::vector<std::string> overrides;  ///< Of the deck
  std::string list;
  std::string root;  ///< Empty: found by the list's name
  ResizeFilter filter = ResizeFilter::bilinear;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t threads = 1;  ///< Of each rank
  std::int64_t size = 224;   ///< Pixels
  double seconds = 5.0;      ///< Measured, after a tenth of that to warm up
  std::int64_t images = 0;   ///< Of each rank, instead of seconds; 0: none
  bool no_decode = false;    ///< Images are read, not decoded
  std::string json;          ///< Also as JSON into this file; empty: no
};

/// Collective. `flotilla bench input`: training samples per second of the loader, over all ranks, while
/// nothing else runs. No device is made: batches have the form for this kind of device.
int bench_input(const BenchInputArguments& arguments, const mpi::Communicator& world,
                FailureHandler& failure);

}  // namespace flotilla
