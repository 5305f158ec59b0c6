// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/key_search.hpp"
#include "src/config/suggestions.hpp"

namespace flotilla {
namespace {

using Texts = std::vector<std::string>;

/// The paths of the keys that are found, in their order.
Texts paths_of(const Texts& words) {
  std::istringstream lines(found_keys(words));
  Texts paths;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line.front() != ' ' && !line.starts_with("In full: "))
      paths.push_back(line.substr(0, line.find(' ')));
  return paths;
}

TEST(KeySearch, TheNamesOfOtherProgramsLeadToTheirKeys) {
  const std::pair<Texts, std::string> searches[] = {
      {{"lr"}, "schedule.learning_rate"},
      {{"base_lr"}, "schedule.learning_rate"},
      {{"batch"}, "train.batch_size"},
      {{"early", "stopping"}, "train.patience"},
      {{"EarlyStopping"}, "train.patience"},
      {{"amp"}, "device.precision"},
      {{"mixed", "precision"}, "device.precision"},
      {{"fp16"}, "device.precision"},
      {{"augment"}, "data.rand_augment"},
      {{"ddp"}, "strategy.kind"},
      {{"DistributedDataParallel"}, "strategy.kind"},
      {{"epochs"}, "train.epochs"},
      {{"max_epochs"}, "train.epochs"},
      {{"num_train_epochs"}, "train.epochs"},
      {{"workers"}, "data.threads"},
      {{"num_workers"}, "data.threads"},
      {{"gpu"}, "device.kind"},
      {{"accelerator"}, "device.kind"},
      {{"checkpoint"}, "checkpoint.every"},
      {{"ModelCheckpoint"}, "checkpoint.every"},
      {{"save_best_only"}, "checkpoint.best"},
      {{"seed"}, "run.seed"},
      {{"seed_everything"}, "run.seed"},
      {{"accumulate_grad_batches"}, "train.accumulate_steps"},
      {{"gradient", "accumulation"}, "train.accumulate_steps"},
      {{"backward_passes_per_step"}, "train.accumulate_steps"},
      {{"gradient_clip_val"}, "train.gradient_clip_norm"},
      {{"clip_grad_norm_"}, "train.gradient_clip_norm"},
      {{"lr_scheduler"}, "schedule.kind"},
      {{"CosineAnnealingLR"}, "schedule.kind"},
      {{"cosine"}, "schedule.kind"},
      {{"adam"}, "optimizer.kind"},
      {{"weight", "decay"}, "optimizer.weight_decay"},
      {{"fusion_threshold"}, "strategy.bucket_mb"},
      {{"pretrained"}, "model.initial_weights"},
      {{"num_classes"}, "model.classes"},
      {{"how", "to", "use", "the", "gpu"}, "device.kind"},
      {{"strategy"}, "strategy.kind"},
      {{"split"}, "data.validation.share"},
      {{"validation", "split"}, "data.validation.share"},
      {{"train", "test", "split"}, "data.validation.share"},
      {{"hold", "out"}, "data.validation.share"},
      {{"random_split"}, "data.validation.share"},
  };
  for (const auto& [words, path] : searches) EXPECT_EQ(paths_of(words).front(), path) << words.front();
}

TEST(KeySearch, AtMostFiveKeysAreShownWithDefaultAndASentence) {
  EXPECT_LE(paths_of({"training"}).size(), 5U);
  EXPECT_EQ(paths_of({"seed"}), Texts{"run.seed"});  // nothing below it fits
  EXPECT_TRUE(found_keys({"epochs"})
                  .starts_with("train.epochs = 0\n    Passes over the training data; 0: no limit.\n\n"))
      << found_keys({"epochs"});
  EXPECT_TRUE(found_keys({"lr"}).starts_with("schedule.learning_rate   (must be given)\n"))
      << found_keys({"lr"});
  EXPECT_NE(found_keys({"adam"}).find(": one of \"sgd\", "), std::string::npos) << found_keys({"adam"});
}

TEST(KeySearch, AWordThatNoKeyHasGetsASuggestion) {
  try {
    found_keys({"momentun"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no key of a deck has to do with \"momentun\"; did you mean \"momentum\"?; flotilla keys "
                 "shows the topics");
  }
  EXPECT_THROW(found_keys({"zzzz"}), UserError);
  EXPECT_THROW(found_keys({"="}), UserError);
}

TEST(KeySearch, TopicsNameKeysAndEachOtherNameLeadsToOne) {
  for (const config::Topic& topic : config::topics()) {
    std::set<std::string_view> paths;
    for (const config::TopicKey& key : topic.keys) {
      EXPECT_NE(config::find_key(key.path), nullptr) << key.path;
      EXPECT_TRUE(paths.insert(key.path).second) << topic.title << ": " << key.path;
      EXPECT_NE(keys_by_topic().find(key.path), std::string::npos) << key.path;
    }
  }
  EXPECT_EQ(config::keys_called("lr").front()->path, "schedule.learning_rate");
  EXPECT_EQ(config::keys_called("max-epochs").front()->path, "train.epochs");
  EXPECT_EQ(config::keys_called("epochs").size(), 1U);
  EXPECT_TRUE(config::keys_called("zzzz").empty());
}

TEST(KeySearch, LinesFitAPage) {
  for (const std::string& text : {keys_by_topic(), found_keys({"checkpoint"}), found_keys({"data"})}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 104U) << line;
  }
}

TEST(KeySearch, AnUnknownKeyIsToldWhatItIsCalledHere) {
  EXPECT_EQ(config::suggest("train", "lr").path, "schedule.learning_rate");
  EXPECT_EQ(config::suggest("", "num_workers").path, "data.threads");
  EXPECT_EQ(config::suggest("train", "x").path, "");
}

}  // namespace
}  // namespace flotilla
