// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include "kernels/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla::report {

/// Lines of metrics.jsonl as a run writes them, with what the tests need.
inline std::string start_line(int first_step, double time) {
  return cat(R"({"event":"start","time":)", time, R"(,"deck":"d.toml","workers":2,"hosts":1,"steps":100,)",
             R"("steps_per_epoch":10,"first_step":)", first_step,
             R"(,"global_batch_size":64,"parameters":5,"device":"cpu","all_reduce":"flat"})", "\n");
}
inline std::string step_line(int step, double time, const std::string& loss, const std::string& more = "") {
  return cat(
      R"({"event":"step","time":)", time, R"(,"step":)", step, R"(,"epoch":)", (step - 1) / 10,
      R"(,"batch":)", (step - 1) % 10 + 1, R"(,"loss":)", loss,
      R"(,"learning_rate":0.1,"samples_per_s":640,"step_s":0.1,"exposed_comm_s":0.025,"input_wait_s":0.01,)",
      R"("forward_s":0.02,"backward_s":0.03,"optimizer_s":0.005,"sent_bytes":100,"memory_bytes":1000)", more,
      "}\n");
}
inline std::string validation_line(int step, double time, double accuracy) {
  return cat(R"({"event":"validation","time":)", time, R"(,"step":)", step, R"(,"epoch":0,"loss":)",
             1 - accuracy, R"(,"accuracy_top1":)", accuracy, R"(,"accuracy_top5":1,"samples":10})", "\n");
}

/// Writes a file of a run's folder.
inline void write_into(const test::TemporaryFolder& folder, const std::string& name,
                       const std::string& text) {
  std::ofstream(folder.path(name), std::ios::binary) << text;
}

}  // namespace flotilla::report
