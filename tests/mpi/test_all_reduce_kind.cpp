// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/core/topology.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

std::string document(const std::string& name) {
  std::ifstream file(std::string(FLOTILLA_SOURCE_DIR) + "/docs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AllReduceKinds, AreEachDescribedOnceAndInTheDocuments) {
  const std::string page = document("architecture.md");
  std::set<std::string_view> words{"auto"};
  for (const AllReduceKind& kind : all_reduce_kinds) {
    EXPECT_TRUE(words.insert(kind.word).second) << kind.word;
    EXPECT_FALSE(kind.help.empty()) << kind.word;
    EXPECT_NE(kind.make, nullptr) << kind.word;
    EXPECT_EQ(kind_of(word_of(kind)), &kind);
    EXPECT_TRUE(test::mentions(page, {"| `" + std::string(kind.word) + "` |"}))
        << "docs/architecture.md has no row for " << kind.word;
  }
  EXPECT_EQ(kind_of(AllReduceWord::automatic), nullptr);
}

/// `hosts` of `per_host` ranks each.
AllReduceSite site_of(int hosts, int per_host, int ranks_per_group = 0) {
  std::vector<Place> places;
  for (int host = 0; host < hosts; ++host)
    for (int local = 0; local < per_host; ++local)
      places.push_back({.rank = host * per_host + local, .host_index = host, .local_rank = local});
  AllReduceSite site = find_site(places, ranks_per_group);
  site.no_nccl = "needs GPUs";
  return site;
}

std::set<std::string_view> possible(const AllReduceSite& site) {
  std::set<std::string_view> words;
  for (const AllReduceKind* const kind : possible_all_reduces(site)) words.insert(kind->word);
  return words;
}

using Words = std::set<std::string_view>;

TEST(AllReduceKinds, AreBenchedWhereTheyArePossible) {
  EXPECT_EQ(possible(site_of(1, 4)), (Words{"shared-memory", "mpi"}));
  EXPECT_EQ(possible(site_of(1, 4, 2)), (Words{"shared-memory", "hierarchical", "mpi"}));
  EXPECT_EQ(possible(site_of(2, 2)), (Words{"hierarchical", "mpi"}));

  AllReduceSite gpus = site_of(2, 4);
  gpus.no_nccl = "";
  EXPECT_EQ(possible(gpus), (Words{"nccl", "nccl-hierarchical", "nccl-mpi", "hierarchical", "mpi"}));
  gpus.communicators = 2;
  EXPECT_EQ(possible(gpus), (Words{"nccl", "nccl-hierarchical", "hierarchical", "mpi"}));
  gpus.order = SumOrder::tree;
  EXPECT_EQ(possible(gpus), (Words{"hierarchical", "mpi"}));
}

TEST(AllReduceKinds, SayWhyTheyCannotBe) {
  const auto refusal = [](const char* word, const AllReduceSite& site) {
    return why_not(all_reduce_kind(word), site);
  };
  EXPECT_EQ(refusal("shared-memory", site_of(2, 2)),
            "strategy.all_reduce = \"shared-memory\" needs all workers on one host; these run on 2: use "
            "\"auto\", \"hierarchical\" or \"mpi\"");
  EXPECT_EQ(refusal("nccl", site_of(2, 2)), "strategy.all_reduce = \"nccl\" needs GPUs");
  EXPECT_EQ(refusal("mpi", site_of(2, 2)), "");
}

TEST(AllReduceKinds, NameGroupsAndWireInTheirDescription) {
  AllReduceSite site = site_of(2, 2);
  site.wire = Wire::float16;
  EXPECT_EQ(describe(all_reduce_kind("hierarchical"), site), "hierarchical in 2 groups, float16");
  EXPECT_EQ(describe(all_reduce_kind("mpi"), site), "mpi, float16");
  EXPECT_EQ(describe(all_reduce_kind("nccl"), site), "nccl");
}

}  // namespace
}  // namespace flotilla::mpi
