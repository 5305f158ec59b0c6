// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/private_mounts.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

namespace flotilla::test {

namespace {

void check(int result, const std::string& what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

void write_text(const char* file, std::string_view text) {
  const int descriptor = open(file, O_WRONLY | O_CLOEXEC);
  const bool written = descriptor >= 0 && write(descriptor, text.data(), text.size()) >= 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written) throw std::system_error(error, std::generic_category(), file);
}

}  // namespace

std::string own_mounts() {
  const std::string user = std::to_string(getuid());
  const std::string group = std::to_string(getgid());
  const bool root = user == "0";
  if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0) return std::strerror(errno);
  if (!root) {
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", "0 " + user + " 1");
    write_text("/proc/self/gid_map", "0 " + group + " 1");
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return std::strerror(errno);
  return "";
}

void mount_disk(const std::string& folder, std::int64_t bytes) {
  check(mount("tmpfs", folder.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()),
        "mount " + folder);
}

void unmount(const std::string& folder) {
  check(umount2(folder.c_str(), MNT_DETACH), "umount " + folder);
}

void make_read_only(const std::string& folder) {
  check(mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), "mount --bind " + folder);
  check(mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
        "mount -o remount,bind,ro " + folder);
}

void fill_disk(const std::string& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), file);
  const std::vector<char> zeros(1 << 16);
  for (std::size_t size = zeros.size(); size > 0;)
    if (write(descriptor, zeros.data(), size) < 0) size /= 2;  // to the last byte
  close(descriptor);
}

}  // namespace flotilla::test
