// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"
#include "src/parameter_server/protocol/save_messages.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// What workers and servers send each other. A malformed message is an error of the program: it ends the job,
// and must not do anything else.

namespace flotilla::fuzz {

namespace {

template <class Read>
void refused_or_read(Read read) {
  try {
    read();
  } catch (const InternalError&) {              // NOLINT(bugprone-empty-catch): refused
  } catch (const nlohmann::json::exception&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// A request for rows, for tables of width 4 and 10, in all wires.
void row_request(Input input) {
  std::vector<std::uint64_t> aligned((input.size() + 7) / 8);
  if (!input.empty()) std::memcpy(aligned.data(), input.data(), input.size());
  const auto request = std::as_bytes(std::span(aligned)).first(input.size());
  const std::array<std::size_t, 2> widths{4, 10};
  for (const mpi::Wire wire : {mpi::Wire::float32, mpi::Wire::float16, mpi::Wire::bfloat16}) {
    refused_or_read([&] {
      std::uint64_t sum = 0;
      RowRequestReader reader(request, widths, wire);
      while (const auto section = reader.next()) {
        for (const std::uint64_t key : section->keys) sum += key;
        for (const std::byte value : section->values) sum += static_cast<std::uint64_t>(value);
      }
      if (sum == 1) refused_or_read([] {});  // the sums are needed
    });
  }
}

void commands(Input input) {
  const std::string text = text_of(input);
  refused_or_read([&] { save_command_from(text); });
  refused_or_read([&] { save_reply_from(text); });
  refused_or_read([&] { plan_from(text); });
}

}  // namespace

std::vector<Target> message_targets() {
  return {{"row_request", row_request}, {"commands", commands}};
}

}  // namespace flotilla::fuzz
