// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/binding.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"

namespace flotilla::mpi {

namespace {

constexpr int few_cores = 4;  // not worth a warning

std::string own_cores(int threads) {
  return cat("mpirun --map-by slot:PE=", threads, " --bind-to core, srun --cpus-per-task=", threads);
}

std::string per_host(int ranks) {
  return cat("mpirun --map-by ppr:", ranks, ":node, srun --ntasks-per-node=", ranks);
}

/// Finds the mistakes in the binding of ranks; equal hosts are named in one line.
class Diagnosis {
 public:
  Diagnosis(const std::vector<Place>& places, const BindingUse& use) : places_(places), use_(use) {}

  std::vector<std::string> lines() {
    find_crowds();
    find_thread_mistakes();
    find_quotas();
    find_idle_cores();
    if (use_.steps_together) find_differences();
    return std::move(lines_);
  }

 private:
  using Says = std::function<std::string(const Place&)>;  ///< Empty: nothing is wrong

  int threads(const Place& place) const { return use_.threads > 0 ? use_.threads : default_threads(place); }
  static bool is_crowded(const Place& place) { return place.cores < place.cores_shared_by; }

  /// One line for the first place that something is wrong with, and the hosts of the others.
  void add_first(const Says& says) {
    std::vector<std::string> others;
    int last = -1;
    std::string text;
    for (const Place& place : places_) {
      const std::string wrong = says(place);
      if (wrong.empty()) continue;
      if (text.empty()) {
        text = wrong;
      } else if (place.host_index != last) {
        others.push_back(place.host);
      }
      last = place.host_index;
    }
    if (text.empty()) return;
    lines_.push_back(others.empty() ? text : cat(text, " (the same on ", text_of_hosts(others), ")"));
  }

  void find_crowds() {
    add_first([this](const Place& place) {
      if (!is_crowded(place)) return std::string();
      const int ranks = place.cores_shared_by;
      if (ranks <= place.host_cores)
        return cat(ranks, " ranks on ", place.host, " are bound to the same ", counted(place.cores, "core"),
                   " of ", place.host_cores, ", which slows each of them down: give every rank its own (",
                   own_cores(std::max(1, std::min(threads(place), place.host_cores / ranks))), ")");
      return cat(ranks, " ranks on ", place.host, " share ", counted(place.cores, "core"),
                 ", which slows each of them down: start no more than ", place.cores, " there (",
                 per_host(place.cores), ")");
    });
    add_first([](const Place& place) {
      if (!is_crowded(place) || place.yields) return std::string();
      return cat("ranks on ", place.host,
                 " share cores, and one that waits does not let the others run: a collective takes some 8 ms "
                 "instead of microseconds; set OMPI_MCA_mpi_yield_when_idle=1 (mpirun -x "
                 "OMPI_MCA_mpi_yield_when_idle=1, srun: export it before)");
    });
  }

  void find_thread_mistakes() {
    add_first([this](const Place& place) {
      if (is_crowded(place) || use_.threads * place.cores_shared_by <= place.cores) return std::string();
      const std::string has =
          place.cores_shared_by == 1
              ? cat("rank ", place.rank, " on ", place.host, " is bound to ", counted(place.cores, "core"))
              : cat(place.cores_shared_by, " ranks on ", place.host, " share ", counted(place.cores, "core"));
      return cat("device.threads = ", use_.threads, ", but ", has,
                 ": threads take turns on them; set device.threads = 0, which takes what fits, or give each "
                 "rank more (",
                 own_cores(use_.threads), ")");
    });
  }

  void find_quotas() {
    add_first([this](const Place& place) {
      const int all = threads(place) * place.quota_shared_by;
      if (place.quota == 0.0 || all <= place.quota) return std::string();
      return cat("the control group on ", place.host, " allows ", short_text(place.quota),
                 " cores' time, but the ranks under it have ", all, all == 1 ? " thread" : " threads",
                 ", which are halted again and again: start fewer or ask for more time (srun "
                 "--cpus-per-task, a container's CPU limit)");
    });
  }

  /// mpirun binds a rank to one core, however many there are.
  void find_idle_cores() {
    if (use_.threads > 0) return;
    std::map<int, double> used;
    std::map<int, int> ranks;
    std::map<int, int> first;
    for (const Place& place : places_) {
      first.emplace(place.host_index, place.rank);
      used[place.host_index] += static_cast<double>(place.cores) / place.cores_shared_by;
      ++ranks[place.host_index];
    }
    add_first([&](const Place& place) {
      const int here = ranks[place.host_index];
      if (is_crowded(place) || first[place.host_index] != place.rank ||
          2.0 * used[place.host_index] > place.host_cores ||
          place.host_cores - used[place.host_index] < few_cores || place.quota > 0.0)
        return std::string();
      return cat(here, here == 1 ? " rank on " : " ranks on ", place.host, here == 1 ? " is" : " are",
                 " bound to ", short_text(used[place.host_index]), " of ", counted(place.host_cores, "core"),
                 ", and the others are idle: give each rank more (", own_cores(place.host_cores / here),
                 "), or set device.threads to what is meant");
    });
  }

  void find_differences() {
    std::map<int, int> ranks;
    std::map<int, int> min_threads;
    for (const Place& place : places_) {
      ++ranks[place.host_index];
      const int here = threads(place);
      const auto [known, added] = min_threads.emplace(place.host_index, here);
      if (!added) known->second = std::min(known->second, here);
    }
    const std::vector<std::string> names = names_of_hosts(places_);
    const auto differ = [&](const std::map<int, int>& of_host, const char* one, const char* more,
                            const std::function<std::string(int)>& remedy) {
      std::map<int, std::vector<std::string>> hosts_with;
      for (const auto& [host, number] : of_host)
        hosts_with[number].push_back(names[static_cast<std::size_t>(host)]);
      if (hosts_with.size() < 2) return false;
      const auto& [least, few] = *hosts_with.begin();
      const auto& [most, many] = *hosts_with.rbegin();
      lines_.push_back(cat(text_of_hosts(few), few.size() == 1 ? " has " : " have ", least, " ",
                           least == 1 ? one : more, ", ", text_of_hosts(many),
                           many.size() == 1 ? " has " : " have ", most,
                           ": every step waits for the slowest; ", remedy(most)));
      return true;
    };
    if (differ(ranks, "rank", "ranks",
               [](int most) { return cat("start as many on each host (", per_host(most), ")"); }))
      return;
    differ(min_threads, "core for a rank", "cores for a rank", [](int most) {
      return cat("take hosts that are alike, or give each rank ", most, " (srun --cpus-per-task=", most,
                 "; mpirun: fewer ranks on the small hosts)");
    });
  }

  const std::vector<Place>& places_;
  BindingUse use_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> binding_warnings(const std::vector<Place>& places, const BindingUse& use) {
  return Diagnosis(places, use).lines();
}

}  // namespace flotilla::mpi
