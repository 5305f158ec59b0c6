// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "src/commands/evaluate.hpp"

namespace flotilla {
namespace {

TEST(ClassTable, CountsWhatSamplesOfEachClassAreTakenFor) {
  ClassTable table(3, {"cat", "dog", "hat"}, true);
  const std::array<float, 12> rows = {2, 1, 0, /**/ 0, 5, 5, /**/ 1, 0, 0, /**/ 0, 0, 1};
  const std::array<std::int32_t, 4> labels = {0, 1, 1, 1};

  table.add(rows, labels);

  EXPECT_EQ(table.count(1, 0), 1);
  EXPECT_EQ(table.count(1, 1), 1);  // the lower of equal outputs
  EXPECT_EQ(table.count(1, 2), 1);
  EXPECT_EQ(table.lines(), (std::vector<std::string>{"   class   samples     top-1  precision",
                                                     "       0         1   1.00000    0.50000  cat",
                                                     "       1         3   0.33333    1.00000  dog",
                                                     "       2         0         -    0.00000  hat"}));
  EXPECT_EQ(table.matrix_lines(),
            (std::vector<std::string>{"confusion   rows: true classes, columns: predicted ones",
                                      "   class  0  1  2", "       0  1  0  0  cat", "       1  1  1  1  dog",
                                      "       2  0  0  0  hat"}));
}

TEST(ClassTable, CountsNoMatrixOfManyClasses) {
  EXPECT_FALSE(ClassTable(ClassTable::max_for_matrix + 1, {}, true).has_matrix());
  EXPECT_FALSE(ClassTable(3, {}, false).has_matrix());
}

}  // namespace
}  // namespace flotilla
