// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/error.hpp"
#include "src/parameter_server/protocol/control_messages.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// What workers and servers send each other. A malformed message is an error of the program: it ends the job,
// and must not do anything else.

namespace flotilla::fuzz {

namespace {

template <class Read>
void refused_or_read(Read read) {
  try {
    read();
    note_read();
  } catch (const InternalError&) {              // NOLINT(bugprone-empty-catch): refused
  } catch (const nlohmann::json::exception&) {  // NOLINT(bugprone-empty-catch): refused
  } catch (const std::out_of_range&) {          // NOLINT(bugprone-empty-catch): a word for a number
  }
}

/// The input aligned to 8 bytes, like a buffer for messages.
class Message {
 public:
  explicit Message(Input input) : words_((input.size() + 7) / 8), size_(input.size()) {
    if (!input.empty()) std::memcpy(words_.data(), input.data(), input.size());
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)).first(size_); }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

/// A request for rows of tables of width 4 and 10, in all wires, and a server's handling of it.
void row_request(Input input) {
  const Message message(input);
  const std::array<SparseTableSpec, 2> specs{SparseTableSpec{.width = 4, .rule = {rules::Adam{}}},
                                             SparseTableSpec{.width = 10, .rule = {rules::Sgd{}}}};
  for (const mpi::Wire wire : {mpi::Wire::float32, mpi::Wire::float16, mpi::Wire::bfloat16}) {
    RowTables tables(specs, wire);
    refused_or_read([&] { tables.apply(std::array{message.bytes(), message.bytes()}, 0.1F, 0.5F, 1); });
    std::vector<float> reply(4 * (input.size() % 8));
    refused_or_read([&] { tables.answer(message.bytes(), std::as_writable_bytes(std::span(reply))); });
  }
}

void commands(Input input) {
  const std::string text = text_of(input);
  refused_or_read([&] { save_command_from(text); });
  refused_or_read([&] { save_reply_from(text); });
  refused_or_read([&] {
    const ServePlan plan = plan_from(text);
    shares_of(plan, place(plan, {}, 2), {0, 1});
  });
}

}  // namespace

std::vector<Target> message_targets() {
  return {{"row_request", row_request}, {"commands", commands}};
}

}  // namespace flotilla::fuzz
