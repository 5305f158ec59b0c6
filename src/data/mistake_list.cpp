// SPDX-License-Identifier: Apache-2.0
#include "src/data/mistake_list.hpp"

#include <algorithm>
#include <sstream>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t most_kept = 10;

}  // namespace

void MistakeList::add(const std::string& text) {
  ++count_;
  if (keeps_more()) kept_.push_back(text);
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
  for (const std::string& text : more.kept_)
    if (keeps_more()) kept_.push_back(text);
}

bool MistakeList::keeps_more() const {
  return kept_.size() < most_kept;
}

void MistakeList::throw_if_any(const std::string& of) const {
  if (empty()) return;
  if (count_ == 1) throw UserError(kept_.front());
  std::string text = cat(of, ": ", count_, " mistakes:");
  for (const std::string& mistake : kept_) text += "\n  " + mistake;
  if (count_ > std::ssize(kept_)) text += cat("\n  and ", count_ - std::ssize(kept_), " more");
  throw UserError(text);
}

std::string MistakeList::serialised() const {
  std::string text = cat(count_, '\n');
  for (const std::string& mistake : kept_) text += mistake + '\n';
  return text;
}

MistakeList MistakeList::of_serialised(const std::string& text) {
  std::istringstream lines(text);
  MistakeList list;
  lines >> list.count_;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) list.kept_.push_back(line);
  return list;
}

}  // namespace flotilla
