#include "checkpoints/weights_file.h"

#include <gtest/gtest.h>

#include <set>

namespace dimred::checkpoints {
namespace {

using Names = std::vector<std::string>;

Names fitted(const Names& names, const std::set<std::string>& wanted) {
  WeightsFile file;
  for (const auto& name : names) file.tensors.push_back({.name = name});
  fit_names(file, wanted);
  Names result;
  for (const auto& tensor : file.tensors) result.push_back(tensor.name);
  return result;
}

TEST(FitNames, TakesAnotherConventionOnlyWhereItFindsMore) {
  const std::set<std::string> network{"conv.weight", "bn.weight", "bn.bias", "bn.running_mean"};
  const Names theirs{"module.conv.weight", "module.bn.gamma", "module.bn.beta"};
  EXPECT_EQ(fitted(theirs, network), (Names{"conv.weight", "bn.weight", "bn.bias"}));
  EXPECT_EQ(fitted({"conv.weight", "bn.gamma", "bn.moving_mean"}, network),
            (Names{"conv.weight", "bn.weight", "bn.running_mean"}));
  EXPECT_EQ(fitted({"module.conv.weight", "module.bn.weight"}, network),
            (Names{"conv.weight", "bn.weight"}));
  EXPECT_EQ(fitted(theirs, {"module.conv.weight", "module.bn.gamma", "module.bn.beta"}), theirs);
  EXPECT_EQ(fitted(theirs, {"other"}), theirs);
}

/// Two tensors never become one.
TEST(FitNames, NamesThatWouldMeetStayAsTheyAre) {
  const Names names{"bn.gamma", "bn.weight"};
  EXPECT_EQ(fitted(names, {"bn.weight", "bn.bias"}), names);
}

}  // namespace
}  // namespace dimred::checkpoints
