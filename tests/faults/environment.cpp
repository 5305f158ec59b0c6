// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/environment.hpp"

#include <cstdlib>
#include <sstream>
#include <string>

namespace flotilla::test {

void complete_environment() {
  std::istringstream variables(ENVIRONMENT_OF_TESTS);
  std::string variable;
  while (std::getline(variables, variable, ' ')) {
    const std::size_t sign = variable.find('=');
    setenv(variable.substr(0, sign).c_str(), variable.substr(sign + 1).c_str(), 0);
  }
}

}  // namespace flotilla::test
