// SPDX-License-Identifier: Apache-2.0
#include "tests/data/shards/tar_bytes.hpp"

#include <cstdio>

namespace flotilla::test {

namespace {

std::string octal(std::uint64_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

std::string tar_member(const std::string& name, const std::string& contents, const TarForm& form) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(108, "0001750");
  put(116, "0001750");
  put(124, form.size.empty() ? octal(contents.size(), 11) : form.size);
  put(136, "14500000000");
  put(148, "        ");
  put(156, std::string(1, form.type));
  put(257, form.gnu ? std::string("ustar  ") : std::string("ustar\00000", 8));
  put(265, "user");
  put(345, form.prefix);
  unsigned sum = form.damaged ? 1 : 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  std::string padded = contents;
  padded.resize((contents.size() + 511) / 512 * 512, '\0');
  return block + padded;
}

std::string pax_header(const std::string& key, const std::string& value) {
  const std::string record = " " + key + "=" + value + "\n";
  std::size_t length = record.size();
  while (std::to_string(length).size() + record.size() != length) ++length;
  return tar_member("./PaxHeaders/x", std::to_string(length) + record, {.type = 'x'});
}

std::string gnu_long_name(const std::string& name) {
  return tar_member("././@LongLink", name + std::string(1, '\0'), {.type = 'L', .gnu = true});
}

std::string gnu_size(std::uint64_t bytes) {
  std::string field(12, '\0');
  field[0] = '\x80';
  for (std::size_t k = 11; k > 3; --k, bytes >>= 8) field[k] = static_cast<char>(bytes & 0xFF);
  return field;
}

std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace flotilla::test
