// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/train/model_kinds.hpp"

namespace flotilla {

/// The whole of Flotilla, with models of one's own beside those that come along: a program of a user's hands
/// its arguments over and returns what this returns, the exit code. All commands know the models. Call it
/// first in main, once, before any thread is started: it may start the program anew in its place
/// (kernels/openmp_waiting.hpp), so that what main did before happens twice. It initialises and finalises
/// MPI.
int run(int argc, char** argv, std::vector<ModelKind> own_models = {});

}  // namespace flotilla
