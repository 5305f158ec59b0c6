// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/data/augmentation.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// The samples of `images` (C,H,W), each changed at random as `spec` says, as a function of its variation: as
/// bytes and as floats to the same bits. What is erased becomes the byte nearest to the mean, what moves in
/// becomes 0, before both are scaled. @param scaling of bytes to the values of a sample
std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> images, const AugmentationSpec& spec,
                                   const ByteScaling& scaling);

}  // namespace flotilla
