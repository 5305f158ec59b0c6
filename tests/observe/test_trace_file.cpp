// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/trace_file.hpp"
#include "tests/observe/read_back.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using nlohmann::json;

TEST(TraceFile, HoldsTheSpansOfEachThread) {
  const test::TemporaryFolder folder;
  TraceFile trace_file(folder.path("trace/rank-0002.json"), 2, 1'000'000);
  trace::Sink* train = trace_file.thread("train");
  trace::Sink* communication = trace_file.thread("communication");
  train->span("forward", 1'500'000, 1'750'250);
  communication->span("all-reduce \"0\"", 1'600'000, 2'000'000);

  trace_file.write();

  const json trace = json::parse(text_of(folder.path("trace/rank-0002.json")));
  const json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0],
            json::parse(R"({"name":"process_name","ph":"M","pid":2,"tid":0,"args":{"name":"rank 2"}})"));
  EXPECT_EQ(events[1],
            json::parse(R"({"name":"thread_name","ph":"M","pid":2,"tid":0,"args":{"name":"train"}})"));
  EXPECT_EQ(events[2], json::parse(R"({"name":"forward","ph":"X","pid":2,"tid":0,"ts":500.0,"dur":250.25})"));
  EXPECT_EQ(events[4]["name"], "all-reduce \"0\"");
  EXPECT_EQ(events[4]["tid"], 1);
  EXPECT_EQ(trace["otherData"]["dropped_spans"], 0);
}

TEST(TraceFile, CountsWhatItHasNoRoomFor) {
  const test::TemporaryFolder folder;
  TraceFile trace_file(folder.path("rank-0000.json"), 0, 0, 2);
  trace::Sink* sink = trace_file.thread("train");

  for (std::int64_t begin = 0; begin < 5; ++begin) sink->span("step", begin, begin + 1);
  trace_file.write();

  const json trace = json::parse(text_of(folder.path("rank-0000.json")));
  EXPECT_EQ(trace["traceEvents"].size(), 4U);
  EXPECT_EQ(trace["otherData"]["dropped_spans"], 3);
}

TEST(TraceFile, TakesSpansOfThreadsThatGoOnWhileItIsWritten) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t spans = 10'000;
  TraceFile trace_file(folder.path("rank-0000.json"), 0, 0);
  std::vector<std::thread> threads;
  for (const char* name : {"one", "two"}) {
    threads.emplace_back([&, name] {
      trace::record_this_thread(trace_file.thread(name));
      for (std::int64_t i = 0; i < spans; ++i) const trace::Span span("work");
    });
  }

  trace_file.write();
  EXPECT_TRUE(json::accept(text_of(folder.path("rank-0000.json"))));
  for (std::thread& thread : threads) thread.join();
  trace_file.write();

  std::map<int, std::int64_t> counts;
  const json trace = json::parse(text_of(folder.path("rank-0000.json")));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++counts[event["tid"].get<int>()];
  }
  EXPECT_EQ(counts, (std::map<int, std::int64_t>{{0, spans}, {1, spans}}));
}

TEST(TraceFile, SaysWhereItCannotWrite) {
  const test::TemporaryFolder folder;
  write_text_file_atomically(folder.path("file"), "");
  TraceFile trace_file(folder.path("file/rank-0000.json"), 0, 0);

  EXPECT_THROW(trace_file.write(), UserError);
}

}  // namespace
}  // namespace flotilla
