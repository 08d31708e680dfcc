#include "support/suggestion.h"

#include <gtest/gtest.h>

namespace dimred {
namespace {

TEST(Nearest, FindsTypingErrorsAndPartsOfNames) {
  const std::vector<std::string> names = {"batch_size", "learning_rate", "residual_momentum", "to"};
  EXPECT_EQ(nearest("bacth_size", names), "batch_size");  // two letters swapped
  EXPECT_EQ(nearest("batchsize", names), "batch_size");   // one missing
  EXPECT_EQ(nearest("learning_rates", names), "learning_rate");
  EXPECT_EQ(nearest("lerning_rat", names), "learning_rate");  // two edits in eleven letters
  EXPECT_EQ(nearest("momentum", names), "residual_momentum");
  EXPECT_EQ(nearest("use_the_batch_size_of", names), "batch_size");
  EXPECT_EQ(nearest("zzzzzz", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest("batch_size", {}), std::nullopt);
  const std::string endless = std::string(std::size_t{10} << 20, 'e') + "batch_size";
  EXPECT_EQ(nearest(endless, names), std::nullopt);
}

}  // namespace
}  // namespace dimred
