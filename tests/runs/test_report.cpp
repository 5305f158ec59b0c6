// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runs/program.hpp"

// `flotilla report` over real trainings, and its page in a real browser without a window.

namespace flotilla::test {
namespace {

/// Two short trainings with a strategy each, of 2 ranks; 25 reports and 2 validations.
void train_two_runs(const TemporaryFolder& folder) {
  for (const char* strategy : {"all-reduce", "local-sgd"}) {
    std::vector<std::string> arguments = {"train",
                                          source_path("inputs/mnist_mlp.toml"),
                                          "run.output=" + folder.path(strategy),
                                          "device.threads=1",
                                          "train.epochs=2",
                                          "train.batch_size=200",
                                          "run.log_every=2",
                                          "checkpoint.every=25",
                                          std::string("strategy.kind=") + strategy};
    if (strategy == std::string("local-sgd")) arguments.emplace_back("strategy.period=4");
    const Result result = flotilla(2, arguments);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
}

/// The name of an installed Chromium or Chrome; empty: there is none.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const Result found = run({"sh", "-c", std::string("command -v ") + name});
    if (found.exit_code == 0) return name;
  }
  return "";
}

/// Opens a page in a window of this width; ends when it is drawn.
Result browse(const std::string& page, int width, const TemporaryFolder& folder, const std::string& what) {
  return run({browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
              "--user-data-dir=" + folder.path("browser"), "--enable-logging=stderr",
              "--virtual-time-budget=5000", "--window-size=" + std::to_string(width) + ",2000", what,
              "file://" + page});
}

/// The text between `begin` and `end`, the first time they occur in a text.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

/// Text with a script that uses the page as a user does and leaves what it saw as attributes of the page.
std::string with_a_user(std::string page) {
  const std::string user = R"(<script>
    const seen = document.documentElement.dataset;
    const one = (what) => document.querySelector(what);
    const key = (name) => one('#chart-loss').dispatchEvent(new KeyboardEvent('keydown', { key: name }));
    const names = () => [...document.querySelectorAll('#results tbody td:first-child')].map((cell) => cell.textContent).join();
    seen.wider = document.documentElement.scrollWidth - innerWidth;
    one('#results th button').click();
    seen.ascending = names() + ' ' + one('#results th').getAttribute('aria-sort');
    one('#results th button').click();
    seen.descending = names() + ' ' + one('#results th').getAttribute('aria-sort');
    key('ArrowRight');
    seen.tip = one('#tip').hidden ? '' : one('#tip').textContent;
    seen.cursors = document.querySelectorAll('.cursor[visibility=visible]').length;
    key('+');
    seen.zoomed = seen.to - seen.from;
    key('0');
    seen.whole = seen.to - seen.from;
    for (const button of document.querySelectorAll('.card button')) button.click();
    seen.logarithmic = document.querySelectorAll('.card button[aria-pressed=true]').length;
    for (const axis of ['epoch', 'time', 'samples', 'step']) one('#x-' + axis).click();
    one('#legend input').click();
    seen.left = document.querySelectorAll('#chart-loss .curve').length;
    one('#legend input').click();
    one('#share').click();
    one('#theme').click();
  </script>)";
  return page.replace(page.rfind("</body>"), 0, user);
}

TEST(Report, OfRealRunsIsDrawnByABrowser) {
  const TemporaryFolder folder;
  train_two_runs(folder);
  const std::string page = folder.path("both.html");
  const Result made = run({FLOTILLA_EXECUTABLE, "report", folder.path("all-reduce"), folder.path("local-sgd"),
                           "--output", page, "--svg", folder.path("svg"), "--csv", folder.path("csv")});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.errors, "");
  EXPECT_TRUE(std::filesystem::exists(folder.path("svg/loss.svg")));
  EXPECT_EQ(count(read_file(folder.path("csv/all-reduce-steps.csv")), "\r\n"), 1 + 25);
  EXPECT_EQ(count(read_file(folder.path("csv/local-sgd-validations.csv")), "\r\n"), 1 + 2);
  if (run({"sh", "-c", "command -v xmllint"}).exit_code == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("svg")))
      EXPECT_EQ(run({"xmllint", "--noout", entry.path().string()}).errors, "");
  }
  if (browser().empty()) GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";

  for (const int width : {1280, 400}) {
    const std::string picture = folder.path("picture.png");
    const Result shot = browse(page, width, folder, "--screenshot=" + picture);
    ASSERT_EQ(shot.exit_code, 0) << shot.errors;
    EXPECT_GT(std::filesystem::file_size(picture), 30000U);
    EXPECT_EQ(shot.errors.find("CONSOLE"), std::string::npos) << shot.errors;

    write_file(folder.path("used.html"), with_a_user(read_file(page)));
    const Result used = browse(folder.path("used.html"), width, folder, "--dump-dom");
    const std::string root = between(used.output, "<html", ">");
    EXPECT_EQ(used.errors.find("CONSOLE"), std::string::npos) << used.errors;
    EXPECT_EQ(root.find("data-errors"), std::string::npos)
        << between(used.output, "id=\"problem\"", "</div>");
    const auto seen = [&](const std::string& name) { return between(root, "data-" + name + "=\"", "\""); };
    EXPECT_EQ(seen("charts"), "7") << root;  // loss, accuracy, rate, throughput, step, period, memory
    EXPECT_EQ(seen("panels"), "2");
    EXPECT_EQ(seen("wider"), "0") << "pixels by which the page is wider than its window";
    EXPECT_EQ(seen("ascending"), "all-reduce,local-sgd ascending");
    EXPECT_EQ(seen("descending"), "local-sgd,all-reduce descending");
    EXPECT_EQ(seen("cursors"), "9");
    EXPECT_EQ(count(seen("tip"), "step "), 5) << seen("tip");
    EXPECT_EQ(seen("whole"), "50");
    EXPECT_LT(std::stod(seen("zoomed")), 40.0);
    EXPECT_EQ(seen("logarithmic"), "7");
    EXPECT_EQ(seen("left"), "2");
    EXPECT_NE(root.find("class=\"dark\""), std::string::npos) << root;
  }
}

TEST(Report, DrawsEveryPointAndEscapesWhatFilesSay) {
  const TemporaryFolder folder;
  std::string metrics =
      R"({"event":"start","time":1,"deck":"</script><b id=planted>","workers":1,"hosts":1,)"
      R"("steps":9,"steps_per_epoch":3,"first_step":0,"global_batch_size":1,"parameters":1})"
      "\n";
  for (int step = 1; step <= 9; ++step)
    metrics += R"({"event":"step","time":2,"step":)" + std::to_string(step) + R"(,"loss":)" +
               (step == 5 ? "null" : "1." + std::to_string(step)) + "}\n";
  const std::string name = "<b id=planted> & ";
  std::filesystem::create_directories(folder.path(name));
  write_file(folder.path(name) + "/metrics.jsonl", metrics);
  write_file(folder.path(name) + "/deck.toml", "# </script><b id=planted>\n[run]\nseed = 1\n");
  write_file(folder.path(name) + "/failure.json",
             R"({"rank":0,"ranks":1,"host":"h","step":9,"what":"</script><b id=planted>","exit_code":3})");
  const Result made = run({FLOTILLA_EXECUTABLE, "report", folder.path(name)});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.output, "wrote " + folder.path(name) + "/report.html\n");
  if (browser().empty()) GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";

  std::filesystem::rename(folder.path(name) + "/report.html", folder.path("report.html"));
  const Result dom = browse(folder.path("report.html"), 800, folder, "--dump-dom");

  EXPECT_EQ(between(dom.output, "<html", ">").find("data-errors"), std::string::npos) << dom.output;
  const std::string drawn = dom.output.substr(0, dom.output.find("<script"));
  EXPECT_EQ(drawn.find("<b id="), std::string::npos);
  EXPECT_EQ(between(dom.output, "<h1 id=\"title\">", "</h1>"), "&lt;b id=planted&gt; &amp; ");
  const std::string curve =
      between(between(dom.output, "id=\"chart-loss\"", "</svg>"), "class=\"curve thin\" d=\"", "\"");
  EXPECT_EQ(count(curve, ","), 8) << curve;  // a gap for the fifth
  EXPECT_EQ(count(curve, "M"), 2) << curve;
  EXPECT_EQ(count(between(dom.output, "id=\"events\"", "</section>"), "<tr>"), 1 + 2);
}

/// A run's folder: 40 reports of a step each, the first of them slow, and a validation of 1000 samples.
void write_run(const TemporaryFolder& folder, const std::string& name, double accuracy,
               const std::string& deck = "") {
  std::string metrics =
      R"({"event":"start","time":1,"workers":2,"steps":40,"steps_per_epoch":40,"global_batch_size":8})"
      "\n";
  for (int step = 1; step <= 40; ++step)
    metrics += R"({"event":"step","time":2,"step":)" + std::to_string(step) +
               R"(,"loss":1,"samples_per_s":80,"step_s":)" + (step == 1 ? "5" : "0.1") +
               (step == 20 ? R"(,"slowest_rank":1,"slowest_cost_s":0.5})" : "}") + "\n";
  metrics += R"({"event":"validation","time":3,"step":40,"loss":1,"samples":1000,"accuracy_top1":)" +
             std::to_string(accuracy) + "}\n";
  std::filesystem::create_directories(folder.path(name));
  write_file(folder.path(name) + "/metrics.jsonl", metrics);
  if (!deck.empty()) write_file(folder.path(name) + "/deck.toml", deck);
}

/// The page of these runs after its script, and after `user`, a script that uses it.
std::string drawn_page(const TemporaryFolder& folder, const std::vector<std::string>& runs, int width = 1300,
                       const std::string& user = "") {
  const std::string page = folder.path("page.html");
  std::vector<std::string> command = {FLOTILLA_EXECUTABLE, "report", "--output", page};
  for (const std::string& name : runs) command.push_back(folder.path(name));
  const Result made = run(command);
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  if (browser().empty()) return "";
  std::string text = read_file(page);
  write_file(page, text.insert(text.rfind("</body>"), "<script>" + user + "</script>"));
  const std::string dom = browse(page, width, folder, "--dump-dom").output;
  EXPECT_EQ(between(dom, "<html", ">").find("data-errors"), std::string::npos) << dom;
  return dom.substr(0, dom.find("<script"));
}

TEST(Report, ShowsOutliersStragglersAndTiesAsTheyAre) {
  const TemporaryFolder folder;
  write_run(folder, "a", 0.9126);
  write_run(folder, "b", 0.9134);  // both are 91.3 % of 1000 samples
  write_run(folder, "c", 0.5);
  write_run(folder, "d", 0.4);
  const std::string page = drawn_page(folder, {"a", "b", "c", "d"});
  if (page.empty()) GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";

  for (const char* name : {"loss", "accuracy", "samples_per_s", "step_s"}) {
    const std::string chart = between(page, std::string("id=\"chart-") + name + "\"", "</svg>");
    const bool of_time = std::string(name).ends_with("_s");
    EXPECT_EQ(count(between(chart, "class=\"stragglers\"", "</g>"), "<rect"), of_time ? 4 : 0) << name;
    EXPECT_EQ(count(chart, "class=\"beyond\""), std::string(name) == "step_s" ? 4 : 0) << name;
  }
  EXPECT_EQ(count(page, "4 outliers beyond the edge: show"), 1);
  EXPECT_EQ(count(page, "a worker was late"), 2);
  EXPECT_EQ(count(page, "<strong>91.3\u202f%</strong>"), 2);
  EXPECT_EQ(count(page, "class=\"tied\""), 2 * 2) << "best and last accuracy of two runs";
  EXPECT_EQ(count(page, "class=\"best\""), 0);
  const std::string events = between(page, "id=\"events\"", "</details>");
  EXPECT_EQ(count(events, "<span class=\"straggler\">4 stragglers</span>"), 1) << events;
  EXPECT_EQ(count(events, "<details open"), 0);
}

TEST(Report, FoldsRunsThatDifferInTheSeedOnly) {
  const TemporaryFolder folder;
  for (const int seed : {1, 2, 3})
    write_run(folder, "a-s" + std::to_string(seed), 0.90 + 0.01 * seed,
              "[run]\nseed = " + std::to_string(seed) + "\n");
  write_run(folder, "b", 0.5, "[run]\nseed = 1\n[train]\nepochs = 9\n");
  const std::vector<std::string> runs = {"a-s1", "b", "a-s2", "a-s3"};
  const std::string page = drawn_page(folder, runs);
  if (page.empty()) GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";
  const auto part = [](const std::string& text, const std::string& id) {
    return between(text, "id=\"" + id + "\"", "</svg>");
  };

  EXPECT_EQ(count(page, "<strong>92.0\u202f%<small> ± 1.0\u202f%</small></strong>"), 1);
  EXPECT_EQ(count(page, "<td class=\"best\">92.0\u202f%<small>± 1.0\u202f%</small></td>"), 2);
  const std::string rows = between(between(page, "id=\"results\"", "</section>"), "<tbody>", "</tbody>");
  EXPECT_EQ(count(rows, "<tr"), 2) << rows;
  EXPECT_EQ(count(part(page, "chart-loss"), "class=\"deviation thin\""), 1);
  EXPECT_EQ(count(part(page, "chart-loss"), "class=\"curve thin\""), 2);
  EXPECT_GT(count(page, "mean ± standard deviation of the seeds"), 0);

  const std::string open = drawn_page(folder, runs, 1300, "document.querySelector('.opener').click();");
  EXPECT_EQ(count(open, "<tr class=\"member\">"), 3);
  EXPECT_EQ(count(part(open, "chart-loss"), "class=\"deviation"), 0);
  EXPECT_EQ(count(part(open, "chart-loss"), "class=\"curve thin\""), 4);
  EXPECT_EQ(count(between(open, "id=\"legend\"", "id=\"axis\""), "<label"), 2 + 3);
}

TEST(Report, ShowsTheClassesOfAnEvaluation) {
  const TemporaryFolder folder;
  write_run(folder, "a", 0.5);
  const std::string bare = drawn_page(folder, {"a"});
  if (bare.empty()) GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";
  EXPECT_EQ(count(bare, "/evaluation.json</code>"), 1) << "how to get them";
  write_file(
      folder.path("a/evaluation.json"),
      R"({"checkpoint":"c.h5","step":20,"data":"pets","samples":4,"confusion":[[1,1],[0,2]],"classes":[)"
      R"({"class":"<cat>","samples":2,"predicted":1,"correct":1},)"
      R"({"class":"dog","samples":2,"predicted":3,"correct":2}]})");
  const std::string part = between(drawn_page(folder, {"a"}), "id=\"classes\"", "</section>");

  EXPECT_EQ(
      count(
          part,
          "c.h5 (step 20<span class=\"fault\">, the run went on to step 40: evaluate again</span>) on pets"),
      1)
      << part;
  EXPECT_EQ(count(part, ">&lt;cat&gt;<"), 1 + 2) << "in the list, in a row and a column of the matrix";
  EXPECT_EQ(count(part, "50.0\u202f%"), 1) << part;
  EXPECT_EQ(count(part, "dog (1)"), 1);
  EXPECT_EQ(count(part, "<td class=\"count\""), 2 * 2);
}

TEST(Report, ShowsWhereATableHasMoreThanIsSeen) {
  const TemporaryFolder folder;
  write_run(folder, "a", 0.9);
  write_run(folder, "b", 0.8);
  if (drawn_page(folder, {"a", "b"}).empty())
    GTEST_SKIP() << "the page was not opened: no browser is installed (chromium)";
  const auto cues = [&](const std::string& left) {
    const std::string page =
        drawn_page(folder, {"a", "b"}, 700,
                   "const box = document.querySelector('#results .scroll'); box.scrollLeft = " + left +
                       "; box.dispatchEvent(new Event('scroll'));");
    const std::string classes =
        between(between(page, "id=\"results-body\"", "<table"), "<div class=\"scroll", "\"");
    return std::pair(count(classes, "more-left"), count(classes, "more-right"));
  };
  EXPECT_EQ(cues("0"), std::pair(0, 1));
  EXPECT_EQ(cues("40"), std::pair(1, 1));
  EXPECT_EQ(cues("9999"), std::pair(1, 0));
}

TEST(Report, LeavesOutFoldersWithoutAStepWhereSeveralAreGiven) {
  const TemporaryFolder folder;
  for (const char* name : {"run", "new", "data"}) std::filesystem::create_directories(folder.path(name));
  write_file(folder.path("run/metrics.jsonl"), R"({"event":"step","time":1,"step":1,"loss":1})"
                                               "\n");
  write_file(folder.path("new/metrics.jsonl"), "");
  const std::string page = folder.path("page.html");

  const Result made = run({FLOTILLA_EXECUTABLE, "report", folder.path("new"), folder.path("run"),
                           folder.path("data"), "--output", page});
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(count(made.errors, "it is left out\n"), 2) << made.errors;
  EXPECT_NE(made.errors.find("'" + folder.path("data") + "' is no folder of a run"), std::string::npos)
      << made.errors;
  EXPECT_TRUE(std::filesystem::exists(page));

  const Result refused = run({FLOTILLA_EXECUTABLE, "report", folder.path("new"), folder.path("data")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("none of the folders is a run"), std::string::npos) << refused.errors;
}

TEST(Report, NamesTheMistakeAndWritesNothing) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("run"));
  const std::string lines = "{\"event\":\"step\",\"time\":1,\"step\":1,\"loss\":1}\n";
  write_file(folder.path("run/metrics.jsonl"), lines);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part) {
    std::vector<std::string> command = {FLOTILLA_EXECUTABLE, "report"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Result result = run(command);
    EXPECT_EQ(result.exit_code, 2) << part;
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
    EXPECT_EQ(count(result.errors, "\n"), 1) << result.errors;
  };

  refused({}, "RUN is required");
  refused({folder.path("none")}, "there is no run");
  refused({folder.path("run"), folder.path("run")}, "is given twice");
  refused({folder.path("run"), "--output", folder.path("run/metrics.jsonl")},
          "it is the file that is being read");
  refused({folder.path("run"), "--output", folder.path("none/a.html")},
          "give a name in a folder that can be written");
  refused({folder.path("run"), "--svg", folder.path("run/metrics.jsonl")}, "--svg");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run"});
  EXPECT_EQ(read_file(folder.path("run/metrics.jsonl")), lines);
}

}  // namespace
}  // namespace flotilla::test
