// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// The runs as the JSON that the page's script draws, in one line. No "<" is in it, so that no text of a run
/// can end the element that holds it.
std::string page_data(const std::vector<RunRecord>& runs);

/// A page that needs no other file and no network.
std::string page_of(const std::vector<RunRecord>& runs);

}  // namespace flotilla::report
