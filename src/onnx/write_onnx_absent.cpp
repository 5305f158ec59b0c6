// SPDX-License-Identifier: Apache-2.0
// For builds without ONNX.
#include "src/onnx/model_graph.hpp"

#include "kernels/error.hpp"

namespace flotilla {

void check_onnx() {
  throw UserError(
      "this build cannot write ONNX files: install libonnx-dev and libprotobuf-dev (scripts/setup.sh does), "
      "configure and build again, or export to a file that ends in .h5");
}

void write_onnx(const std::string& /*path*/, const OnnxGraph& /*graph*/, const std::string& /*version*/) {
  check_onnx();
}

}  // namespace flotilla
