// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace flotilla::test {

/// What ONNX's own checker and its strict inference of shapes have against a model; empty: nothing.
std::string onnx_faults(const onnx::ModelProto& model);

}  // namespace flotilla::test
