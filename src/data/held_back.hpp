// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/data/dataset.hpp"

namespace flotilla {

/// The parts into which data.validation.share divides the training samples.
enum class SamplePart { training, held_back };

/// The numbers of the samples of a part, ascending: held back are the share × samples, rounded, at least one
/// and not all, whose hash of the number is smallest. A pure function: the seed of the hash is fixed, so that
/// neither run.seed nor the ranks change it, and samples that are appended to the data move few others.
/// @throws UserError for a single sample, which cannot be divided
std::vector<std::int64_t> samples_of_part(std::int64_t samples, double share, SamplePart part);

/// The samples of a part as a data set of their own. What is known of all samples (classes, scaling of bytes)
/// stays that of all.
std::unique_ptr<Dataset> part_of_dataset(std::unique_ptr<Dataset> all, double share, SamplePart part);

}  // namespace flotilla
