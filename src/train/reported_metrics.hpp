// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/observe/reporter.hpp"
#include "src/train/evaluation.hpp"

namespace flotilla {

/// Puts the metrics of an evaluation into a report: those that the model has, the loss apart.
void put_metrics(const Evaluation& evaluation, ValidationReport& report);

/// Puts the loss and the metrics of an evaluation of the averaged weights into a report.
void put_average(const Evaluation& evaluation, ValidationReport& report);

}  // namespace flotilla
