// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

std::string folder_of(const std::string& path);  ///< "." for a plain name.

/// Whether something has that name. @throws UserError if the system cannot tell (an input/output error, a
/// stale handle, no permission): only what it calls "no such file or directory" is not there.
bool is_there(const std::string& path);

/// Whether that is a folder, or a link to one; false where the system cannot tell.
bool is_folder(const std::string& path);

/// Whether that is a regular file, or a link to one; false where the system cannot tell.
bool is_file(const std::string& path);

/// Returns when the names in a folder are on the disk: without it, a crash of the machine may undo a rename.
/// File systems that cannot do this for folders say so with EINVAL or ENOTSUP (some network file systems);
/// that is no failure: their servers order and keep renames themselves, and no other call would do more.
/// Any other error is reported, including a folder that cannot be opened: the rename might not be durable.
/// @throws UserError naming the folder
void sync_folder(const std::string& folder);

/// Makes a folder and those above it, so that they outlive a crash of the machine. @returns 0 or the errno.
int make_folders(const std::string& folder);

/// Makes a folder and those above it. @throws UserError naming it if that fails, if a file is in its place,
/// or if it is not writable; `key` is the deck key that would help.
void make_output_folder(const std::string& folder, const std::string& key = "run.output");

}  // namespace flotilla
