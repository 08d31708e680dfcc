// gtest's main for tests that see LibTorch. The process ends here: else LibTorch takes its
// operators out of their tables one by one, a tenth of a second.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int count, char** values) {
  testing::InitGoogleTest(&count, values);
  const int code = RUN_ALL_TESTS();
  std::fflush(nullptr);
  std::_Exit(code);
}
