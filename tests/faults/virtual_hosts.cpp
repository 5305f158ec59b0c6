// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/virtual_hosts.hpp"

#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "tests/runs/program.hpp"

namespace flotilla::test {

namespace {

Result hosts(const std::string& folder, int slots, const std::vector<std::string>& words) {
  std::vector<std::string> command = {"env", "FLOTILLA_HOSTS=" + folder, "SLOTS=" + std::to_string(slots),
                                      "bash", source_path("tests/hosts/hosts.sh")};
  command.insert(command.end(), words.begin(), words.end());
  return run(command);
}

}  // namespace

VirtualHosts::VirtualHosts(int count, int slots, std::string folder)
    : count_(count), folder_(std::move(folder)) {
  const Result made = hosts(folder_, slots, {"up", std::to_string(count)});
  if (made.exit_code != 0) throw std::runtime_error("hosts.sh up: " + made.errors);
}

VirtualHosts::~VirtualHosts() {
  hosts(folder_, 1, {"down"});
}

std::string VirtualHosts::process_of(const std::string& host) const {
  const std::string text = read_file(folder_ + "/" + host + ".pid");
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> VirtualHosts::launcher() const {
  const std::string network = "10.77.0.0/24";
  return {"nsenter",
          "-t",
          process_of("login"),
          "-n",
          "-u",
          "-m",
          "--",
          "sh",
          "-c",
          "cd / && exec \"$@\"",
          "sh",
          FLOTILLA_MPIEXEC,
          "--hostfile",
          folder_ + "/hostfile",
          "--mca",
          "plm_rsh_agent",
          folder_ + "/agent",
          "--mca",
          "plm_rsh_no_tree_spawn",
          "1",
          "--mca",
          "oob_tcp_if_include",
          network,
          "--mca",
          "btl",
          "tcp,self,vader",
          "--mca",
          "btl_tcp_if_include",
          network,
          "--mca",
          "btl_tcp_links",
          "2",
          "--bind-to",
          "none"};
}

std::string VirtualHosts::shared_memory(int host) const {
  return "/proc/" + process_of("h" + std::to_string(host)) + "/root/dev/shm";
}

int max_hosts() {
  return geteuid() == 0 && run({"sh", "-c", "command -v nsenter && unshare --net ip link"}).exit_code == 0
             ? 3
             : 1;
}

}  // namespace flotilla::test
