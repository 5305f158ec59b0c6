// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla::hdf5 {

/// A call of HDF5 that failed because the system refused one of its own.
struct SystemRefusal : LibraryError {
  SystemRefusal(const char* call, std::string why, std::source_location at)
      : LibraryError(call, why, at), reason(std::move(why)) {}
  std::string reason;  ///< "Input/output error"
};

/// A good file asks for something that HDF5 does not do here. The text names the file and a remedy.
struct NotRead : UserError {
  using UserError::UserError;
};

std::string library_version();  ///< "1.10.8". A Session is held.

/// The text of HDF5's error stack of this thread, from the innermost call: "truncated file: eof = 96 …".
std::string last_error();

/// @returns `result`. @throws if it is negative: SystemRefusal; NotRead for a link that within_the_file()
/// does not follow and for a format that is newer than the library; otherwise LibraryError with HDF5's own
/// text.
template <class Result>
Result check(Result result, const char* call, std::source_location at = std::source_location::current());

[[noreturn]] void fail(const char* call, std::source_location at);

template <class Result>
Result check(Result result, const char* call, std::source_location at) {
  if (result < 0) fail(call, at);
  return result;
}

/// One of HDF5's identifiers, closed at the end.
template <herr_t (*close_call)(hid_t)>
class Handle {
 public:
  Handle(hid_t id, const char* call, std::source_location at = std::source_location::current())
      : id_(check(id, call, at)) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_call(id_);
  }
  hid_t id() const { return id_; }
  /// Closes it and reports errors that the destructor would ignore.
  void close(const char* call) { check(close_call(std::exchange(id_, H5I_INVALID_HID)), call); }

 private:
  hid_t id_;
};

using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Dataset = Handle<H5Dclose>;
using Attribute = Handle<H5Aclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using PropertyList = Handle<H5Pclose>;
using Object = Handle<H5Oclose>;

/// Opens a file that is finished: no lock, which fails on network file systems; closing it closes what was
/// opened of it.
File open_to_read(const std::string& path);

/// Whether values of the dataset with these creation properties lie in other files.
bool lies_in_other_files(hid_t creation);

/// Whether a dataset with these creation properties is compact, its values in its header, and has fewer than
/// `bytes` there: HDF5 would read past them, or at address 0.
bool is_cut_short(hid_t dataset, hid_t creation, std::int64_t bytes);

/// A filter applied to the chunks of a dataset when they were written.
struct Filter {
  H5Z_filter_t id = 0;
  std::string name{};  ///< Empty: HDF5 has none for it
};

/// The command that rewrites a file with a filter that cannot be read here: "h5repack -f SHUF …".
std::string remedy_of(const Filter& filter);

/// The command that rewrites a file whose values lie in other files, or in a layout that cannot be read here.
inline constexpr const char* contiguous_remedy = "h5repack -l CONTI OLD NEW writes them into one file";

/// The filters of a dataset with these creation properties, in the order of writing.
std::vector<Filter> filters_of(hid_t creation);

/// Access properties of a class (H5P_DATASET_ACCESS …) with which HDF5 follows no link into another file: a
/// file from other people must not cause others to be read, and the positions of datasets must refer to this
/// file.
PropertyList within_the_file(hid_t property_class);

/// Names that HDF5 hands to a callback, which no exception may leave.
class NameList {
 public:
  /// @returns what the callback returns: 0, or −1, with which HDF5's call fails, where memory is lacking
  herr_t add(const char* name) noexcept;
  /// The names in the order of add(). @param result of HDF5's call. @throws std::bad_alloc, or as check().
  std::vector<std::string> take(herr_t result, const char* call);

 private:
  std::vector<std::string> names_;
  bool out_of_memory_ = false;
};

/// The file that a Session reads; empty: none.
struct SessionFile {
  std::string name{};
  std::string text_at_crash{};
};

/// Held around every use of HDF5: the library may have been built without thread safety, and its error stack
/// must not be printed. A thread may hold several.
class Session {
 public:
  Session();
  /// For reading `file`, as it is called in messages. HDF5 1.10 crashes in some damaged files: it divides by
  /// the size of a chunk that is 0, and reads a group's names at address 0. The process then ends with
  /// exit_user_error and a line that names the file.
  explicit Session(const std::string& file);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Empties the error stack: entries left by a thread that ended keep HDF5 from closing at exit.
  ~Session();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  SessionFile file_;
  const SessionFile* outer_;  ///< File of the Session around this one
};

}  // namespace flotilla::hdf5
