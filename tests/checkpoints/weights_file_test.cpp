#include "checkpoints/weights_file.h"

#include <gtest/gtest.h>

#include <set>

#include "checkpoints/weight_names.h"

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

/// Whatever wraps a network: torch.compile, DataParallel, both, a module of Lightning.
TEST(FitNames, DropsOnePrefixThatAllHave) {
  const std::set<std::string> network{"conv.weight", "fc.bias"};
  for (const std::string prefix :
       {"_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model.", "net.", "a.b.c."}) {
    WeightsFile file;
    file.tensors = {{.name = prefix + "conv.weight"}, {.name = prefix + "fc.bias"}};
    fit_names(file, network);
    EXPECT_EQ(file.tensors[0].name, "conv.weight");
    EXPECT_EQ(file.tensors[1].name, "fc.bias");
    EXPECT_EQ(remarks_on(file), "the prefix " + prefix + " of all names is dropped");
  }
  EXPECT_EQ(fitted({"conv._orig_mod.weight", "fc.bias"}, network),
            (Names{"conv.weight", "fc.bias"}));
  EXPECT_EQ(fitted({"fc.weight", "fc.bias"}, {"fc.weight", "fc.bias"}),
            (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(fitted({"model.conv.weight", "loss.weight"}, network),
            (Names{"model.conv.weight", "loss.weight"}));
}

TEST(FitNames, LeavesOutTrainingState) {
  WeightsFile file;
  for (const auto* name :
       {"module.fc.weight", "n_averaged", "moments.module.fc.weight", "learning_rate"})
    file.tensors.push_back({.name = name});
  fit_names(file, {"fc.weight"});
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0].name, "fc.weight");
  EXPECT_EQ(remarks_on(file),
            "the prefix module. of all names is dropped; left out as training state: 3 tensors "
            "(n_averaged, moments.module.fc.weight, learning_rate)");
}

TEST(ChooseWeights, LeavesOutWhatIsNoWeight) {
  const Names names{"module.fc.weight",
                    "module.bn.running_mean",
                    "module.bn.num_batches_tracked",
                    "moments.module.fc.weight",
                    "module.fc.weight.exp_avg",
                    "learning_rate",
                    "scale_sense",
                    "optimizer.state.0.step",
                    "state.0.exp_avg_sq",
                    "module.linear.weight",
                    "module.total_ops",
                    "module.labels"};
  auto floating = std::vector<bool>(names.size(), true);
  floating.back() = false;
  const auto chosen = choose_weights(names, floating);
  Names kept;
  for (const auto& name : chosen.names)
    if (name) kept.push_back(*name);
  EXPECT_EQ(kept, (Names{"fc.weight", "linear.weight"}));
  EXPECT_EQ(choose_weights({"module.a._orig_mod.b"}, {true}).names.front(), "a.b");
  EXPECT_EQ(chosen.left_out.size(), 7U);
  // A weight of that name, where no weight stands beside it.
  EXPECT_EQ(choose_weights({"moments.weight", "stat.bias"}, {true, true}).left_out, Names{});
}

/// Two tensors never become one.
TEST(FitNames, NamesThatWouldMeetStayAsTheyAre) {
  const Names names{"bn.gamma", "bn.weight"};
  EXPECT_EQ(fitted(names, {"bn.weight", "bn.bias"}), names);
}

}  // namespace
}  // namespace dimred::checkpoints
