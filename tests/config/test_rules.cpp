// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

using test::good_deck;
using test::load;
using test::mistakes_of;
using test::one;
using Texts = std::vector<std::string>;

TEST(Rules, ExactlyOneBatchSizeIsGiven) {
  const std::string both =
      "[data]\nkind = \"random\"\nshape = [4]\ntrain.samples = 9\n[model]\nwidths = []\nclasses = 2\n"
      "[schedule]\nlearning_rate = 1\n[train]\nsteps = 1\nbatch_size = 2\nglobal_batch_size = 4\n";

  EXPECT_EQ(mistakes_of(both),
            one("bad.toml:13:21",
                "train.global_batch_size and train.batch_size exclude each other; give one of "
                "them"));
  EXPECT_NE(mistakes_of(good_deck, {"train.batch_size=2", "train.global_batch_size=4"}), "");
  EXPECT_NE(mistakes_of(good_deck, {"train.global_batch_size=4", "train.accumulate_steps=3"}), "");
}

TEST(Rules, AnOverrideOfOneBatchSizeReplacesTheOther) {
  const LoadedDeck loaded = load(good_deck, {"train.global_batch_size=64"});

  EXPECT_EQ(loaded.config.train.batch_size, 0);
  EXPECT_EQ(loaded.config.train.global_batch_size, 64);
  EXPECT_EQ(loaded.notes,
            Texts{"left out of the deck, because the command line says train.global_batch_size=64: "
                  "train.batch_size"});
}

TEST(Rules, TrainingHasAnEnd) {
  EXPECT_EQ(mistakes_of(good_deck, {"train.epochs=0"}),
            one("command line: train.epochs=0",
                "train.epochs, train.steps or train.seconds must be given and positive: else training has "
                "no end"));
  EXPECT_EQ(mistakes_of(good_deck, {"train.epochs=0", "train.steps=1"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"train.epochs=0", "train.seconds=60", "schedule.kind=constant"}), "");
  EXPECT_NE(mistakes_of(good_deck, {"train.epochs=0", "train.seconds=60", "schedule.kind=cosine"}), "");
}

TEST(Rules, TheWarmUpEndsBeforeTheTraining) {
  EXPECT_EQ(mistakes_of(good_deck + "warmup_epochs = 2\n"),
            one("bad.toml:13:17", "schedule.warmup_epochs must be less than train.epochs, got 2 and 2"));
  EXPECT_EQ(mistakes_of(good_deck + "warmup_epochs = 1.9\n"), "");
  EXPECT_EQ(mistakes_of(good_deck + "warmup_epochs = 9\n", {"train.epochs=0", "train.steps=5"}), "");
}

TEST(Rules, MilestonesIncrease) {
  const std::string deck = good_deck + "kind = \"piecewise\"\n";

  EXPECT_EQ(mistakes_of(deck + "milestones = [1, 3, 3]\n"),
            one("bad.toml:14:21", "schedule.milestones must increase, got 3.0 before 3.0"));
  EXPECT_EQ(mistakes_of(deck + "milestones = [1, 3]\n"), "");
  EXPECT_NE(mistakes_of(deck), "");
}

TEST(Rules, ADecayingScheduleDoesNotRise) {
  EXPECT_NE(mistakes_of(good_deck + "kind = \"cosine\"\nfinal_learning_rate = 0.2\n"), "");
  EXPECT_EQ(mistakes_of(good_deck + "kind = \"cosine\"\nfinal_learning_rate = 0.1\n"), "");
}

TEST(Rules, AClickModelHasTheOriginalsLayersAndTwoClasses) {
  const Texts click_model = {"model.kind=ctr-dnn", "strategy.kind=parameter-server"};
  const LoadedDeck loaded = load(good_deck, click_model);

  EXPECT_EQ(loaded.config.model.classes, 2);
  EXPECT_EQ(loaded.config.model.activation, Activation::relu);
  EXPECT_EQ(loaded.config.model.embedding_width, 10);
  EXPECT_EQ(loaded.notes, Texts{"left out of the deck, because the command line says model.kind=ctr-dnn: "
                                "model.classes"});
  EXPECT_EQ(load(good_deck, {"model.kind=ctr-dnn", "strategy.kind=parameter-server", "model.activation=tanh"})
                .config.model.activation,
            Activation::tanh);
  EXPECT_EQ(load(good_deck).config.model.activation, Activation::tanh);
  const std::string no_widths = good_deck.substr(0, 8) + good_deck.substr(good_deck.find("classes"));
  EXPECT_EQ(load(no_widths, click_model).config.model.widths, (std::vector<std::int64_t>{400, 400, 400}));
  EXPECT_NE(mistakes_of(no_widths).find("model.widths is missing"), std::string::npos);
  EXPECT_EQ(mistakes_of(good_deck, {"model.embedding_width=16"}),
            one("command line: model.embedding_width=16",
                "model.embedding_width needs model.kind to be \"ctr-dnn\", it is \"mlp\""));
  EXPECT_EQ(
      mistakes_of(good_deck, {"model.kind=ctr-dnn"}),
      one("command line: model.kind=ctr-dnn",
          "model.kind = \"ctr-dnn\" needs strategy.kind = \"parameter-server\": the rows of its embeddings "
          "live on servers"));
}

TEST(Rules, ValidationDataAreCompleteOrAbsent) {
  const std::string deck =
      "[model]\nwidths = []\nclasses = 2\n[schedule]\nlearning_rate = 1\n[train]\nsteps = 1\n"
      "batch_size = 2\n[data]\ntrain = {images = \"i\", labels = \"l\"}\n";

  EXPECT_EQ(mistakes_of(deck + "validation.images = \"v\"\n"),
            one("bad.toml:11:21",
                "data.validation needs images and labels, or neither of them: labels are missing"));
  EXPECT_TRUE(load(deck + "validation = {images = \"v\", labels = \"w\"}\n").config.data.validation.given);
  EXPECT_FALSE(load(deck + "validation = {images = \"v\", labels = \"w\"}\n",
                    {"data.validation.images=", "data.validation.labels="})
                   .config.data.validation.given);
}

const std::string image_deck =
    "[model]\nwidths = []\nclasses = 2\n[schedule]\nlearning_rate = 1\n[train]\nsteps = 1\n"
    "batch_size = 2\n[data]\nkind = \"image-list\"\ntrain.path = \"train.txt\"\n";

TEST(Rules, ImageSizesAndRangesFitTogether) {
  EXPECT_EQ(mistakes_of(image_deck), "");
  EXPECT_EQ(
      mistakes_of(image_deck + "image_size = 257\n"),
      one("bad.toml:12:14",
          "data.image_size must be at most data.short_side: validation crops the one from the other, got "
          "257 and 256"));
  EXPECT_EQ(mistakes_of(image_deck + "crop_area = [0.5, 0.25]\n"),
            one("bad.toml:12:13", "data.crop_area must be [least, largest], got [0.5, 0.25]"));
  EXPECT_NE(mistakes_of(image_deck + "crop_aspect = [1.5, 1]\n"), "");
  EXPECT_NE(mistakes_of(image_deck + "crop_area = [0, 1]\n"), "");
  EXPECT_NE(mistakes_of(image_deck + "crop_area = [1]\n"), "");
  EXPECT_NE(mistakes_of(image_deck + "color_jitter = [0.4, 0.4, 0.4, 0.6]\n"), "");
  EXPECT_EQ(mistakes_of(image_deck + "color_jitter = [0.4, 0.4, 1.5, 0.5]\n"), "");
}

TEST(Rules, AValidationRootNeedsAList) {
  EXPECT_EQ(
      mistakes_of(image_deck + "validation.root = \"val\"\n"),
      one("bad.toml:12:19", "data.validation.root needs data.validation.path: the list of the images in it"));
  EXPECT_TRUE(load(image_deck + "validation.path = \"val.txt\"\n").config.data.validation.given);
  EXPECT_FALSE(load(image_deck).config.data.validation.given);
}

TEST(Rules, ImageKeysBelongToImages) {
  EXPECT_NE(mistakes_of(good_deck, {"data.image_size=64"}), "");
  EXPECT_NE(mistakes_of(image_deck, {"data.kind=image-folder", "data.train.root=train"}), "");
  EXPECT_EQ(mistakes_of(image_deck, {"data.kind=image-folder"}), "");
}

TEST(Rules, TheLastBucketIsNotTheLargest) {
  EXPECT_EQ(load(good_deck + "[strategy]\nbucket_mb = 0.5\n").config.reduction.last_bucket_mb, 0.5);
  EXPECT_EQ(mistakes_of(good_deck + "[strategy]\nbucket_mb = 0.5\nlast_bucket_mb = 1\n"),
            one("bad.toml:15:18", "strategy.last_bucket_mb must be at most strategy.bucket_mb (0.5), got 1"));
}

TEST(Rules, GroupsAndWiresNeedAnAllReduceThatHasThem) {
  const auto strategy = [](const std::string& keys) {
    return mistakes_of(good_deck + "[strategy]\n" + keys);
  };
  EXPECT_EQ(strategy("all_reduce = \"mpi\"\nranks_per_group = 2\n"),
            one("bad.toml:15:19",
                "strategy.ranks_per_group needs a strategy.all_reduce in groups (\"nccl-hierarchical\", "
                "\"nccl-mpi\", \"hierarchical\") or \"auto\", it is \"mpi\""));
  EXPECT_EQ(strategy("wire = \"float16\"\nall_reduce = \"shared-memory\"\n"),
            one("bad.toml:14:8",
                "strategy.wire = \"float16\" and strategy.all_reduce = \"shared-memory\" exclude each other: "
                "ranks read each other's memory, leave it out"));
  for (const char* word : {"auto", "hierarchical"})
    EXPECT_EQ(strategy(cat("all_reduce = \"", word, "\"\nranks_per_group = 2\nwire = \"bfloat16\"\n")), "");
  EXPECT_NE(strategy("wire = \"float64\"\n"), "");
  EXPECT_EQ(strategy("wire = \"fp4\"\nall_reduce = \"shared-memory\"\n"),
            one("bad.toml:14:8",
                "strategy.wire = \"fp4\" and strategy.all_reduce = \"shared-memory\" exclude each other: "
                "ranks read each other's memory, leave it out"));
  for (const std::string word : {"int8", "fp8", "fp4"})
    EXPECT_EQ(
        strategy(cat("all_reduce = \"hierarchical\"\nwire_rounding = \"nearest\"\nwire = \"", word, "\"\n")),
        "");
  EXPECT_NE(strategy("wire = \"float16\"\nwire_rounding = \"nearest\"\n"), "");
  EXPECT_NE(strategy("ranks_per_group = -1\n"), "");
  EXPECT_NE(strategy("communicators = 0\n"), "");
}

TEST(Rules, CompressionExcludesWhatItsErrorsOrItsDeviceDoNotGoWith) {
  const auto mistake = [](Texts more) {
    more.emplace_back("strategy.compression=powersgd");
    return mistakes_of(good_deck, more);
  };
  for (const char* wire : {"strategy.wire=bfloat16", "strategy.wire=int8"})
    EXPECT_EQ(mistake({"strategy.compression_rank=2", "strategy.compression_start=0", wire}), "");
  for (const char* other :
       {"device.kind=cuda", "device.kind=reference", "device.precision=float16", "run.reproducible=true"})
    EXPECT_NE(mistake({other}).find("strategy.compression and "), std::string::npos) << other;
  EXPECT_NE(mistake({"strategy.compression_rank=0"}), "");
  EXPECT_NE(mistakes_of(good_deck, {"strategy.compression_rank=2"}), "");
}

TEST(Rules, NcclAddsInTheMemoryOfGpusAsItIsThere) {
  const auto mistake = [](Texts more) {
    more.emplace_back("strategy.all_reduce=nccl");
    return mistakes_of(good_deck, more);
  };
  EXPECT_EQ(
      mistake({}),
      one("command line: strategy.all_reduce=nccl",
          "strategy.all_reduce = \"nccl\" needs device.kind = \"cuda\": NCCL adds in the memory of GPUs; "
          "use \"auto\""));
  EXPECT_EQ(mistake({"device.kind=cuda"}), "");
  EXPECT_EQ(
      mistake({"device.kind=cuda", "strategy.wire=float16"}),
      one("command line: strategy.wire=float16",
          "strategy.wire = \"float16\" and strategy.all_reduce = \"nccl\" exclude each other: NCCL adds "
          "what is there, in float32; use \"nccl-mpi\", whose groups exchange half values"));
  EXPECT_NE(
      mistake({"device.kind=cuda", "run.reproducible=true", "device.threads=1"})
          .find("strategy.all_reduce and run.reproducible exclude each other here: NCCL adds in an order "
                "of its own"),
      std::string::npos);
}

TEST(Rules, WiresWithScalesKeepTheirErrorsInTheMemoryOfTheHost) {
  EXPECT_EQ(
      mistakes_of(good_deck, {"device.kind=cuda", "strategy.wire=int8"}),
      one("command line: strategy.wire=int8",
          "strategy.wire and device.kind exclude each other here: the errors of its rounding are kept in "
          "the memory of the host; use \"float16\" or \"bfloat16\""));
  EXPECT_NE(mistakes_of(good_deck, {"device.kind=reference", "device.precision=float16", "strategy.wire=fp8"})
                .find("are of another loss scale; use \"bfloat16\""),
            std::string::npos);
}

TEST(Rules, NcclUnderMpiHasHalfWiresButOneThread) {
  const Texts over_mpi = {"device.kind=cuda", "strategy.all_reduce=nccl-mpi", "strategy.ranks_per_group=2",
                          "strategy.wire=bfloat16"};
  Texts more = over_mpi;
  more.emplace_back("strategy.communicators=2");

  EXPECT_EQ(mistakes_of(good_deck, over_mpi), "");
  EXPECT_EQ(
      mistakes_of(good_deck, more),
      one("command line: strategy.communicators=2",
          "strategy.communicators must be 1 with strategy.all_reduce = \"nccl-mpi\": NCCL wants all its "
          "work from one thread, in one order; got 2"));
}

TEST(Rules, OnlyGpusAreShared) {
  EXPECT_NE(mistakes_of(good_deck, {"device.share=true"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"device.kind=cuda", "device.share=true"}), "");
  EXPECT_NE(mistakes_of(good_deck, {"device.graphs=true"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"device.kind=cuda", "device.graphs=true"}), "");
}

TEST(Rules, AKindIsExcludedFromDecayOnce) {
  EXPECT_NE(mistakes_of(good_deck, {"optimizer.no_decay=biases,biases"}), "");
}

TEST(Rules, AdamwDecaysDecoupledAlways) {
  EXPECT_EQ(load(good_deck, {"optimizer.kind=adamw"}).config.optimizer.decay, Decay::decoupled);
  EXPECT_EQ(load(good_deck, {"optimizer.kind=adam"}).config.optimizer.decay, Decay::coupled);
  EXPECT_NE(mistakes_of(good_deck, {"optimizer.kind=adamw", "optimizer.decay=coupled"}), "");
}

TEST(Rules, LocalSgdNamesItsPeriod) {
  EXPECT_NE(mistakes_of(good_deck, {"strategy.kind=local-sgd"}).find("strategy.period is missing"),
            std::string::npos);
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.kind=local-sgd", "strategy.period=0"}),
            one("command line: strategy.period=0", "strategy.period must be at least 1, got 0"));
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.kind=local-sgd", "strategy.period=4"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.period=4"}),
            one("command line: strategy.period=4",
                "strategy.period needs strategy.kind to be \"local-sgd\", it is \"all-reduce\""));
}

TEST(Rules, AKeyOfARuleNeedsTheKindThatHasTheRule) {
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.lowest_loss=0.1"}),
            one("command line: strategy.lowest_loss=0.1",
                "strategy.lowest_loss needs strategy.kind to be \"adaptive-local-sgd\", it is "
                "\"all-reduce\""));
}

TEST(Rules, AdaptivePeriodsFollowPlainGradientDescent) {
  const Texts adaptive = {"strategy.kind=adaptive-local-sgd", "optimizer.kind=adam"};
  EXPECT_EQ(
      mistakes_of(good_deck, adaptive),
      one("command line: strategy.kind=adaptive-local-sgd",
          "strategy.kind = \"adaptive-local-sgd\" follows the learning rate of plain gradient descent: use "
          "optimizer.kind \"sgd\", \"momentum\" or \"nesterov\", strategy.rule = \"exposed\" or "
          "strategy.kind = \"local-sgd\"; it is \"adam\""));
  EXPECT_EQ(mistakes_of(good_deck, {adaptive[0], adaptive[1], "strategy.rule=exposed"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {adaptive[0], "optimizer.kind=nesterov"}), "");
}

TEST(Rules, FragmentsAndTheirAveragesFitThePeriod) {
  const auto mistake = [](Texts more) {
    more.insert(more.end(), {"strategy.kind=local-sgd", "strategy.period=12"});
    return mistakes_of(good_deck, more);
  };
  EXPECT_EQ(
      mistake({"strategy.fragments=5"}),
      one("command line: strategy.fragments=5",
          "strategy.period must be a multiple of strategy.fragments (5), since one fragment is averaged "
          "every period / fragments steps; got 12"));
  EXPECT_EQ(
      mistake({"strategy.fragments=4", "strategy.overlap_steps=3"}),
      one("command line: strategy.overlap_steps=3",
          "strategy.overlap_steps must be less than strategy.period / strategy.fragments (3), since one "
          "average is on its way at a time; got 3"));
  EXPECT_EQ(mistake({"strategy.overlap_steps=11"}), "");
  EXPECT_EQ(mistake({"strategy.fragments=4", "strategy.overlap_steps=2", "strategy.mix=0.5"}), "");
  EXPECT_EQ(mistake({"strategy.fragments=4", "strategy.warm_up=linear"}),
            one("command line: strategy.fragments=4",
                "strategy.fragments and strategy.warm_up exclude each other here: the period must stay as it "
                "is; use begin_step to keep the workers together at first"));
  EXPECT_EQ(mistake({"strategy.overlap_steps=2", "strategy.momentum=reset", "optimizer.kind=momentum"}),
            one("command line: strategy.overlap_steps=2",
                "strategy.overlap_steps and strategy.momentum exclude each other here: the optimizer's state "
                "of a part is not averaged; use \"local\""));
  EXPECT_EQ(mistake({"strategy.overlap_steps=2", "strategy.group_all_reduce=true"}),
            one("command line: strategy.overlap_steps=2",
                "strategy.overlap_steps and strategy.group_all_reduce exclude each other here: workers of a "
                "group wait for each other in every step; leave one of them out"));
}

TEST(Rules, EagerUpdatesAreOuterStepsOnTheWholeModel) {
  const auto mistake = [](Texts more) {
    more.insert(more.end(), {"strategy.kind=local-sgd", "strategy.period=12", "strategy.eager=true"});
    return mistakes_of(good_deck, more);
  };
  EXPECT_EQ(mistake({"strategy.outer.kind=sgd", "strategy.warm_up=linear"}), "");
  EXPECT_EQ(mistake({}), one("command line: strategy.eager=true",
                             "strategy.eager and strategy.outer.kind exclude each other here: it is a way of "
                             "taking outer steps; use \"nesterov\", \"momentum\" or \"sgd\""));
  for (const std::string other :
       {"fragments=2", "overlap_steps=2", "mix=0.5", "momentum=average", "group_all_reduce=true"})
    EXPECT_NE(mistake({"strategy.outer.kind=sgd", "optimizer.kind=momentum", "strategy." + other})
                  .find("strategy.eager and strategy." + other.substr(0, other.find('=')) + " exclude"),
              std::string::npos)
        << other;
}

TEST(Rules, OptionsOfLocalSgdThatExcludeEachOther) {
  const auto mistake = [](Texts more) {
    more.insert(more.end(), {"strategy.kind=local-sgd", "strategy.period=4"});
    return mistakes_of(good_deck, more);
  };
  EXPECT_EQ(mistake({"strategy.begin_step=4", "strategy.begin_epoch=1"}),
            one("command line: strategy.begin_step=4",
                "strategy.begin_step and strategy.begin_epoch exclude each other here: give one of them"));
  EXPECT_EQ(mistake({"strategy.group_all_reduce=true", "strategy.before_begin=all-reduce",
                     "strategy.begin_step=1"}),
            one("command line: strategy.group_all_reduce=true",
                "strategy.group_all_reduce and strategy.before_begin exclude each other here: before_begin = "
                "\"average\" comes to the same"));
  EXPECT_EQ(
      mistake({"optimizer.kind=sgd", "strategy.momentum=reset"}),
      one("command line: strategy.momentum=reset",
          "strategy.momentum and optimizer.kind exclude each other here: plain \"sgd\" keeps no state"));
  EXPECT_EQ(mistake({"strategy.statistics=local"}),
            one("command line: strategy.statistics=local",
                "strategy.statistics and model.kind exclude each other here: this model has no batch norm"));
  EXPECT_EQ(mistake({"strategy.before_begin=all-reduce"}),
            one("command line: strategy.before_begin=all-reduce",
                "strategy.before_begin = \"all-reduce\" needs strategy.begin_step or strategy.begin_epoch: "
                "give one of them"));
  EXPECT_NE(mistake({"strategy.outer.kind=momentum"}).find("strategy.outer.momentum is missing"),
            std::string::npos);
}

TEST(Rules, WithoutOverlapOneBucketIsReducedAfterAnother) {
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.overlap=false"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.overlap=false", "strategy.communicators=2"}),
            one("command line: strategy.overlap=false",
                "strategy.overlap = false and strategy.communicators = 2 exclude each other: without overlap "
                "one bucket is reduced after another"));
}

TEST(Rules, WhatIsReproducibleDependsOnNothingThatChangesWithTheWorkers) {
  const Texts good = {"run.reproducible=true", "train.global_batch_size=16", "device.threads=1"};
  const auto mistake = [&](const std::string& more) {
    Texts all = good;
    all.push_back(more);
    return mistakes_of(good_deck, all);
  };
  EXPECT_EQ(mistakes_of(good_deck, good), "");
  EXPECT_EQ(mistake("device.threads=0"),
            one("command line: device.threads=0",
                "run.reproducible needs a number in device.threads, such as 1: 0 takes what the ranks of a "
                "host leave each other, and sums inside an operation depend on it"));
  EXPECT_EQ(mistake("train.global_batch_size=20"),
            one("command line: train.global_batch_size=20",
                "run.reproducible needs a train.global_batch_size that is a multiple of run.virtual_shards "
                "(8), got 20"));
  EXPECT_NE(mistake("train.accumulate_steps=2"), "");
  EXPECT_EQ(mistake("train.mixup=0.2"), "");
  EXPECT_NE(mistakes_of(good_deck, {"run.reproducible=true", "train.global_batch_size=24", "device.threads=1",
                                    "train.mixup=0.2"}),
            "");
  EXPECT_NE(mistake("strategy.wire=float16"), "");
  EXPECT_EQ(
      mistakes_of(good_deck, {"run.reproducible=true", "device.threads=1"}),
      one("bad.toml:10:14",
          "run.reproducible needs train.global_batch_size instead of train.batch_size: the samples of a "
          "step must not depend on the number of workers"));
}

TEST(Rules, EveryShardOfAReproducibleRunHasStatisticsOfItsOwn) {
  const std::string deck =
      "[model]\nkind = \"resnet\"\nclasses = 2\nbatch_norm = \"synchronised\"\n[data]\nkind = "
      "\"random\"\nshape = [3, 32, 32]\ntrain.samples = 64\n[train]\nsteps = 1\nglobal_batch_size = 16\n"
      "[schedule]\nlearning_rate = 1\n[device]\nthreads = 1\n[run]\nreproducible = true\n";

  EXPECT_EQ(mistakes_of(deck), one("bad.toml:4:14",
                                   "run.reproducible and model.batch_norm = \"synchronised\" exclude each "
                                   "other: every shard has statistics of its own"));
}

TEST(Rules, AsynchronousWorkersPartByAsManyPushesAs32StepsMake) {
  const auto bound = [](const Texts& keys) {
    Texts all = {"strategy.kind=parameter-server"};
    all.insert(all.end(), keys.begin(), keys.end());
    return load(good_deck, all).config.server()->max_staleness;
  };

  EXPECT_EQ(bound({"server.mode=async"}), 32);
  EXPECT_EQ(bound({"server.mode=half-async", "server.push_every=5"}), 6);
  EXPECT_EQ(bound({"server.mode=geo", "server.push_every=100"}), 1);
  EXPECT_EQ(bound({"server.mode=geo", "server.push_every=100", "server.max_staleness=0"}), 0);
  EXPECT_EQ(bound({}), 0);
}

TEST(Rules, WeightsAreAveragedWhereAllWorkersHoldOneModel) {
  EXPECT_NO_THROW(test::load(test::good_deck, {"train.average_decay=0.999"}));
  EXPECT_NE(test::mistakes_of(test::good_deck, {"train.average_decay=0.999", "strategy.kind=local-sgd"})
                .find("train.average_decay needs strategy.kind = \"all-reduce\""),
            std::string::npos);
}

TEST(Rules, AnEmulatedLinkIsThatOfAllReduces) {
  const std::string rate = "run.emulate_link.gbit_s=0.1";
  const std::string latency = "run.emulate_link.latency_us=50";
  const std::string jitter = "run.emulate_link.jitter=0.5";
  const std::string both_ways = "run.emulate_link.both_ways=1.8";

  EXPECT_EQ(mistakes_of(good_deck, {rate, latency, jitter, both_ways}), "");
  EXPECT_EQ(
      mistakes_of(good_deck, {latency}),
      one("command line: " + latency, "run.emulate_link.gbit_s is missing: the rate of the link in Gbit/s"));
  EXPECT_NE(mistakes_of(good_deck, {both_ways}).find("run.emulate_link.gbit_s is missing"),
            std::string::npos);
  EXPECT_EQ(mistakes_of(good_deck, {rate, jitter}),
            one("command line: " + jitter,
                "run.emulate_link.jitter is a part of run.emulate_link.latency_us, which is missing or 0"));
  EXPECT_NE(mistakes_of(good_deck, {rate, "strategy.kind=parameter-server"})
                .find("not messages to servers (strategy.kind)"),
            std::string::npos);
}

TEST(Rules, AnEmulatedStragglerIsSlowInOneWay) {
  const std::string rank = "run.emulate_straggler.rank=1";
  const std::string factor = "run.emulate_straggler.slow_factor=2";
  const std::string pause = "run.emulate_straggler.pause_s=0.5";
  const std::string every = "run.emulate_straggler.every=10";

  EXPECT_EQ(mistakes_of(good_deck, {rank, factor}), "");
  EXPECT_EQ(mistakes_of(good_deck, {rank, pause, every}), "");
  EXPECT_EQ(mistakes_of(good_deck, {rank}),
            one("command line: " + rank, "run.emulate_straggler needs slow_factor or pause_s"));
  EXPECT_EQ(mistakes_of(good_deck, {rank, factor, pause}),
            one("command line: " + pause,
                "run.emulate_straggler: slow_factor and pause_s exclude each other; give one of them"));
  EXPECT_EQ(mistakes_of(good_deck, {pause}),
            one("command line: " + pause, "run.emulate_straggler.rank is missing: the worker to make slow"));
  EXPECT_EQ(mistakes_of(good_deck, {rank, factor, "run.emulate_straggler.every=0"}),
            one("command line: run.emulate_straggler.every=0",
                "run.emulate_straggler.every must be at least 1, got 0"));
  EXPECT_EQ(mistakes_of(good_deck, {rank, pause, "run.watchdog_s=0.4"}),
            one("command line: " + pause,
                "run.emulate_straggler.pause_s must be less than run.watchdog_s (0.4), which else ends the "
                "job, got 0.5"));
}

}  // namespace
}  // namespace flotilla
