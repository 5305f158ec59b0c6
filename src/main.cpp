// SPDX-License-Identifier: Apache-2.0
#include "src/run.hpp"

int main(int argc, char** argv) {
  return flotilla::run(argc, argv);
}
