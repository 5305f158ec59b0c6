// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/trace.hpp"

namespace flotilla {

/// A Chrome trace of this rank: trace/rank-0000.json. Clocks of the ranks are aligned by `clock_offset_ns`
/// (subtracted), so that the files can be viewed together. Memory is bounded: spans beyond `capacity` per
/// thread are counted, not kept.
class TraceFile {
 public:
  TraceFile(std::string path, int rank, std::int64_t clock_offset_ns, std::size_t capacity = 1U << 18U);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();
  trace::Sink* thread(const std::string& name);  ///< A sink for one thread; lives as long as this.
  void write();  ///< Writes the file. @throws UserError if it cannot be written.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla
