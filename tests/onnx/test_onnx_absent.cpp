// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/onnx/model_graph.hpp"

namespace flotilla {
namespace {

TEST(OnnxAbsent, SaysWhatToInstall) {
  try {
    check_onnx();
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "this build cannot write ONNX files: install libonnx-dev and libprotobuf-dev (scripts/setup.sh "
        "does), configure and build again, or export to a file that ends in .h5");
  }
  EXPECT_THROW(write_onnx("model.onnx", {}, "test"), UserError);
}

}  // namespace
}  // namespace flotilla
