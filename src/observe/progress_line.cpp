// SPDX-License-Identifier: Apache-2.0
#include "src/observe/progress_line.hpp"

#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

constexpr std::chrono::milliseconds first_shown_after{500};
constexpr std::chrono::milliseconds between_renewals{200};

std::string amount_text(std::int64_t amount, Amount kind) {
  return kind == Amount::bytes ? bytes_text(amount) : cat(amount);
}

}  // namespace

ProgressLine::ProgressLine(std::string what, std::int64_t total, Amount amount)
    : what_(std::move(what)),
      total_(total),
      amount_(amount),
      shows_(Console::of_process().columns() > 0),
      next_(began_ + first_shown_after) {}

ProgressLine::~ProgressLine() {
  if (shown_) Console::of_process().erase_bar();
}

void ProgressLine::renew(std::int64_t done) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + between_renewals;
  shown_ = true;
  Console& console = Console::of_process();
  std::vector<std::string> fields{what_};
  if (total_ <= 0) {
    console.bar(cat(what_, ", ", amount_text(done, amount_)));
    return;
  }
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  if (done > 0) {
    const double elapsed_s = std::chrono::duration<double>(now - began_).count();
    fields.push_back(duration_text(elapsed_s * (1.0 - share) / share) + " left");
  }
  fields.push_back(cat(amount_text(done, amount_), " of ", amount_text(total_, amount_)));
  console.bar(line_with_bar(share, fields, console.columns()));
}

}  // namespace flotilla
