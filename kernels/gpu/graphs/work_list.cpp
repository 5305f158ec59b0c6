// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/graphs/work_list.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t usual_bytes = 1U << 17U;
constexpr std::size_t fewest_works = 4;  // Below that a graph saves nothing.
/// A step has a few lists for each bucket of gradients, and two for each synchronised batch norm, in two
/// kinds: batches lie in two places in turn.
constexpr std::size_t max_lists = 1024;

}  // namespace

void WorkList::List::run() const {
  for (const Work* work : works) work->run();
}

bool WorkList::List::same(const List& other) const {
  return std::equal(works.begin(), works.end(), other.works.begin(), other.works.end(),
                    [](const Work* a, const Work* b) { return a->same(*b); });
}

void WorkList::List::clear() {
  works.clear();
  memory.release();
}

WorkList::WorkList(WorkRecorder& recorder)
    : recorder_(recorder),
      pending_(std::make_unique<List>(usual_bytes)),
      spare_(std::make_unique<List>(usual_bytes)) {
  numbers_.reserve(recorder.room());
}

WorkList::~WorkList() = default;

std::pair<std::uint64_t*, const std::uint64_t*> WorkList::room_for(std::size_t words) {
  if (numbers_.size() + words > recorder_.room()) submit();
  require(numbers_.size() + words <= recorder_.room(), "one piece of work has too many numbers");
  const std::size_t first = numbers_.size();
  numbers_.resize(first + words);
  return {numbers_.data() + first, recorder_.numbers() + first};
}

void WorkList::put(const Work& work) {
  pending_->works.push_back(work.copy_to(pending_->memory));
  taken_ = numbers_.size();
}

void WorkList::submit() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (pending_->works.empty()) return;
  // Work may itself submit the list: it is empty then.
  std::unique_ptr<List> list =
      std::exchange(pending_, spare_ ? std::move(spare_) : std::make_unique<List>(usual_bytes));
  if (!numbers_.empty()) recorder_.upload(numbers_);
  // Numbers of work that is yet to be added keep their places.
  if (taken_ == numbers_.size()) numbers_.clear();
  taken_ = 0;
  hand_over(std::move(list));
}

void WorkList::hand_over(std::unique_ptr<List> list) {
  List* const before = list->works.size() < fewest_works ? nullptr : known(*list);
  if (before != nullptr) {
    if (!before->graph) record(*before);
    before->graph->launch();
    before->used = ++clock_;
  } else {
    list->run();
    if (list->works.size() >= fewest_works) remember(*list);
  }
  list->clear();
  spare_ = std::move(list);
}

/// Steps repeat their lists in one order: the one after the last that was found is tried first.
WorkList::List* WorkList::known(const List& list) {
  const auto same = [&](const auto& one) { return one->same(list); };
  const auto next = known_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, known_.size()));
  auto found = std::find_if(next, known_.end(), same);
  if (found == known_.end()) {
    found = std::find_if(known_.begin(), next, same);
    if (found == next) return nullptr;
  }
  next_ = static_cast<std::size_t>(found - known_.begin()) + 1;
  return found->get();
}

/// A copy of it, in as much memory as it takes.
void WorkList::remember(const List& list) {
  if (known_.size() == max_lists)
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& one) { return one->used; }));
  List& kept = *known_.emplace_back(std::make_unique<List>(0));
  for (const Work* work : list.works) kept.works.push_back(work->copy_to(kept.memory));
  kept.used = ++clock_;
}

void WorkList::record(List& list) {
  recorder_.begin();
  recording_ = true;
  try {
    list.run();
    list.graph = recorder_.end();
  } catch (const std::exception& error) {
    recording_ = false;
    recorder_.abandon();
    throw LibraryError("the capture of a CUDA graph (device.graphs = true)",
                       cat(error.what(), "; device.graphs = false trains without graphs"));
  }
  recording_ = false;
}

void WorkList::before_release() noexcept {
  try {
    submit();
  } catch (...) {
    failure_ = std::current_exception();
  }
  known_.clear();
}

}  // namespace flotilla
