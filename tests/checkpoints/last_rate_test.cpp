#include "checkpoints/last_rate.h"

#include <gtest/gtest.h>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

std::optional<double> rate_of(const std::string& curve) {
  const TemporaryFolder run;
  put_file(run / "curve.csv", curve);
  return last_learning_rate(run.path());
}

TEST(LastRate, IsThatOfTheLastWholeRow) {
  const std::string head = "stage,epoch,learning_rate,test_loss\n";
  EXPECT_EQ(rate_of(head + "stage1,1,0.05,2\nstage1,2,0,1\n"), 0);
  EXPECT_EQ(rate_of(head + "stage1,1,0.05,2\nstage1,2,0"), 0.05);  // still being written
  EXPECT_EQ(rate_of(head + "stage1,1,0.025,\n"), 0.025);
}

TEST(LastRate, IsUnsetWhereNoRowHasOne) {
  EXPECT_EQ(rate_of(""), std::nullopt);
  EXPECT_EQ(rate_of("stage,learning_rate\n"), std::nullopt);
  EXPECT_EQ(rate_of("stage,learning_rate,epoch\nstage2,,1\n"), std::nullopt);
  EXPECT_EQ(rate_of("stage,epoch\nstage1,1\n"), std::nullopt);
  EXPECT_EQ(rate_of("stage,learning_rate\nstage1,0.1x\n"), std::nullopt);
  const TemporaryFolder run;
  EXPECT_EQ(last_learning_rate(run.path()), std::nullopt);
  EXPECT_EQ(last_learning_rate({}), std::nullopt);
}

}  // namespace
}  // namespace dimred::checkpoints
