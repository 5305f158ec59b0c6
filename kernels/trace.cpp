// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace.hpp"

#include <chrono>

namespace flotilla::trace {

namespace {
thread_local Sink* this_thread_sink = nullptr;
}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Sink* record_this_thread(Sink* sink) {
  Sink* before = this_thread_sink;
  this_thread_sink = sink;
  return before;
}

Span::Span(const char* name) : name_(name), sink_(this_thread_sink) {
  if (sink_ != nullptr) begin_ns_ = now_ns();
}

Span::~Span() {
  if (sink_ != nullptr) sink_->span(name_, begin_ns_, now_ns());
}

}  // namespace flotilla::trace
