// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/onnx_faults.hpp"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <exception>

namespace flotilla::test {

std::string onnx_faults(const onnx::ModelProto& model) {
  constexpr bool check_types = true;
  constexpr int strict = 1;
  try {
    onnx::checker::check_model(model);
    onnx::ModelProto inferred = model;
    onnx::shape_inference::InferShapes(inferred, onnx::OpSchemaRegistry::Instance(), {check_types, strict});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace flotilla::test
