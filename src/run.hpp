// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/train/model_kinds.hpp"

namespace flotilla {

/// Runs the program flotilla with additional models: a user's main() passes its arguments and returns the
/// result, the exit code. All commands accept the models. Call it first in main, once, before any thread is
/// started: it may replace the process by a new start of the program (kernels/openmp_waiting.hpp), so that
/// earlier statements of main run twice. It initialises and finalises MPI.
int run(int argc, char** argv, std::vector<ModelKind> own_models = {});

}  // namespace flotilla
