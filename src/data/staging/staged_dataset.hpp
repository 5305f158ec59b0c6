// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/data/dataset.hpp"

namespace flotilla {

/// The data set that `open` opens, of copies below `folder`: whatever it says of a bad file, it also says
/// where the original is.
std::unique_ptr<Dataset> open_staged(const std::string& folder,
                                     const std::function<std::unique_ptr<Dataset>()>& open);

}  // namespace flotilla
