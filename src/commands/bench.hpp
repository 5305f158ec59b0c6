// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

struct BenchAllReduceArguments {
  std::size_t min_bytes = 1024;
  std::size_t max_bytes = std::size_t{256} << 20U;
  bool in_place = false;                ///< Only the in-place rows
  DeviceKind device = DeviceKind::cpu;  ///< Device whose memory is summed
  int ranks_per_group = 0;              ///< Ranks per group of hierarchical algorithms; 0: a group per host
  int communicators = 1;                ///< More than 1: also rows with this many communicators
  std::string json;                     ///< Also as a JSON array of the rows into this file; empty: no
};

struct BenchInputArguments {
  std::string deck;                    ///< Its training data; empty: those of `list`
  std::vector<std::string> overrides;  ///< Overrides of the deck
  std::string list;
  std::string root;  ///< Empty: found by the list's name
  ResizeFilter filter = ResizeFilter::bilinear;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t threads = 1;  ///< Threads of each rank
  std::int64_t size = 224;   ///< Pixels
  double seconds = 5.0;      ///< Measured, after a tenth of that to warm up
  std::int64_t images = 0;   ///< Images of each rank, instead of seconds; 0: none
  bool no_decode = false;    ///< Images are read, not decoded
  std::string json;          ///< Also as JSON into this file; empty: no
};

struct BenchStepArguments {
  std::string deck;
  std::vector<std::string> overrides;
  std::int64_t steps = 200;           ///< Measured, after a tenth of that to warm up
  std::int64_t checkpoint_every = 0;  ///< Steps; 0: none. Written into a temporary folder below run.output
  bool operations = false;            ///< List every operation, not only their kinds
  std::string json;                   ///< Also as JSON into this file; empty: no
};

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
