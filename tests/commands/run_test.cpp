#include "commands/run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>

namespace dimred::commands {
namespace {

struct Result {
  int code;
  std::string errors;
};

template <class Action>
Result result_of(Action action) {
  testing::internal::CaptureStderr();
  const int code = run("dimred test", [&]() -> int { return action(); });
  return {code, testing::internal::GetCapturedStderr()};
}

void expect(const Result& result, int code, const std::string& errors) {
  EXPECT_EQ(result.code, code);
  EXPECT_EQ(result.errors, errors);
}

TEST(Run, PassesTheExitCodeOn) {
  expect(result_of([] { return 0; }), 0, "");
  expect(result_of([] { return 143; }), 143, "");
}

TEST(Run, CallersFaultIs2) {
  expect(result_of([]() -> int { throw std::invalid_argument("[x] rule"); }),
         2,
         "dimred test: error: [x] rule\n");
}

TEST(Run, EnvironmentsFaultAndOurBugsAre1) {
  expect(result_of([]() -> int { throw std::runtime_error("[x] broken"); }),
         1,
         "dimred test: error: [x] broken\n");
  expect(result_of([]() -> int { throw std::logic_error("internal: y"); }),
         1,
         "dimred test: error: internal: y\n");
  expect(result_of([]() -> int { throw std::bad_alloc(); }),
         1,
         "dimred test: error: not enough memory\n");
  expect(result_of([]() -> int { throw 3; }), 1, "dimred test: error: unknown exception\n");
}

TEST(Run, FileSystemErrorsNameThePath) {
  expect(result_of([]() -> int {
           std::filesystem::create_directory("/proc/nothing/here");
           return 0;
         }),
         1,
         "dimred test: error: cannot use /proc/nothing/here: No such file or directory\n");
}

TEST(Run, PrintsTheFirstLineOfATextWithAStackTrace) {
  expect(result_of([]() -> int { throw std::runtime_error("what\n  frame 1\n  frame 2"); }),
         1,
         "dimred test: error: what\n");
}

TEST(ArgumentsAfter, LeavesOutTheFirst) {
  char a[] = "dimred", b[] = "pca", c[] = "--help";
  char* values[] = {a, b, c, nullptr};
  EXPECT_EQ(arguments_after(3, values, 1), (std::vector<std::string>{"pca", "--help"}));
  EXPECT_TRUE(arguments_after(0, values, 1).empty());
}

}  // namespace
}  // namespace dimred::commands
