// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace flotilla::report {

/// The files of page/, which the build puts into the program. The page has places for the others:
/// "/*style*/",
/// "/*script*/" and "/*data*/", the last one for page_data().
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace flotilla::report
