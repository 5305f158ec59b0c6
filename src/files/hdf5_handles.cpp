// SPDX-License-Identifier: Apache-2.0
#include "src/files/hdf5_handles.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <string_view>
#include <vector>

#include "src/files/file.hpp"

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

/// The file of this thread's innermost Session; null: there is no session, or it reads no file.
thread_local const SessionFile* file_being_read = nullptr;

/// The sentence about the link into another file that this thread did not follow last; empty: there was none.
thread_local std::string refused_link;

herr_t refuse_link(const char* from, const char* /*group*/, const char* file, const char* object,
                   unsigned* /*flags*/, hid_t /*access*/, void* /*data*/) {
  try {
    refused_link = cat("'", from, "' has a link to ", object, " in another file, '", file,
                       "', and links into other files are not followed; h5repack --merge OLD NEW copies what "
                       "they name into one file");
  } catch (const std::bad_alloc&) {  // no exception may pass through HDF5
    refused_link.clear();
  }
  return -1;
}

constexpr std::array crashes{SIGFPE, SIGSEGV};
std::array<struct sigaction, crashes.size()> actions_before{};

/// HDF5 cannot go on then, nor be asked to close the file. Any other crash happens again, as without a
/// handler.
void end_at_crash(int number, siginfo_t* what, void*) {
  const bool sent = what->si_code <= 0;  // by a process
  if (file_being_read == nullptr || sent) {
    const auto index = static_cast<std::size_t>(std::ranges::find(crashes, number) - crashes.begin());
    ::sigaction(number, &actions_before[index], nullptr);
    if (sent) ::raise(number);
    return;
  }
  write_fully(STDERR_FILENO, file_being_read->text_at_crash);
  ::_exit(exit_user_error);
}

/// Gives this thread's handlers a stack of their own: HDF5 may have used up the thread's.
void give_handlers_a_stack() {
  thread_local std::vector<std::byte> memory;
  stack_t stack{};
  if (!memory.empty() || ::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  memory.resize(static_cast<std::size_t>(SIGSTKSZ));
  stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  ::sigaltstack(&stack, nullptr);
}

bool handle_crashes() {
  struct sigaction action {};
  action.sa_sigaction = end_at_crash;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  for (std::size_t i = 0; i < crashes.size(); ++i)
    if (::sigaction(crashes[i], &action, &actions_before[i]) != 0) return false;
  return true;
}

}  // namespace

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check(H5get_libversion(&major, &minor, &release), "H5get_libversion");
  return cat(major, ".", minor, ".", release);
}

std::string last_error() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text) < 0 || text.empty()) return "no reason given";
  std::ranges::replace(text, '\n', ' ');  // HDF5 puts a line feed after the time of a failed write
  return text;
}

void fail(const char* call, std::source_location at) {
  if (const std::string reason = reason_of_system(); !reason.empty()) throw SystemRefusal(call, reason, at);
  if (const std::string link = std::exchange(refused_link, {}); !link.empty()) throw NotRead(link);
  const std::string reason = last_error();
  if (file_being_read != nullptr && reason.find("version") != std::string::npos)
    throw NotRead(
        cat("'", file_being_read->name, "' is of a newer HDF5 format than HDF5 ", library_version(),
            " reads, with which Flotilla was built (", reason,
            "); python3 scripts/rewrite_hdf5.py OLD NEW (needs h5py) writes it in the oldest format, as "
            "h5py does without libver=\"latest\""));
  throw LibraryError(call, reason, at);
}

File open_to_read(const std::string& path) {
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

std::vector<Filter> filters_of(hid_t creation) {
  std::vector<Filter> filters;
  const int count = check(H5Pget_nfilters(creation), "H5Pget_nfilters");
  for (int k = 0; k < count; ++k) {
    std::array<char, 64> name{};
    std::size_t values = 0;
    unsigned flags = 0;
    unsigned config = 0;
    const H5Z_filter_t id = check(H5Pget_filter2(creation, static_cast<unsigned>(k), &flags, &values, nullptr,
                                                 name.size(), name.data(), &config),
                                  "H5Pget_filter2");
    name.back() = '\0';
    filters.push_back({id, name.data()});
  }
  return filters;
}

std::string remedy_of(const Filter& filter) {
  // h5repack leaves an array out, and ends with 0, where it lacks the filter.
  return H5Zfilter_avail(filter.id) > 0
             ? "h5repack -f SHUF -f GZIP=4 OLD NEW rewrites the file"
             : "python3 scripts/rewrite_hdf5.py OLD NEW rewrites the file (it needs h5py, "
               "and hdf5plugin for other filters than lzf)";
}

PropertyList within_the_file(hid_t property_class) {
  PropertyList access(H5Pcreate(property_class), "H5Pcreate");
  check(H5Pset_elink_cb(access.id(), refuse_link, nullptr), "H5Pset_elink_cb");
  return access;
}

herr_t NameList::add(const char* name) noexcept {
  try {
    names_.emplace_back(name);
    return 0;
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;
    return -1;
  }
}

std::vector<std::string> NameList::take(herr_t result, const char* call) {
  if (out_of_memory_) throw std::bad_alloc();
  check(result, call);
  return std::move(names_);
}

Session::Session() : Session(std::string()) {}

Session::Session(const std::string& file) : lock_(library_mutex()), outer_(file_being_read) {
  if (!file.empty())
    file_ = {file, cat("flotilla: '", file,
                       "' is damaged: HDF5 crashes in it; copy or write it again, or remove it\n")};
  // At the end of the process HDF5 would close again what it failed to close, and touch memory that is freed.
  static const herr_t left_alone = H5dont_atexit();
  // HDF5 would load plugins for filters that it does not know. A build without plugins returns an error here,
  // which is as good.
  static const herr_t loads_nothing = H5PLset_loading_state(0);
  static_cast<void>(loads_nothing);
  static const bool handled = handle_crashes();
  require(handled, "SIGFPE and SIGSEGV cannot be handled");
  check(left_alone, "H5dont_atexit");
  check(H5open(), "H5open");
  check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
  give_handlers_a_stack();
  file_being_read = file.empty() ? nullptr : &file_;
}

Session::~Session() {
  file_being_read = outer_;
  refused_link.clear();
  H5Eclear2(H5E_DEFAULT);
}

}  // namespace flotilla::hdf5
