#include "commands/run.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

TEST(Run, TextsOfFilesHoldNoCommandsToTheTerminal) {
  expect(result_of([]() -> int { throw std::runtime_error("a\x1B[31m\xC2\x9B\r\xFF"); }),
         1,
         "dimred test: error: a\\u001B[31m\\u009B\\u000D\\xFF\n");
}

TEST(Run, AFileAtItsLimitOfSizeIsAnErrorNotASignal) {
  const auto write_beyond_the_limit = []() -> int {
    const rlimit none{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    std::FILE* const file = std::tmpfile();
    setrlimit(RLIMIT_FSIZE, &none);
    const bool written = std::fputc('x', file) != EOF && std::fflush(file) == 0;
    const int error = errno;
    setrlimit(RLIMIT_FSIZE, &before);
    std::fclose(file);
    if (!written) throw std::runtime_error(std::strerror(error));
    return 0;
  };
  expect(result_of(write_beyond_the_limit), 1, "dimred test: error: File too large\n");
}

TEST(Print, EscapesWhatATerminalObeysButItsLineEnds) {
  testing::internal::CaptureStdout();
  print("a\tb\n\x1B]0;title\a");
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\tb\n\\u001B]0;title\\u0007");
}

TEST(ArgumentsAfter, LeavesOutTheFirst) {
  char a[] = "dimred", b[] = "pca", c[] = "--help";
  char* values[] = {a, b, c, nullptr};
  EXPECT_EQ(arguments_after(3, values, 1), (std::vector<std::string>{"pca", "--help"}));
  EXPECT_TRUE(arguments_after(0, values, 1).empty());
}

}  // namespace
}  // namespace dimred::commands
