#include "support/json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  all.reserve(bytes + text.size());
  while (all.size() < bytes) all += text;
  return all;
}

std::string json_refusal(const std::string& text) {
  return thrown<std::runtime_error>([&] { parse_json(text, "file.json"); });
}

/// VmHWM in bytes; from here on that of what comes if `reset`.
double peak(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << 5;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  return 0;
}

TEST(Json, IsReadAsTheLibraryDoes) {
  const std::string text = R"({"b": [1, -2.5, "x\n\u00e9", {}], "a": {"d": null, "c": true}})";
  EXPECT_EQ(parse_json(text, "x"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF" + text, "x"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_ordered_json(text, "x").dump(), nlohmann::ordered_json::parse(text).dump());
  EXPECT_EQ(parse_json(std::string(32, '[') + std::string(32, ']'), "x").size(), 1U);
}

TEST(Json, AnErrorSaysFileLineAndColumn) {
  EXPECT_EQ(
      json_refusal("{\n \"a\": 1,\n \"b\" 2}"),
      "file.json: the text is not JSON, line 3, column 6: unexpected number literal; expected ':'");
  EXPECT_EQ(json_refusal(""),
            "file.json: the text is not JSON, line 1, column 1: the text is empty");
  EXPECT_EQ(json_refusal("["),
            "file.json: the text is not JSON, line 1, column 2: unexpected end of input; expected "
            "'[', '{', or "
            "a literal");
  EXPECT_EQ(json_refusal("{\"a\": {\"b\": 1, \"b\": 2}}"), "file.json: b: given twice");
  EXPECT_EQ(json_refusal("[1,\n" + std::string(33, '[')),
            "file.json: line 2, column 32: needs at most 32 levels of nesting");
  EXPECT_NE(json_refusal("[1e999]").find("file.json: the text is not JSON: "), std::string::npos);
  EXPECT_LT(json_refusal("[" + std::string(1'000'000, 'x')).size(), 200U);
}

TEST(Json, MembersOfAnObjectAreTakenOneByOne) {
  const std::string text = R"({"b": [1, {"c": [-2.5, "x"]}, []], "a": {"d": null}, "e": true})";
  auto all = nlohmann::json::object();
  std::string order;
  for_each_member(text, "x", {}, [&](const std::string& name, const nlohmann::json& value) {
    all[name] = value;
    order += name;
  });
  EXPECT_EQ(all, nlohmann::json::parse(text));
  EXPECT_EQ(order, "bae");
  const auto refusal = [](const std::string& wrong) {
    return thrown<std::runtime_error>([&] {
      for_each_member(wrong, "x", {}, [](const std::string& name, const nlohmann::json&) {
        if (name == "stop") fail_environment("stopped");
      });
    });
  };
  EXPECT_EQ(refusal(R"({"a": 1, "b": {"c": 1}, "a": 2})"), "x: a: given twice");
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "b": 2}})"), "x: b: given twice");
  EXPECT_EQ(refusal("[1]"), "x: needs a JSON object {...}");
  EXPECT_EQ(refusal("1"), "x: needs a JSON object {...}");
  EXPECT_EQ(refusal(R"({"a": 1, "stop": 2, "a": 3})"), "stopped");  // the rest is not read
  EXPECT_NE(refusal(R"({"a": 1)").find("x: the text is not JSON, line 1, column 8: "),
            std::string::npos);
}

// Texts that took up to a hundred times their bytes; nothing is made of them.
TEST(Json, TakesAtMostTheTextAnd64MegabytesForAnyText) {
  if (!std::ofstream("/proc/self/clear_refs")) GTEST_SKIP() << "this system counts no peaks";
  constexpr std::size_t size = 8'000'000;
  for (const std::string& text : {repeated("[", size),
                                  repeated("{\"a\":", size),
                                  "[" + repeated("0,", size),
                                  "[" + repeated("{},", size),
                                  "[" + repeated("[[]],", size),
                                  "[" + repeated("\"\",", size),
                                  "[" + repeated("\"0123456789abcdef\",", size),
                                  "[\"" + repeated("x", size) + "\"]",
                                  repeated("9", size)}) {
    const auto before = peak(true);
    EXPECT_NE(json_refusal(text).find("needs at most"), std::string::npos) << text.substr(0, 20);
    EXPECT_LE(peak(false) - before, 64e6) << text.substr(0, 20);
  }
}

// As much as the limits let pass: their estimate is no less than what the library holds.
TEST(Json, TheMemoryCountedIsNoLessThanWhatItTakes) {
  if (!std::ofstream("/proc/self/clear_refs")) GTEST_SKIP() << "this system counts no peaks";
  const auto numbered = [](const char* before, const char* after, int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text.append(i == 0 ? "" : ",").append(before).append(std::to_string(i)).append(after);
    return text;
  };
  for (const std::string& text : {"[" + numbered("", "", 1'100'000) + "]",
                                  "[" + numbered("\"a long name for a class ", "\"", 360'000) + "]",
                                  "{" + numbered("\"", "\":0", 270'000) + "}",
                                  "[" + numbered("{\"", "\":[]}", 145'000) + "]"}) {
    const auto before = peak(true);
    EXPECT_GT(parse_json(text, "x").size(), 100'000U);
    EXPECT_LE(peak(false) - before, 64e6) << text.substr(0, 20);
  }
}

// With a look at all earlier names for each of them this would take a minute.
TEST(Json, AnOrderedObjectHasAsManyNamesAsAMixtureOfExpertsHasTensors) {
  constexpr int count = 60'000;
  std::string text = "{";
  for (int i = count; i > 0; --i) text += formatted("{}\"{}\":[{}]", i == count ? "" : ",", i, i);
  const auto json = parse_ordered_json(text + "}", "x", own_json_limits);
  EXPECT_EQ(json.size(), count);
  EXPECT_EQ(json.begin().key(), "60000");
  EXPECT_EQ(std::prev(json.end()).value(), nlohmann::ordered_json({1}));
  EXPECT_EQ(json.dump(), text + "}");
  const auto said = thrown<std::runtime_error>(
      [&] { parse_ordered_json(text + ",\"7\":0}", "x", own_json_limits); });
  EXPECT_EQ(said, "x: 7: given twice");
}

}  // namespace
}  // namespace dimred
