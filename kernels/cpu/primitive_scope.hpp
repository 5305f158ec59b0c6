// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <source_location>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

/// State shared by the primitives of one device: engine, stream, threads, and scratch memory for the largest
/// need among them. One primitive runs at a time. Rows are a second scratch memory, for values that a
/// primitive reads or writes and that own passes gather before it or scatter after it.
class PrimitiveScope {
 public:
  PrimitiveScope(int threads, const HostMemory& memory);
  int threads() const { return threads_; }
  const HostMemory& memory() const { return memory_; }
  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }
  void set_threads() const;  ///< oneDNN uses the OpenMP setting of the calling thread, when it makes and when
                             ///< it runs a primitive.
  void reserve(std::size_t bytes);  ///< Makes the scratch memory at least so large.
  std::byte* scratch() const { return scratch_.address; }
  void reserve_rows(std::size_t bytes);
  std::byte* rows() const { return rows_.address; }

 private:
  struct Scratch {
    Storage storage;
    std::byte* address = nullptr;
  };
  void grow(Scratch& scratch, std::size_t bytes) const;

  int threads_;
  HostMemory memory_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Scratch scratch_;
  Scratch rows_;
};

/// The result of `make`. @throws LibraryError for a dnnl::error, naming `what` was to be made.
template <class Make>
auto made(const char* what, const Make& make, std::source_location at = std::source_location::current()) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw LibraryError(what, error.message, at);
  }
}

}  // namespace flotilla
