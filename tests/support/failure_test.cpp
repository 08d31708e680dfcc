#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <typeinfo>

#include "support/errors.h"
#include "support/scope_exit.h"

namespace dimred {
namespace {

template <class Error>
void expect_kept() {
  const auto failure = failure_of([] { throw Error("[scope] rule"); });
  std::string thrown;
  try {
    throw_failure(failure);
  } catch (const std::exception& error) {
    thrown = error.what();
    EXPECT_EQ(typeid(error), typeid(Error));
  }
  EXPECT_EQ(thrown, "[scope] rule");
}

TEST(Failure, KeepsItsKindAndItsText) {
  expect_kept<std::invalid_argument>();
  expect_kept<std::logic_error>();
  expect_kept<std::runtime_error>();
}

TEST(Failure, OfAnotherKindIsTheEnvironments) {
  const auto failure = failure_of([] { throw std::bad_alloc(); });
  EXPECT_THROW(throw_failure(failure), std::runtime_error);
  const auto unknown = failure_of([] { throw 1; });
  EXPECT_THROW(throw_failure(unknown), std::runtime_error);
}

TEST(Failure, IsEmptyWhereThereIsNone) {
  EXPECT_EQ(failure_of([] {}), "");
}

TEST(ScopeExit, LetsItsErrorThroughWhereItIsTheFirst) {
  const auto leave = [] { const ScopeExit undo([] { throw std::logic_error("of the end"); }); };
  EXPECT_THROW(leave(), std::logic_error);
}

TEST(ScopeExit, SaysItsErrorAndLetsTheFirstOneThrough) {
  const auto leave = [](const auto& second) {
    const ScopeExit undo([&] { throw second; });
    throw std::invalid_argument("first");
  };
  testing::internal::CaptureStderr();
  EXPECT_THROW(leave(std::runtime_error("second\nof two lines")), std::invalid_argument);
  EXPECT_THROW(leave(2), std::invalid_argument);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[dimred] the clean-up after an error failed: second\n[dimred] the clean-up after an "
            "error failed: unknown error\n");
}

}  // namespace
}  // namespace dimred
