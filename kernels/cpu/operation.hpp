// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/cpu/primitive_scope.hpp"

namespace flotilla {

enum class Flow { in, out, add };  ///< `add`: what the primitive writes is added to what is there.

/// An argument of a primitive: the caller's layout and the primitive's.
struct Argument {
  int argument = 0;
  dnnl::memory::desc kept;
  dnnl::memory::desc wanted;
  Flow flow = Flow::in;
};

/// A primitive, and reorders through scratch memory for operands whose layout differs from the primitive's.
/// All is made in the constructor; run() takes addresses only.
class Operation {
 public:
  Operation() = default;  ///< Nothing to run.
  /// @throws LibraryError
  Operation(std::shared_ptr<PrimitiveScope> scope, const dnnl::primitive& primitive,
            const dnnl::memory::desc& scratchpad, const std::vector<Argument>& operands);
  bool made() const { return scope_ != nullptr; }
  /// Addresses in the order of the operands. @throws LibraryError
  void run(std::initializer_list<const void*> addresses);

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  struct Passage {
    dnnl::memory kept;
    dnnl::memory inner;      // where the primitive reads or writes: `kept` itself unless reordered
    std::size_t offset = 0;  // of inner, in the scratch memory
    bool reordered = false;
    Flow flow = Flow::in;
    Step reorder;
  };
  void execute(const Step& step);
  void add_reorder(Passage& passage, const Argument& operand);

  std::shared_ptr<PrimitiveScope> scope_;
  std::vector<Passage> passages_;
  dnnl::memory scratchpad_;
  std::vector<dnnl::memory> reorder_scratchpads_;
  Step step_;
};

}  // namespace flotilla
