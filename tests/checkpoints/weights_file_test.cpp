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

std::vector<Role> roles_in(const Names& names) {
  std::vector<TypedName> typed;
  for (const auto& name : names) typed.push_back({name, "F32"});
  return checkpoints::roles_of(typed);
}

/// Returns the names that are left out.
Names left_out(const Names& names) {
  const auto roles = roles_in(names);
  Names result;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (is_left_out(roles[i])) result.push_back(names[i]);
  return result;
}

TEST(FitNames, LeavesOutTrainingState) {
  WeightsFile file;
  const Names names{"module.fc.weight", "n_averaged", "moments.module.fc.weight", "learning_rate"};
  for (std::size_t i = 0; i < names.size(); ++i)
    file.tensors.push_back({.name = names[i], .role = roles_in(names)[i]});
  fit_names(file, {"fc.weight"});
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0].name, "fc.weight");
  EXPECT_EQ(remarks_on(file),
            "the prefix module. of all names is dropped; left out as training state: 3 tensors "
            "(n_averaged, moments.module.fc.weight, learning_rate)");
}

TEST(Roles, OfTrainingStateAndStatistics) {
  const Names state{"moments.module.fc.weight",
                    "module.fc.weight.exp_avg",
                    "learning_rate",
                    "scale_sense",
                    "optimizer.state.0.step",
                    "state.0.exp_avg_sq",
                    "module.total_ops"};
  Names names{"module.fc.weight", "module.linear.weight", "module.bn.num_batches_tracked"};
  names.insert(names.end(), state.begin(), state.end());
  EXPECT_EQ(left_out(names), state);
  EXPECT_EQ(roles_in(names)[0], Role::weight);
  EXPECT_EQ(roles_in(names)[2], Role::statistic);
  // A weight of that name, where no weight stands beside it.
  EXPECT_EQ(left_out({"moments.weight", "stat.bias"}), Names{});
}

/// PyTorch's and Megatron's own layouts, at any depth, whatever the optimizer holds of a weight.
TEST(Roles, AnOptimizerIsKnownByItsLayout) {
  const Names weights{"app.model.weight", "app.model.optimizer_embedding.weight"};
  for (const Names& state :
       {Names{"app.optim.state.weight.step", "app.optim.state.weight.sum"},
        Names{"app.optim.state.weight.step", "app.optim.state.weight.unknown_slot"},
        Names{"a.b.optimizer.0.state.3.square_avg", "a.b.optimizer.0.state.3.grad_avg"},
        Names{"train.optimizer_G.state.w.step", "train.optimizer_G.param_groups.w.lr"},
        Names{"optimizers.1.step", "optimizers.1.exp_inf"},
        Names{"chained.optimizer.state.exp_avg.w", "chained.optimizer.distributed.bucket_0.param"},
        Names{"app.o.state.weight.exp_avg", "app.o.state.weight.step"},
        Names{"app.lr_schedulers.0.base", "lr_scheduler_state.rate", "optimizer_states.0.a.b"}}) {
    auto names = weights;
    names.insert(names.end(), state.begin(), state.end());
    EXPECT_EQ(left_out(names), state) << state.front();
  }
}

/// Counters that are no tensors leave slots alone, whose names no list has.
TEST(Roles, AnOptimizerIsKnownByTheNamesOfItsWeights) {
  const Names weights{"model.fc.weight", "model.fc.bias"};
  for (const Names& state :
       {Names{"optim.state.fc.weight.exp_avg_sq_row", "optim.state.fc.bias.exp_avg_sq_col"},
        Names{"optim.state.fc.weight.m", "optim.state.fc.weight.vmean"},
        Names{"app.optimizer_0.state.model.fc.weight.m", "app.optimizer_0.state.other.v"},
        Names{"optimizer.0.state.fc.weight.blocks.0.factor"},
        Names{"optimizer.fc.weight.momentum", "optimizer.fc.bias.momentum"},
        Names{"optimizer.fp32_from_fp16_params.0", "optimizer.fp32_from_fp16_params.1"},
        Names{"optimizer.single_partition_of_fp32_groups.0"}}) {
    auto names = weights;
    names.insert(names.end(), state.begin(), state.end());
    EXPECT_EQ(left_out(names), state) << state.front();
  }
  for (const Names& names : {Names{"fc.weight", "optimizer.state.gru.weight"},
                             Names{"fc.weight", "optimizer.state.weight", "optimizer.state.bias"},
                             Names{"fc.weight", "state.fc.weight.m"},
                             Names{"fc.weight", "optimizer.fc.weight", "optimizer.momentum.weight"},
                             Names{"optimizer.state.w", "optimizer.state.w.m"}})
    EXPECT_EQ(left_out(names), Names{}) << names.back();
}

TEST(Roles, OfTensorFlowsSlots) {
  EXPECT_EQ(left_out({"conv/kernel",
                      "conv/kernel/Adam",
                      "conv/kernel/Adam_1",
                      "conv/kernel/RMSProp_1",
                      "conv/kernel/Adagrad",
                      "conv/kernel/ExponentialMovingAverage",
                      "dense/kernel/Adam_1",
                      "conv.Adagrad"}),
            (Names{"conv/kernel/Adam",
                   "conv/kernel/Adam_1",
                   "conv/kernel/RMSProp_1",
                   "conv/kernel/Adagrad"}));
  EXPECT_EQ(left_out({"conv/kernel", "optimizer/iteration", "optimizer/conv_kernel_momentum"}),
            (Names{"optimizer/iteration", "optimizer/conv_kernel_momentum"}));
  EXPECT_EQ(left_out({"conv/kernel", "optimizer/dense_kernel_momentum", "net/conv_kernel_scale"}),
            Names{});
  const std::string slot = "/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_EQ(left_out({"conv/kernel/.ATTRIBUTES/VARIABLE_VALUE", "conv/kernel" + slot}),
            Names{"conv/kernel" + slot});
}

/// Modules may be called what optimizers call their own, which holds where these are nowhere.
TEST(Roles, AWordAloneMakesNoTrainingState) {
  for (const Names& names : {Names{"conv.weight", "momentum.conv.weight"},
                             Names{"conv.weight", "prev.conv.weight"},
                             Names{"weight", "linear.weight", "sum.weight", "stat.weight"},
                             Names{"w", "optimizer.net.weight", "optimizer.state.gru.weight"},
                             Names{"w", "optim.net.0.bias", "opt.lr", "optimizer.lr"},
                             Names{"w", "accum.w", "accumulation.w", "moment.w"}}) {
    EXPECT_EQ(left_out(names), Names{}) << names.back();
  }
  EXPECT_EQ(left_out({"w", "accum.w", "stat.w", "linear.v", "learning_rate"}),
            (Names{"accum.w", "stat.w", "learning_rate"}));
  EXPECT_EQ(left_out({"w", "momentum.w", "learning_rate_group_1"}).size(), 2U);
  EXPECT_EQ(left_out({"w", "w.sum", "w.momentum", "v.sum"}), (Names{"w.sum", "w.momentum"}));
}

TEST(Roles, OfOneTensor) {
  EXPECT_EQ(role_of({"fc.lora_A.weight", "BF16"}), Role::adapter);
  EXPECT_EQ(role_of({"fc.hada_w1_a", "F32"}), Role::adapter);
  EXPECT_EQ(role_of({"fc.flora_A.weight", "F32"}), Role::weight);
  EXPECT_EQ(role_of({"fc.qweight", "I32"}), Role::quantised);
  EXPECT_EQ(role_of({"fc.weight", "U8"}), Role::quantised);
  EXPECT_EQ(role_of({"fc.mask", "U8"}), Role::buffer);
  EXPECT_EQ(role_of({"fc.weight", "F8_E4M3"}), Role::quantised);
  EXPECT_EQ(role_of({"fc.weight", "C64"}), Role::weight);
  EXPECT_EQ(role_of({"bn.running_var", "F32"}), Role::statistic);
}

TEST(NetworkNames, HaveNoWrapper) {
  EXPECT_EQ(network_names({"module.a._orig_mod.b"}), Names{"a.b"});
  EXPECT_EQ(network_names({"module.a", "b"}), (Names{"module.a", "b"}));
}

/// Two tensors never become one.
TEST(FitNames, NamesThatWouldMeetStayAsTheyAre) {
  const Names names{"bn.gamma", "bn.weight"};
  EXPECT_EQ(fitted(names, {"bn.weight", "bn.bias"}), names);
}

}  // namespace
}  // namespace dimred::checkpoints
