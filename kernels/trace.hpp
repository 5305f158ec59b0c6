// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flotilla::trace {

/// Receives the spans of one thread. Names are string literals or live as long as the sink.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void span(const char* name, std::int64_t begin_ns, std::int64_t end_ns) = 0;
};

std::int64_t now_ns();  ///< Steady clock.

/// Sends the spans of the calling thread to `sink` (null: nowhere, the default). Returns the previous sink.
Sink* record_this_thread(Sink* sink);

/// The time from its construction to its destruction, on this thread. Costs one branch where nothing is
/// recorded.
class Span {
 public:
  explicit Span(const char* name);
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span();

 private:
  const char* name_;
  Sink* sink_;
  std::int64_t begin_ns_ = 0;
};

}  // namespace flotilla::trace
