// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/data/dataset.hpp"

namespace flotilla {

/// The data set that `open` opens, of copies below `folder`; its messages about bad files also name the
/// original.
std::unique_ptr<Dataset> open_staged(const std::string& folder,
                                     const std::function<std::unique_ptr<Dataset>()>& open);

}  // namespace flotilla
