// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/bench.hpp"
#include "src/commands/command_line.hpp"
#include "src/commands/evaluate.hpp"
#include "src/commands/export.hpp"
#include "src/commands/inspect.hpp"
#include "src/commands/make_data.hpp"
#include "src/commands/predict.hpp"
#include "src/commands/train.hpp"

namespace flotilla {
namespace {

using Texts = std::vector<std::string>;

/// @throws std::bad_any_cast if the arguments name another command
template <class Arguments>
Arguments parse(const Texts& arguments) {
  return std::any_cast<Arguments>(
      std::get<CommandLine>(parse_command_line("/usr/bin/flotilla", arguments, "flotilla 1.2.3")).arguments);
}

std::string printed(const Texts& arguments) {
  return std::get<PrintedText>(parse_command_line("/usr/bin/flotilla", arguments, "flotilla 1.2.3")).text;
}

std::string refused(const Texts& arguments) {
  try {
    parse_command_line("/usr/bin/flotilla", arguments, "flotilla 1.2.3");
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(CommandLine, TrainTakesADeckAndOverridesInAnyOrder) {
  for (const Texts& arguments :
       {Texts{"train", "a.toml", "train.epochs=3", "model.widths=[3, 4]", "--check"},
        Texts{"train", "--check", "train.epochs=3", "a.toml", "model.widths=[3, 4]"},
        Texts{"train", "train.epochs=3", "model.widths=[3, 4]", "--check", "a.toml"}}) {
    const auto line = parse<TrainArguments>(arguments);

    EXPECT_EQ(line.deck, "a.toml");
    EXPECT_EQ(line.overrides, (Texts{"train.epochs=3", "model.widths=[3, 4]"}));
    EXPECT_TRUE(line.check);
  }
}

TEST(CommandLine, OverridesMayHoldAnything) {
  const Texts overrides = {"train.batch_size=-4", "run.output=", "run.output=a=b/c.toml", "epochs=3"};

  const auto line =
      parse<TrainArguments>({"train", "a.toml", overrides[0], overrides[1], overrides[2], overrides[3]});

  EXPECT_EQ(line.overrides, overrides);
}

TEST(CommandLine, APathWithASlashBeforeItsEqualsSignIsADeck) {
  EXPECT_EQ(parse<TrainArguments>({"train", "./lr=0.1.toml"}).deck, "./lr=0.1.toml");
}

TEST(CommandLine, EvaluateTakesACheckpointAndMaybeADeck) {
  const auto without = parse<EvaluateArguments>({"evaluate", "runs/a", "device.threads=2"});
  const auto with =
      parse<EvaluateArguments>({"evaluate", "runs/a", "device.threads=2", "a.toml", "--vectors", "v.h5"});

  EXPECT_EQ(without.checkpoint, "runs/a");
  EXPECT_EQ(without.deck, "");
  EXPECT_EQ(without.overrides, Texts{"device.threads=2"});
  EXPECT_EQ(with.deck, "a.toml");
  EXPECT_EQ(with.vectors, "v.h5");
  EXPECT_EQ(parse<EvaluateArguments>({"evaluate", "device.threads=2", "runs/a"}).checkpoint, "runs/a");
}

TEST(CommandLine, InspectAndExportTakeFiles) {
  const auto inspect = parse<InspectArguments>({"inspect", "step-1.h5", "--json"});
  const auto exporting = parse<ExportArguments>({"export", "runs/a", "model.h5"});

  EXPECT_EQ(inspect.checkpoint, "step-1.h5");
  EXPECT_TRUE(inspect.json);
  EXPECT_EQ(exporting.checkpoint, "runs/a");
  EXPECT_EQ(exporting.output, "model.h5");
}

TEST(CommandLine, BenchAllReduceTakesSizes) {
  const auto sweep = parse<BenchAllReduceArguments>({"bench", "all-reduce"});
  const auto one = parse<BenchAllReduceArguments>(
      {"bench", "all-reduce", "--bytes", "64M", "--in-place", "--json", "rows.json"});
  const auto range = parse<BenchAllReduceArguments>({"bench", "all-reduce", "--min", "2KiB", "--max", "1MB"});

  EXPECT_EQ(sweep.min_bytes, 1024U);
  EXPECT_EQ(sweep.max_bytes, 268435456U);
  EXPECT_EQ(one.min_bytes, 67108864U);
  EXPECT_EQ(one.max_bytes, 67108864U);
  EXPECT_TRUE(one.in_place);
  EXPECT_EQ(one.json, "rows.json");
  EXPECT_EQ(one.device, DeviceKind::cpu);
  EXPECT_EQ(parse<BenchAllReduceArguments>({"bench", "all-reduce", "--device", "cuda"}).device,
            DeviceKind::cuda);
  EXPECT_NE(refused({"bench", "all-reduce", "--device", "gpu"}), "");
  EXPECT_EQ(range.min_bytes, 2048U);
  EXPECT_EQ(range.max_bytes, 1048576U);
}

TEST(CommandLine, BenchStepTakesADeck) {
  const auto line = parse<BenchStepArguments>(
      {"bench", "step", "a.toml", "train.batch_size=8", "--steps", "50", "--json", "step.json"});

  EXPECT_EQ(line.deck, "a.toml");
  EXPECT_EQ(line.overrides, Texts{"train.batch_size=8"});
  EXPECT_EQ(line.steps, 50);
  EXPECT_EQ(line.json, "step.json");
}

TEST(CommandLine, MakeDataTakesRowsAndAFile) {
  const auto line =
      parse<MakeDataArguments>({"make-data", "criteo", "--rows", "1000", "--output", "a.tsv", "--seed", "7",
                                "--valid-rows", "100", "--truth", "p.txt", "--vocabulary", "50"});

  EXPECT_EQ(line.rows, 1000);
  EXPECT_EQ(line.output, "a.tsv");
  EXPECT_EQ(line.seed, 7);
  EXPECT_EQ(line.validation_rows, 100);
  EXPECT_EQ(line.truth, "p.txt");
  EXPECT_EQ(line.vocabulary, 50);
  EXPECT_NE(refused({"make-data", "criteo", "--output", "a.tsv"}), "");
  EXPECT_NE(refused({"make-data", "criteo", "--rows", "0", "--output", "a.tsv"}), "");
  EXPECT_NE(refused({"make-data", "criteo", "--rows", "9"}), "");
  EXPECT_NE(refused({"make-data"}).find("criteo"), std::string::npos);
}

TEST(CommandLine, BenchInputTakesAListOrADeck) {
  const auto list = parse<BenchInputArguments>({"bench", "input", "--list", "train.txt", "--root", "images",
                                                "--threads", "4", "--size", "160", "--filter", "antialias",
                                                "--images", "500", "--device", "cuda"});
  const auto deck =
      parse<BenchInputArguments>({"bench", "input", "a.toml", "data.threads=2", "--seconds", "1.5"});

  EXPECT_EQ(list.list, "train.txt");
  EXPECT_EQ(list.root, "images");
  EXPECT_EQ(list.threads, 4);
  EXPECT_EQ(list.size, 160);
  EXPECT_EQ(list.filter, ResizeFilter::antialias);
  EXPECT_EQ(list.images, 500);
  EXPECT_EQ(list.device, DeviceKind::cuda);
  EXPECT_EQ(deck.device, DeviceKind::cpu);
  EXPECT_EQ(deck.deck, "a.toml");
  EXPECT_EQ(deck.overrides, Texts{"data.threads=2"});
  EXPECT_EQ(deck.seconds, 1.5);
}

TEST(CommandLine, HelpIsThereOnEveryLevel) {
  EXPECT_NE(printed({"--help"}).find("evaluate"), std::string::npos);
  EXPECT_NE(printed({"train", "--help"}).find("--check"), std::string::npos);
  EXPECT_NE(printed({"bench", "--help"}).find("all-reduce"), std::string::npos);
  EXPECT_NE(printed({"bench", "all-reduce", "--help"}).find("--in-place"), std::string::npos);
  EXPECT_NE(printed({"evaluate", "--help"}).find("--vectors"), std::string::npos);
}

TEST(CommandLine, HelpAndHintsNameTheProgramAsItWasStarted) {
  const auto help = std::get<PrintedText>(parse_command_line("build/mine", {"train", "--help"}, "1")).text;

  EXPECT_NE(help.find("mine train [OPTIONS]"), std::string::npos) << help;
  EXPECT_EQ(help.find("build"), std::string::npos) << help;
  try {
    parse_command_line("build/mine", {"evaluate", "train.epochs=3"}, "1");
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "CHECKPOINT is missing; see mine evaluate --help");
  }
}

TEST(CommandLine, VersionIsTheTextGiven) {
  EXPECT_EQ(printed({"--version"}), "flotilla 1.2.3\n");
}

TEST(CommandLine, WrongUsageIsRefusedWithAHint) {
  EXPECT_NE(refused({}).find("see flotilla --help"), std::string::npos);
  const std::string unknown = refused({"fit", "a.toml"});
  EXPECT_TRUE(unknown.starts_with("there is no command \"fit\"; one of train, compare, evaluate, "))
      << unknown;
  EXPECT_TRUE(unknown.ends_with(", make-data is needed; see flotilla --help")) << unknown;
  EXPECT_NE(refused({"train"}).find("see flotilla train --help"), std::string::npos);
  EXPECT_NE(refused({"train", "train.epochs=3"}).find("DECK"), std::string::npos);
  EXPECT_NE(refused({"evaluate", "train.epochs=3"}).find("CHECKPOINT"), std::string::npos);
  EXPECT_NE(refused({"train", "a.toml", "--chek"}).find("--chek"), std::string::npos);
  EXPECT_NE(refused({"train", "a.toml", "b.toml"}).find("a.toml and b.toml"), std::string::npos);
  EXPECT_NE(refused({"export", "runs/a"}).find("OUT"), std::string::npos);
  EXPECT_EQ(refused({"bench"}),
            "a command is missing; one of all-reduce, input, step is needed; see flotilla bench --help");
  EXPECT_NE(refused({"bench", "step", "a.toml", "--steps", "0"}), "");
  EXPECT_NE(refused({"bench", "input"}), "");
  EXPECT_NE(refused({"bench", "input", "a.toml", "--list", "train.txt"}), "");
  EXPECT_NE(refused({"bench", "input", "a.toml", "--size", "64"}), "");
  EXPECT_NE(refused({"bench", "input", "--list", "train.txt", "data.flip=0"}), "");
  EXPECT_NE(refused({"bench", "input", "--list", "train.txt", "--filter", "cubic"}), "");
  EXPECT_NE(refused({"bench", "all-reduce", "--bytes", "1K", "--min", "1K"}), "");
  EXPECT_NE(refused({"bench", "all-reduce", "--min", "2K", "--max", "1K"}), "");
}

TEST(CommandLine, ASlipInACommandOrOptionGetsASuggestion) {
  EXPECT_EQ(refused({"trian", "a.toml"}),
            "there is no command \"trian\"; did you mean flotilla train? See flotilla --help");
  EXPECT_EQ(refused({"bench", "stp"}),
            "there is no command \"stp\"; did you mean flotilla bench step? See flotilla bench --help");
  EXPECT_EQ(refused({"mine.toml"}),
            "there is no command \"mine.toml\"; did you mean flotilla train mine.toml? See flotilla --help");
  EXPECT_EQ(refused({"train", "a.toml", "--chek"}),
            "there is no option --chek; did you mean --check? Or see flotilla train --help");
}

TEST(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(printed({"help"}), printed({"--help"}));
  EXPECT_EQ(printed({"help", "bench", "step"}), printed({"bench", "step", "--help"}));
  EXPECT_EQ(refused({"help", "trian"}),
            "there is no command \"trian\"; did you mean flotilla train? See flotilla --help");
}

TEST(CommandLine, KeysGivenAsOptionsAreToldHowTheyAreWritten) {
  EXPECT_EQ(refused({"train", "a.toml", "--epochs", "3"}),
            "there is no option --epochs; write train.epochs=3, or see flotilla train --help");
  EXPECT_EQ(refused({"train", "--learning-rate=0.1", "a.toml"}),
            "there is no option --learning-rate; write schedule.learning_rate=0.1 or "
            "strategy.outer.learning_rate=0.1, or see flotilla train --help");
  EXPECT_EQ(refused({"evaluate", "runs/a", "--batch-size", "8"}),
            "there is no option --batch-size; write train.batch_size=8 or validation.batch_size=8, or see "
            "flotilla evaluate --help");
  EXPECT_EQ(refused({"train", "a.toml", "--lr"}),
            "there is no option --lr; write schedule.learning_rate=VALUE, or see flotilla train --help");
  EXPECT_EQ(refused({"train", "a.toml", "--gpus", "4"}),
            "there is no option --gpus; write device.kind=VALUE, or see flotilla train --help");
  EXPECT_EQ(refused({"train", "a.toml", "--num_workers=4"}),
            "there is no option --num_workers; write data.threads=4, or see flotilla train --help");
  EXPECT_EQ(refused({"train", "a.toml", "--no-such-thing", "4"}),
            "there is no option --no-such-thing; a key of the deck is set by key.path=value (flotilla keys "
            "finds them), or see flotilla train --help");
}

TEST(CommandLine, SizesAreBytesWithOrWithoutAUnit) {
  EXPECT_EQ(bytes_from_text("512"), 512);
  EXPECT_EQ(bytes_from_text("512B"), 512);
  EXPECT_EQ(bytes_from_text("3K"), 3072);
  EXPECT_EQ(bytes_from_text("1GiB"), 1073741824);
  for (const char* wrong : {"", "0", "-1", "1.5M", "K", "1T", "1 K", "1KBB", "9223372036854775807K"}) {
    EXPECT_THROW(bytes_from_text(wrong), UserError) << wrong;
  }
}

TEST(CommandLine, PredictTakesInputsAndOverridesInAnyOrder) {
  const auto line = parse<PredictArguments>(
      {"predict", "runs/a", "a.jpg", "device.threads=2", "./b=1.jpg", "--top", "3", "--format", "jsonl"});

  EXPECT_EQ(line.checkpoint, "runs/a");
  EXPECT_EQ(line.inputs, (Texts{"a.jpg", "./b=1.jpg"}));
  EXPECT_EQ(line.overrides, Texts{"device.threads=2"});
  EXPECT_EQ(line.top, 3);
  EXPECT_EQ(line.format, PredictionFormat::jsonl);
  EXPECT_NE(refused({"predict", "runs/a", "device.threads=2"}).find("INPUT"), std::string::npos);
  EXPECT_NE(refused({"predict", "runs/a", "b", "--top", "2", "--all"}), "");
  EXPECT_NE(refused({"evaluate", "runs/a", "--output", "a.json"}).find("--json"), std::string::npos);
}

}  // namespace
}  // namespace flotilla
