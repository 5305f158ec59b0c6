// SPDX-License-Identifier: Apache-2.0
#include "src/data/mistake_list.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_kept = 10;

}  // namespace

std::string MistakeList::Kept::told() const {
  return times == 1 ? text : cat(text, " (and ", times - 1, " more like it)");
}

void MistakeList::add(const std::string& text, const std::string& kind) {
  if (count_another(kind)) return;
  ++count_;
  if (keeps_more()) kept_.push_back({.text = text, .kind = kind});
}

bool MistakeList::count_another(const std::string& kind, std::int64_t times) {
  const auto same = std::ranges::find(kept_, kind, &Kept::kind);
  if (kind.empty() || same == kept_.end()) return false;
  same->times += times;
  count_ += times;
  return true;
}

void MistakeList::attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const UserError& error) {
    add(error.what());
  }
}

void MistakeList::add(const MistakeList& more) {
  count_ += more.count_;
  for (const Kept& mistake : more.kept_)
    if (count_another(mistake.kind, mistake.times)) {
      count_ -= mistake.times;  // counted above
    } else if (keeps_more()) {
      kept_.push_back(mistake);
    }
}

bool MistakeList::keeps_more() const {
  return kept_.size() < max_kept;
}

void MistakeList::throw_if_any(const std::string& of) const {
  if (empty()) return;
  std::int64_t others = count_;
  std::string text = cat(of, ": ", count_, " mistakes:");
  for (const Kept& mistake : kept_) {
    text += "\n  " + mistake.told();
    others -= mistake.times;
  }
  if (others > 0) text += cat("\n  and ", others, " more");
  throw UserError(kept_.size() == 1 && others == 0 ? kept_.front().told() : text);
}

}  // namespace flotilla
