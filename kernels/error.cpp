// SPDX-License-Identifier: Apache-2.0
#include "kernels/error.hpp"

#include <filesystem>
#include <new>
#include <system_error>

namespace flotilla {

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return exit_user_error;
  if (dynamic_cast<const InternalError*>(&error) != nullptr) return exit_internal_error;
  if (dynamic_cast<const LibraryError*>(&error) != nullptr) return exit_library_error;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return exit_library_error;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return exit_user_error;
  if (dynamic_cast<const std::system_error*>(&error) != nullptr) return exit_library_error;
  return exit_internal_error;
}

std::string text_of(const std::exception& error) {
  const char* const plan = "flotilla train --check prints what a smaller model or batch takes";
  if (const auto* array = dynamic_cast<const OutOfMemory*>(&error); array != nullptr)
    return cat("out of memory: there is no room for an array of ", array->bytes >> 20, " MiB; ", plan);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return cat("out of memory; ", plan);
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return cat("no thread can be started: ", error.what(),
               "; raise the limit of processes (ulimit -u, or pids.max of the control group)");
  return error.what();
}

}  // namespace flotilla
