#include "checkpoints/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "checkpoints/checkpoint.h"
#include "checkpoints/deepspeed_ranks.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/weights_format.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/words.h"

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
    EXPECT_EQ(remarks_on(file), "the prefix " + prefix + " was dropped from all names");
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
            "the prefix module. was dropped from all names; left out as training state: 3 tensors "
            "(n_averaged, moments.module.fc.weight, learning_rate)");
}

TEST(Roles, OfTrainingStateAndStatistics) {
  const auto state = words(
      "moments.module.fc.weight module.fc.weight.exp_avg learning_rate "
      "scale_sense optimizer.state.0.step state.0.exp_avg_sq "
      "module.total_ops");
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
        Names{"state.fc.weight.m", "state.fc.bias.m"},
        Names{"optimizer.single_partition_of_fp32_groups.0"}}) {
    auto names = weights;
    names.insert(names.end(), state.begin(), state.end());
    EXPECT_EQ(left_out(names), state) << state.front();
  }
  for (const Names& names : {Names{"fc.weight", "optimizer.state.gru.weight"},
                             Names{"fc.weight", "optimizer.state.weight", "optimizer.state.bias"},
                             Names{"fc.weight", "state.fc.weight"},
                             Names{"fc.weight", "optimizer.fc.weight", "optimizer.momentum.weight"},
                             Names{"optimizer.state.w", "optimizer.state.w.m"}})
    EXPECT_EQ(left_out(names), Names{}) << names.back();
}

/// torch.optim's names, for a number or a weight, below whatever the optimizer is called.
TEST(Roles, AnOptimizerIsKnownByItsLayoutBelowAnyName) {
  for (const auto& place :
       words("g_optimizer.state. d_optim.state. opt_gen.state. "
             "generator_opt.state. adam.state. solver.state. trainer.inner.state."))
    for (const Names& slots : {Names{"sum", "step"},
                               Names{"row_var", "col_var", "step"},
                               Names{"square_avg"},
                               Names{"acc_delta"}})
      for (const std::string weight : {"0", "weight", "l.weight"}) {
        Names names{weight == "weight" ? "model.weight" : "model.l.weight"}, state;
        for (const auto& slot : slots)
          state.push_back(std::string{place}.append(weight).append(".").append(slot));
        names.insert(names.end(), state.begin(), state.end());
        EXPECT_EQ(left_out(names), state) << state.front();
      }
  EXPECT_EQ(left_out({"l.weight", "solver.state.l.weight.m", "solver.param_groups.0.lr"}).size(),
            2U);
}

/// A weight's name with a slot before it or behind it, as optax and others write it.
TEST(Roles, AnOptimizerIsKnownByTheNamesOfWeightsWithinItsOwn) {
  for (const Names& state :
       {Names{"optimizer.mu.l.weight", "optimizer.nu.l.weight", "optimizer.count"},
        Names{"g_opt.0.mu.l.weight", "g_opt.0.nu.l.bias", "g_opt.1.count"},
        Names{"optimizer.mu.module.l.weight", "optimizer.unknown.l.bias"},
        Names{"optim.l.weight.m", "optim.l.weight.v"},
        Names{"opt_gen.l.bias.first", "opt_gen.0.l.weight.m", "opt_gen.t"},
        Names{"optimizer/l.weight/m", "optimizer/l.weight/v"},
        Names{"adam.m.l.weight", "adam.v.l.weight"},
        Names{"AdamW_optimizer.m.l.weight", "adamw.v.l.weight"},
        Names{"optim.l.weight_m", "optim.l.bias_m"},
        Names{"l.weight_exp_avg", "l.weight_exp_avg_sq"},
        Names{"l.bias_square_avg", "l.bias_acc_delta"},
        Names{"l.weight.grad", "l.bias.grad"},
        Names{"fp32_master.l.weight", "fp32_master.l.bias"},
        Names{"l.weight.main_grad", "l.bias.main_grad"},
        Names{"l.weight_moment1_0", "l.weight_moment2_0", "l.weight_beta1_pow_acc_0"},
        Names{"l.bias_fp32_master_0", "l.bias_fp32_master_0_moment1_0"},
        Names{"accu_grads.l.weight", "accu_grads.l.bias", "state_step"},
        Names{"master_params.0", "master_params.1"}}) {
    Names names{"l.weight", "l.bias"};
    names.insert(names.end(), state.begin(), state.end());
    EXPECT_EQ(left_out(names), state) << state.front();
  }
  EXPECT_EQ(left_out({"weight", "optimizer.mu.weight", "optimizer.nu.weight"}).size(), 2U);
  EXPECT_EQ(left_out({"model.weight", "optim.weight.m", "optim.weight.v"}).size(), 2U);
  EXPECT_EQ(left_out({"G.l.weight", "D.k.weight", "g_opt.mu.l.weight", "d_opt.k.weight.m"}).size(),
            2U);
}

/// A comparison of optimizers names networks after them.
TEST(Roles, TheInnermostWordIsTheOptimizer) {
  const Names networks{"adam.model.l.weight", "opt.model.l.weight"};
  const Names state{"adam.optimizer.state.0.exp_avg",
                    "adam.optimizer.state.0.step",
                    "opt.optimizer.param_groups.0.lr"};
  auto names = networks;
  names.insert(names.end(), state.begin(), state.end());
  EXPECT_EQ(left_out(names), state);
  EXPECT_EQ(left_out({"w", "optimizers.adam.state.0.exp_avg", "optimizers.lr"}).size(), 2U);
}

/// PyTorch's recipe with another key, Composer's and Flax' states.
TEST(Roles, WhatHoldsAnOptimizerAndANetworkIsNoOptimizer) {
  const std::vector<std::pair<Names, Names>> programs{
      {{"state.model.l.weight", "state.model.l.bias"},
       {"state.optim.state.l.weight.exp_avg", "state.optim.state.l.weight.step"}},
      {{"optimizer_and_model.model.l.weight"},
       {"optimizer_and_model.optim.state.l.weight.exp_avg"}},
      {{"model_optimizer.model.l.weight"}, {"model_optimizer.optim.state.0.exp_avg"}},
      {{"state.model.l.weight"}, {"state.optimizers.DecoupledAdamW.state.l.weight.exp_avg"}},
      {{"state.model.l.weight", "ema.l.weight"}, {"state.optim.state.l.weight.exp_avg"}},
      {{"state.model.l.weight"}, {"state.solver.state.l.weight.exp_avg"}},
      {{"state.params.l.kernel"},
       {"state.opt_state.0.mu.l.kernel", "state.opt_state.0.count", "state.step"}}};
  for (const auto& [networks, state] : programs) {
    auto names = networks;
    names.insert(names.end(), state.begin(), state.end());
    EXPECT_EQ(left_out(names), state) << state.front();
  }
}

/// Networks that are called what optimizers are, in part or in whole.
TEST(Roles, AModuleIsKnownByItsWeights) {
  for (const Names& names :
       {Names{"opt.0.weight", "opt.1.sum", "opt.0.momentum"},
        Names{"w", "optim.1.linear", "optim.0.bias"},
        Names{"attn.weight", "attn.opt.0.sum", "attn.opt.1.conv.weight"},
        Names{"w", "rnn.state.0.weight", "rnn.state.0.momentum"},
        Names{"w", "rnn.state.1.bias", "rnn.state.0.step"},
        Names{"encoder.weight", "optimizer.state.encoder.weight", "optimizer.state.0.weight"},
        Names{"net.weight", "optim.state.net.weight", "optim.net.weight"},
        Names{"net.0.weight", "optimizer.net.0.weight", "optimizer.encoder.0.weight"},
        Names{"encoder.0.weight", "optimizer.net.0.weight", "optimizer.0.encoder.0.weight"},
        Names{"weight", "optimizer.net.weight", "opt.0.parametrizations.weight.original0"},
        Names{"visual.proj", "optimizer.proj.weight", "rnn.state.proj.weight"},
        Names{"vision.proj.weight", "opt.attn.v.proj.weight"},
        Names{"weight", "optimizer.linear.weight", "optimizer.momentum.bias"},
        Names{"prompt.layers.0", "opt.layers.0.norm", "opt.layers.0.weight"},
        Names{"w", "w_sum", "w_linear", "w_momentum"},
        Names{"w", "lr_scheduler_net.weight", "lr_scheduler_net.bias"}})
    EXPECT_EQ(left_out(names), Names{}) << names.back();
}

TEST(Roles, NamesThatMayBeAnOptimizersAreKnown) {
  EXPECT_EQ(doubtful_names({"l.weight", "grad.l.weight", "momentum.l.weight", "momentum.k.weight"}),
            (Names{"grad.l.weight", "momentum.l.weight"}));
  EXPECT_EQ(doubtful_names({"l.weight", "optimizer.l.weight", "optimizer.net.weight"}),
            Names{"optimizer.l.weight"});
  EXPECT_EQ(doubtful_names({"w", "solver.state.0.state1", "rnn.state.0.weight", "rnn.state.bias"}),
            Names{"solver.state.0.state1"});
  EXPECT_EQ(doubtful_names({"l.weight", "m.l.weight", "v.l.weight", "mu.l.weight", "nu.l.weight"}),
            (Names{"m.l.weight", "v.l.weight", "mu.l.weight", "nu.l.weight"}));
  EXPECT_EQ(doubtful_names({"l.weight", "master.l.weight", "master.k.weight", "m.k.weight"}),
            Names{"master.l.weight"});
  EXPECT_EQ(doubtful_names({"model.l.weight", "optimizer.master.l.weight", "grads.l.weight"}),
            (Names{"optimizer.master.l.weight", "grads.l.weight"}));
  const auto beside = words("grad_accum.l.weight master_weights.l.weight lion.l.weight.m");
  Names names{"l.weight"};
  names.insert(names.end(), beside.begin(), beside.end());
  EXPECT_EQ(doubtful_names(names), beside);
  EXPECT_EQ(doubtful_names({"layers.0", "optimizer.vars.0"}), Names{"optimizer.vars.0"});
  EXPECT_EQ(doubtful_names({"model.weight", "linear.weight", "attn.m.weight"}), Names{});
  EXPECT_EQ(doubtful_names({"opt.decoder.weight", "linear.weight", "state.0"}), Names{});
}

/// torchtitan's and Composer's, beside weights.
TEST(Roles, WhatAProgramKeepsBesideWeightsIsTrainingState) {
  const Names state{"train_state.losses",
                    "dataloader.rank0",
                    "state.train_metrics.LanguageCrossEntropy.sum_loss",
                    "eval_metrics.val.Accuracy.total"};
  Names names{"tok.weight", "metrics.scale", "x.train_state.losses", "train_metrics.weight"};
  EXPECT_EQ(left_out(names), Names{});
  names.insert(names.end(), state.begin(), state.end());
  EXPECT_EQ(left_out(names), state);
  EXPECT_EQ(left_out({"train_state.params.scale", "train_state.params.l.weight"}), Names{});
}

/// Without a dot, and of no dimension alone.
TEST(Roles, ANumberCalledALossIsTrainingState) {
  std::vector<TypedName> tensors{{"l.weight", "F32"}, {"loss", "F32"}, {"acc", "F32"}};
  const Names measures{"loss", "val_loss", "acc", "val_acc1", "accuracy", "best_metric", "metrics"};
  const Names others{"logit_scale", "loss_scale_net", "train.loss", "accent", "lossy"};
  for (const auto* names : {&measures, &others})
    for (const auto& name : *names) tensors.push_back({name, "F32", true});
  const auto roles = checkpoints::roles_of(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(is_left_out(roles[i]), i >= 3 && i < 3 + measures.size()) << tensors[i].name;
  EXPECT_FALSE(is_left_out(checkpoints::roles_of({{"loss", "F32", true}})[0]));
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

TEST(Roles, OfPartsOfAdapters) {
  for (const auto& name : words("u.to_q_lora.down.weight unet.to_q.lora.up.weight "
                                "b.0.processor.qkv_lora1.down.weight l.q.lora.A l.q.loras.0.B "
                                "l.q.LoRA_A l.q.loraA.weight l.q.loraB l.q_lora_A l.q.lora_b "
                                "l.q.lora_embedding_A lora_te_l.alpha l.q.lokr_w1 l.q.hada_w1_a "
                                "l.linear_qkv.adapter.linear_in.weight "
                                "l.linear_qkv.adapter.linear_out.weight l.q.oft_blocks l.q.boft_R "
                                "l.q.vera_lambda_b"))
    EXPECT_EQ(role_of({name, "F32"}), Role::adapter) << name;
  for (const auto& name :
       words("l.attn.w_lora.lora.0.weight l.a_lora.lora.2.bias fc.flora_A.weight "
             "l.loft.r l.adapter.down.weight l.adapter.linear.weight "
             "q_a_proj.weight"))
    EXPECT_EQ(role_of({name, "F32"}), Role::weight) << name;
}

/// Words that a network's own modules have say so only where an adapter's layout stands behind
/// them.
TEST(Roles, OfAdaptersInANetwork) {
  const auto adapters = [](const Names& names) {
    std::vector<TypedName> tensors;
    for (const auto& name : names) tensors.push_back({name, "F32"});
    const auto roles = roles_of(tensors);
    Names found;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (roles[i] == Role::adapter) found.push_back(names[i]);
    return found;
  };
  for (const auto& names : {Names{"fc.weight", "block.vera_lambda"},
                            Names{"fc.weight", "block.oft.r", "block.oft.weight"},
                            Names{"fc.weight", "a.boft_s", "b.vera_lambda"},
                            Names{"fc.weight", "lora_encoder.0.weight", "lora_decoder.0.weight"},
                            Names{"fc.weight", "lora.embedding.weight"}})
    EXPECT_EQ(adapters(names), Names{}) << names.back();
  // An adapter's own file, PEFT's names, the other part or the layer that is changed beside it.
  for (const auto& names : {Names{"l.q.oft_blocks"},
                            Names{"block.vera_lambda", "block.oft.r"},
                            Names{"lora_unet_q.alpha", "lora_unet_q.oft_blocks"}})
    EXPECT_EQ(adapters(names), names);
  EXPECT_EQ(adapters({"base_model.model.q.oft_r", "base_model.model.fc.weight"}),
            Names{"base_model.model.q.oft_r"});
  EXPECT_EQ(adapters({"fc.weight", "q.vera_lambda_b", "q.vera_lambda_d"}),
            (Names{"q.vera_lambda_b", "q.vera_lambda_d"}));
  EXPECT_EQ(adapters({"q.base_layer.weight", "q.oft_R.weight", "fc.weight"}),
            Names{"q.oft_R.weight"});
  EXPECT_EQ(adapters({"fc.weight", "fc.lora_A.weight", "fc.lora_scale"}),
            (Names{"fc.lora_A.weight", "fc.lora_scale"}));
  EXPECT_EQ(adapters({"fc.weight", "fc.hada_w1_a"}), Names{"fc.hada_w1_a"});
}

TEST(Roles, TheSidesOfAnAdapterDiffer) {
  EXPECT_EQ(adapter_part("fc.lora_A.weight"), "lora_A");
  EXPECT_EQ(adapter_part("u.to_q_lora1.down.weight"), "lora1.down");
  EXPECT_EQ(adapter_part("l.q.lora_embedding_B"), "lora_embedding_B");
  EXPECT_EQ(adapter_part("l.q.hada_w1_a"), "hada_w1_a");
  EXPECT_EQ(adapter_part("l.q.loraA.weight"), "loraA");
  EXPECT_EQ(adapter_part("l.adapter.linear_in.weight"), "adapter.linear_in");
  EXPECT_EQ(adapter_part("fc.weight"), "");
}

TEST(NetworkNames, HaveNoWrapper) {
  EXPECT_EQ(network_names({"module.a._orig_mod.b"}), Names{"a.b"});
  EXPECT_EQ(network_names({"module.a", "b"}), (Names{"module.a", "b"}));
}

/// A mean of raw and averaged weights is of neither; plain weights may be of any kind.
TEST(Averaging, OfMembersIsOne) {
  const auto refusal = [](const Names& kinds) {
    std::vector<MemberFacts> members;
    for (const auto& kind : kinds)
      members.push_back({.path = kind.empty() ? "plain" : kind, .averaging = kind});
    return thrown<std::invalid_argument>([&] { require_one_averaging(members, "merge"); });
  };
  const std::string rule = "[merge] needs weights of one kind, but 'averaged' gives averaged ";
  EXPECT_THAT(refusal({"averaged", ""}),
              testing::StartsWith(rule + "weights and 'plain' does not say"));
  EXPECT_THAT(refusal({"raw", "raw", "averaged"}),
              testing::StartsWith(rule + "weights and 'raw' gives raw weights"));
  EXPECT_THAT(refusal({"raw", "averaged"}),
              testing::EndsWith("choose one with --take of merge or convert"));
  EXPECT_THAT(refusal({"", "train mode", "eval mode"}),
              testing::HasSubstr("'eval mode' gives averaged weights and 'train mode' gives raw"));
  for (const Names& kinds : {Names{"averaged", "averaged"},
                             Names{"raw", ""},
                             Names{"averaged", "eval mode"},
                             Names{"", "eval mode"},
                             Names{"", ""}})
    EXPECT_EQ(refusal(kinds), "no exception");
}

TEST(WeightsFormat, SaysWhatIsEmptyAndWhatIsPacked) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    put_file(folder / "a.pt", bytes);
    return thrown<std::invalid_argument>([&] { weights_format(folder / "a.pt"); });
  };
  EXPECT_THAT(refusal(""), testing::HasSubstr("the file is empty"));
  const std::string packed = "received a packed file, which is ";
  EXPECT_THAT(refusal("\x1f\x8b\x08 of some"),
              testing::HasSubstr(packed + "gzip; unpack the file first"));
  EXPECT_THAT(refusal("BZh91AY"), testing::HasSubstr(packed + "bzip2"));
  EXPECT_THAT(refusal("\x28\xb5\x2f\xfd of"), testing::HasSubstr(packed + "zstd"));
  EXPECT_THAT(refusal("something else"), testing::HasSubstr("TensorFlow"));
}

TEST(DeepSpeed, ExpertsBesideAModelHoldWeights) {
  const TemporaryFolder folder;
  const auto file = folder / "mp_rank_00_model_states.pt";
  put_file(file, "");
  require_all_experts(file);
  put_file(folder / "layer_0_expert_0_mp_rank_00_model_states.pt", "");
  require_all_experts(folder / "model.pt");
  EXPECT_THAT(
      [&] { require_all_experts(file); },
      testing::ThrowsMessage<std::invalid_argument>(testing::AllOf(
          testing::StartsWith("[DeepSpeed] "),
          testing::HasSubstr("'layer_0_expert_0_mp_rank_00_model_states.pt' beside it holds"))));
}

/// Two tensors never become one.
TEST(FitNames, NamesThatWouldMeetStayAsTheyAre) {
  const Names names{"bn.gamma", "bn.weight"};
  EXPECT_EQ(fitted(names, {"bn.weight", "bn.bias"}), names);
}

}  // namespace
}  // namespace dimred::checkpoints
