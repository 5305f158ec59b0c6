// SPDX-License-Identifier: Apache-2.0
#include "src/files/hdf5_handles.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "src/files/write_fully.hpp"

namespace flotilla::hdf5 {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Called with the innermost entry first; that one says most.
herr_t take_first(unsigned, const H5E_error2_t* entry, void* text) {
  auto& first = *static_cast<std::string*>(text);
  if (first.empty() && entry->desc != nullptr) first = entry->desc;
  return 0;
}

/// The system's reason in an entry of HDF5's file driver, "…, errno = 5, error message = 'Input/output
/// error', …"; of lstat() HDF5 keeps no reason.
herr_t take_reason(unsigned, const H5E_error2_t* entry, void* reason) {
  constexpr std::string_view mark = "error message = '";
  const std::string_view text = entry->desc == nullptr ? "" : entry->desc;
  auto& found = *static_cast<std::string*>(reason);
  if (const std::size_t begin = text.find(mark); begin != std::string_view::npos) {
    const std::string_view rest = text.substr(begin + mark.size());
    found = rest.substr(0, rest.find('\''));
  } else if (text.starts_with("can't retrieve stat info")) {
    found = text;
  }
  return found.empty() ? 0 : 1;  // 1 ends the walk
}

/// Why the system refused what failed last; empty: it was not the system.
std::string reason_of_system() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, &reason);
  return reason;
}

/// "'train.h5' is damaged: …" of the file that was opened last: a handler of signals may not make it.
std::array<char, 4400> division_text{};
thread_local int sessions = 0;

void set_division_text(const std::string& path) {
  const std::string text =
      cat("flotilla: '", path, "' is damaged: HDF5 divides by zero in it; copy or write it again\n");
  division_text.fill('\0');
  std::ranges::copy(text.substr(0, division_text.size() - 1), division_text.begin());
}

/// HDF5 1.10 divides by a chunk's size, which may be 0 in a damaged file. It cannot go on then, nor be asked
/// to close the file.
void end_at_division(int number) {
  if (sessions == 0) {
    ::signal(number, SIG_DFL);  // it was another division, which is made again
    return;
  }
  write_fully(STDERR_FILENO, division_text.data());
  ::_exit(exit_user_error);
}

bool handle_divisions() {
  struct sigaction action {};
  action.sa_handler = end_at_division;
  return ::sigaction(SIGFPE, &action, nullptr) == 0;
}

}  // namespace

std::string last_error() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text) < 0 || text.empty()) return "no reason given";
  std::ranges::replace(text, '\n', ' ');  // behind the time of a failed write
  return text;
}

void fail(const char* call, std::source_location at) {
  if (const std::string reason = reason_of_system(); !reason.empty()) throw SystemRefusal(call, reason, at);
  throw LibraryError(call, last_error(), at);
}

File open_to_read(const std::string& path) {
  set_division_text(path);
  PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
  check(H5Pset_file_locking(access.id(), false, true), "H5Pset_file_locking");
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), "H5Fopen"};
}

bool lies_in_other_files(hid_t creation) {
  return H5Pget_layout(creation) == H5D_VIRTUAL ||
         check(H5Pget_external_count(creation), "H5Pget_external_count") > 0;
}

bool is_cut_short(hid_t dataset, hid_t creation, std::int64_t bytes) {
  return H5Pget_layout(creation) == H5D_COMPACT &&
         static_cast<std::int64_t>(H5Dget_storage_size(dataset)) < bytes;
}

PropertyList within_the_file(hid_t property_class) {
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t,
                         void*) -> herr_t { return -1; };
  PropertyList access(H5Pcreate(property_class), "H5Pcreate");
  check(H5Pset_elink_cb(access.id(), refuse, nullptr), "H5Pset_elink_cb");
  return access;
}

Session::Session() : lock_(library_mutex()) {
  // At the end of the process HDF5 would close again what it failed to close, and touch memory that is freed.
  static const herr_t left_alone = H5dont_atexit();
  static const bool handled = handle_divisions();
  require(handled, "SIGFPE cannot be handled");
  check(left_alone, "H5dont_atexit");
  check(H5open(), "H5open");
  check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
  ++sessions;
}

Session::~Session() {
  --sessions;
  H5Eclear2(H5E_DEFAULT);
}

}  // namespace flotilla::hdf5
