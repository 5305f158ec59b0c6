// SPDX-License-Identifier: Apache-2.0
// Files of ONNX under ONNX's own checker, and what is refused.
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/onnx/model_graph.hpp"
#include "tests/onnx/evaluate_onnx.hpp"
#include "tests/onnx/onnx_faults.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

/// relu(x · wᵀ) of four values each.
OnnxGraph small_graph() {
  return {.name = "mlp",
          .input = {.name = "input", .sample = {4}},
          .output = {.name = "logits", .sample = {2}},
          .nodes = {{.operation = "Gemm",
                     .inputs = {"input", "weight"},
                     .output = "product",
                     .attributes = {{"transB", std::int64_t{1}}}},
                    {.operation = "Relu", .inputs = {"product"}, .output = "logits"}},
          .tensors = {{.name = "weight", .shape = {2, 4}, .values = {1, 2, 3, 4, 5, 6, 7, -8.5F}}},
          .metadata = {{"labels", "[\"cat\",\"dog\"]"}}};
}

TEST(WriteOnnx, SatisfiesTheCheckerAndKeepsEveryPart) {
  const test::TemporaryFolder folder;
  write_onnx(folder.path("model.onnx"), small_graph(), "0.1.0");
  const onnx::ModelProto model = test::read_onnx(folder.path("model.onnx"));

  EXPECT_EQ(test::onnx_faults(model), "");
  EXPECT_EQ(model.ir_version(), 8);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).domain(), "");
  EXPECT_EQ(model.opset_import(0).version(), 17);
  EXPECT_EQ(model.producer_name() + " " + model.producer_version(), "flotilla 0.1.0");
  EXPECT_EQ(model.metadata_props(0).key() + model.metadata_props(0).value(), "labels[\"cat\",\"dog\"]");
  const auto& shape = model.graph().input(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).dim_param(), "N");
  EXPECT_EQ(shape.dim(1).dim_value(), 4);
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  float last = 0.0F;
  std::memcpy(&last, model.graph().initializer(0).raw_data().data() + 28, sizeof last);
  EXPECT_EQ(last, -8.5F);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.onnx"});
}

TEST(WriteOnnx, IsNotBelievedByTheCheckerWhereShapesDoNotFit) {
  const test::TemporaryFolder folder;
  OnnxGraph graph = small_graph();
  graph.output.sample = {3};
  write_onnx(folder.path("model.onnx"), graph, "0.1.0");
  EXPECT_NE(test::onnx_faults(test::read_onnx(folder.path("model.onnx"))), "");
}

TEST(WriteOnnx, RefusesMoreValuesThanAFileHolds) {
  const test::TemporaryFolder folder;
  OnnxGraph graph = small_graph();
  graph.tensors.push_back({.name = "large", .shape = {1 << 15, 1 << 14}, .values = {}});
  try {
    write_onnx(folder.path("model.onnx"), graph, "0.1.0");
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(),
              folder.path("model.onnx") +
                  ": the model has 2048 MiB of values, and a file of ONNX holds less than 2 GiB; "
                  "export to a file that ends in .h5");
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace flotilla
