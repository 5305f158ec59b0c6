// SPDX-License-Identifier: Apache-2.0
#include "src/observe/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/files/atomic_file.hpp"

namespace flotilla {

namespace {

struct Entry {
  const char* name = nullptr;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// The spans of one thread. Written by that thread alone; another may read what `size` covers at any time.
class Buffer : public trace::Sink {
 public:
  Buffer(std::string name, std::size_t capacity) : name_(std::move(name)), entries_(capacity) {}

  void span(const char* name, std::int64_t begin_ns, std::int64_t end_ns) override {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == entries_.size()) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    entries_[size] = {name, begin_ns, end_ns};
    size_.store(size + 1, std::memory_order_release);
  }

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  const Entry& operator[](std::size_t index) const { return entries_[index]; }
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::string name_;
  std::vector<Entry> entries_;
  std::atomic<std::size_t> size_{0};
  std::atomic<std::int64_t> dropped_{0};
};

/// A JSON string, quotes included.
std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A metadata event ("ph": "M") that names a process or thread.
std::string name_event(const char* what, int rank, std::size_t thread, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, rank, thread,
                     json_string(name));
}

}  // namespace

struct TraceFile::Impl {
  std::string path;
  int rank;
  std::int64_t clock_offset_ns;
  std::size_t capacity;
  std::mutex mutex;  ///< Guards the list, not the buffers
  std::vector<std::unique_ptr<Buffer>> buffers;
};

TraceFile::TraceFile(std::string path, int rank, std::int64_t clock_offset_ns, std::size_t capacity)
    : impl_(new Impl{std::move(path), rank, clock_offset_ns, capacity, {}, {}}) {}

TraceFile::~TraceFile() = default;

trace::Sink* TraceFile::thread(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  impl_->buffers.push_back(std::make_unique<Buffer>(name, impl_->capacity));
  return impl_->buffers.back().get();
}

void TraceFile::write() {
  const std::lock_guard lock(impl_->mutex);
  AtomicFile file(impl_->path);
  constexpr std::size_t piece_bytes = 1U << 20U;
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  std::int64_t dropped = 0;

  fmt::format_to(out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}",
                 name_event("process_name", impl_->rank, 0, fmt::format("rank {}", impl_->rank)));
  for (std::size_t thread = 0; thread < impl_->buffers.size(); ++thread) {
    const Buffer& buffer = *impl_->buffers[thread];
    fmt::format_to(out, ",\n{}", name_event("thread_name", impl_->rank, thread, buffer.name()));
    const std::size_t size = buffer.size();
    for (std::size_t index = 0; index < size; ++index) {
      const Entry& entry = buffer[index];
      // The format counts in microseconds.
      fmt::format_to(out,
                     ",\n{{\"name\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
                     json_string(entry.name), impl_->rank, thread,
                     static_cast<double>(entry.begin_ns - impl_->clock_offset_ns) * 1e-3,
                     static_cast<double>(entry.end_ns - entry.begin_ns) * 1e-3);
      if (text.size() >= piece_bytes) {
        file.append({text.data(), text.size()});
        text.clear();
      }
    }
    dropped += buffer.dropped();
  }
  fmt::format_to(out, "\n],\"otherData\":{{\"dropped_spans\":{}}}}}\n", dropped);
  file.append({text.data(), text.size()});
  file.commit();
}

}  // namespace flotilla
