// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla::test {

/// A tensor of float values, row-major.
struct OnnxValues {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::int64_t size() const;
};

onnx::ModelProto read_onnx(const std::string& path);

/// The output of a model, by plain loops in double, as the ONNX operator specification (opset 17) says.
/// @throws std::runtime_error for operators and attributes that it does not know
OnnxValues evaluate(const onnx::ModelProto& model, const OnnxValues& input);

}  // namespace flotilla::test
