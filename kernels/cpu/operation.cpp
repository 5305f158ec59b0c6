// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/operation.hpp"

#include <algorithm>

#include "kernels/cpu/check.hpp"

namespace flotilla {

namespace {

constexpr std::size_t page = 4096;

std::size_t rounded(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

/// from → to, or with `add` to + from → to.
dnnl::reorder::primitive_desc reorder(const dnnl::engine& engine, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to, bool add) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1.0F);
    attributes.set_post_ops(after);
  }
  return {engine, from, engine, to, attributes};
}

dnnl::memory nowhere(const dnnl::memory::desc& layout, const dnnl::engine& engine) {
  return {layout, engine, DNNL_MEMORY_NONE};
}

void point(const dnnl::memory& memory, const void* address) {
  // The library takes both inputs and outputs as void*.
  check(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(address)), "dnnl_memory_set_data_handle");
}

}  // namespace

Operation::Operation(std::shared_ptr<PrimitiveScope> scope, const dnnl::primitive& primitive,
                     const dnnl::memory::desc& scratchpad, const std::vector<Argument>& operands)
    : scope_(std::move(scope)) {
  flotilla::made("a oneDNN operation", [&] {
    step_.primitive = primitive;
    scratchpad_ = nowhere(scratchpad, scope_->engine());
    std::size_t scratchpads = scratchpad.get_size();
    passages_.reserve(operands.size());
    for (const Argument& operand : operands) {
      Passage& passage = passages_.emplace_back();
      passage.flow = operand.flow;
      passage.reordered = operand.flow == Flow::add || operand.kept != operand.wanted;
      passage.kept = nowhere(operand.kept, scope_->engine());
      passage.inner = passage.reordered ? nowhere(operand.wanted, scope_->engine()) : passage.kept;
      step_.arguments.push_back({operand.argument, passage.inner.get()});
      if (!passage.reordered) continue;
      add_reorder(passage, operand);
      scratchpads = std::max(scratchpads, reorder_scratchpads_.back().get_desc().get_size());
    }
    step_.arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
    // The scratch memory: scratchpads, of which one is in use at a time, then the reordered operands.
    std::size_t end = rounded(scratchpads);
    for (Passage& passage : passages_) {
      if (!passage.reordered) continue;
      passage.offset = end;
      end += rounded(passage.inner.get_desc().get_size());
    }
    scope_->reserve(end);
  });
}

void Operation::add_reorder(Passage& passage, const Argument& operand) {
  const bool in = passage.flow == Flow::in;
  const dnnl::memory& from = in ? passage.kept : passage.inner;
  const dnnl::memory& to = in ? passage.inner : passage.kept;
  const auto description = reorder(scope_->engine(), in ? operand.kept : operand.wanted,
                                   in ? operand.wanted : operand.kept, passage.flow == Flow::add);
  reorder_scratchpads_.push_back(nowhere(description.scratchpad_desc(), scope_->engine()));
  passage.reorder = {dnnl::reorder(description),
                     {{DNNL_ARG_FROM, from.get()},
                      {DNNL_ARG_TO, to.get()},
                      {DNNL_ARG_SCRATCHPAD, reorder_scratchpads_.back().get()}}};
}

void Operation::execute(const Step& step) {
  check(dnnl_primitive_execute(step.primitive.get(), scope_->stream().get(),
                               static_cast<int>(step.arguments.size()), step.arguments.data()),
        "dnnl_primitive_execute");
}

void Operation::run(std::initializer_list<const void*> addresses) {
  require(made() && addresses.size() == passages_.size(), "an operation takes ", passages_.size(),
          " addresses, got ", addresses.size());
  scope_->set_threads();
  std::byte* const scratch = scope_->scratch();
  point(scratchpad_, scratch);
  for (const dnnl::memory& scratchpad : reorder_scratchpads_) point(scratchpad, scratch);
  const void* const* address = addresses.begin();
  for (const Passage& passage : passages_) {
    point(passage.kept, *address++);
    if (passage.reordered) point(passage.inner, scratch + passage.offset);
  }
  for (const Passage& passage : passages_) {
    if (passage.reordered && passage.flow == Flow::in) execute(passage.reorder);
  }
  execute(step_);
  for (const Passage& passage : passages_) {
    if (passage.reordered && passage.flow != Flow::in) execute(passage.reorder);
  }
  check(dnnl_stream_wait(scope_->stream().get()), "dnnl_stream_wait");
}

}  // namespace flotilla
