#include "engine/weights/frozen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoints/safetensors.h"
#include "engine/evaluate.h"
#include "run/state.h"
#include "run/weights/frozen_file.h"
#include "run/weights/matching.h"
#include "run/weights/named_weights.h"
#include "run/weights/transfer.h"
#include "run/weights/weights.h"
#include "support/errors.h"
#include "tests/tools/dropout_net.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

using ::testing::HasSubstr;

/// Two convolutions with BatchNorm; the first is frozen.
struct TwoNorms final : models::Network {
  TwoNorms() {
    conv1 = register_module("conv1", torch::nn::Conv2d(1, 4, 3));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(4));
    conv2 = register_module("conv2", torch::nn::Conv2d(4, 4, 3));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(4));
    fc = register_module("fc", torch::nn::Linear(4 * 24 * 24, 10));
  }
  torch::Tensor features(const torch::Tensor& x) { return torch::relu(norm1(conv1(x))); }
  torch::Tensor forward(torch::Tensor x) override {
    return fc(torch::relu(norm2(conv2(features(x)))).flatten(1));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear fc{nullptr};
};

engine::Setup frozen_setup(const std::shared_ptr<TwoNorms>& network,
                           layout::MemoryFormat format = layout::MemoryFormat::contiguous) {
  auto setup =
      engine::toy_setup(models::Precision::float32, std::make_shared<engine::DropoutNet>());
  torch::manual_seed(4);
  {
    const torch::NoGradGuard no_grad;
    network->norm1->running_mean.normal_();
    network->norm1->running_var.uniform_(0.5, 2);
  }
  setup.model.objective = models::classifier(network, {});
  setup.model.objective->freeze(
      [](const std::string& name) { return name.find('1') != name.npos; });
  setup.model.flat = models::flatten(*setup.model.objective, format, torch::kCPU);
  setup.model.batchnorm_layers = setup.model.objective->batchnorm_layers();
  setup.model.columns = distributed::columns_of(setup.model.flat.layout, *setup.communicator);
  engine::record_frozen_digest(setup.model);
  return setup;
}

TEST(Frozen, ParametersLeaveTheFlatVectorAndTheirNormsLeaveTheBuffers) {
  const auto setup = frozen_setup(std::make_shared<TwoNorms>());
  std::int64_t trainable = 0;
  for (const auto& parameter : setup.model.objective->parameters())
    trainable += parameter.tensor.numel();
  EXPECT_EQ(trainable, 4 * 4 * 9 + 4 + 8 + 4 * 24 * 24 * 10 + 10);
  EXPECT_EQ(setup.model.flat.layout.file_size, trainable);
  EXPECT_EQ(setup.model.flat.layout.entries.front().name, "conv2.weight");
  EXPECT_EQ(setup.model.flat.buffers.numel(), 8);  // of norm2
  EXPECT_EQ(setup.model.flat.counters.numel(), 1);
  EXPECT_EQ(setup.model.flat.frozen_layout.file_size, 4 * 9 + 4 + 8 + 8);
  EXPECT_EQ(setup.model.batchnorm_layers, 1);
}

TEST(Frozen, KeepEveryBitWhileTheOthersTrain) {
  for (const auto format :
       {layout::MemoryFormat::contiguous, layout::MemoryFormat::channels_last}) {
    const auto network = std::make_shared<TwoNorms>();
    auto setup = frozen_setup(network, format);
    auto batch = engine::first_batch(setup);
    const auto minibatch = engine::to_minibatch(setup.model, batch);
    const auto before = models::to_file(setup.model.flat.frozen_layout, setup.model.flat.frozen);
    const auto weights = setup.model.flat.weights.clone();
    const auto buffers = setup.model.flat.buffers.clone();
    network->eval();
    const auto features = network->features(minibatch.images).detach();
    for (int step = 0; step < 3; ++step) {
      engine::loss_and_gradient(setup, minibatch, minibatch.labels.size(0), {0, step});
      const torch::NoGradGuard no_grad;
      setup.model.flat.weights.sub_(0.1 * setup.model.flat.gradient);
    }
    engine::recalibrate_batchnorm(setup, 2);
    EXPECT_EQ(models::to_file(setup.model.flat.frozen_layout, setup.model.flat.frozen), before);
    EXPECT_FALSE(torch::equal(setup.model.flat.weights, weights));
    EXPECT_FALSE(torch::equal(setup.model.flat.buffers, buffers));
    // In train mode, too, the frozen layers are the function that they were in evaluation.
    setup.model.objective->logits(minibatch.images, models::Mode::train);
    EXPECT_TRUE(network->norm2->is_training());
    EXPECT_TRUE(torch::equal(network->features(minibatch.images), features));
    EXPECT_FALSE(network->conv1->weight.grad().defined());
  }
}

/// The gradient of what trains is the whole network's, where nothing else differs.
TEST(Frozen, LeaveTheOthersGradientAsItIs) {
  const auto part = std::make_shared<TwoNorms>(), whole = std::make_shared<TwoNorms>();
  auto setup = frozen_setup(part);
  {
    const torch::NoGradGuard no_grad;
    const auto from = part->named_parameters();
    for (auto& item : whole->named_parameters()) item.value().copy_(from[item.key()]);
    whole->norm1->running_mean.copy_(part->norm1->running_mean);
    whole->norm1->running_var.copy_(part->norm1->running_var);
  }
  whole->train();
  whole->norm1->eval();
  auto batch = engine::first_batch(setup);
  const auto minibatch = engine::to_minibatch(setup.model, batch);
  engine::loss_and_gradient(setup, minibatch, minibatch.labels.size(0), {0, 0});
  torch::cross_entropy_loss(whole->forward(minibatch.images), minibatch.labels).backward();
  for (const auto& [name, tensor, global_rows, first_row] : setup.model.objective->parameters())
    EXPECT_TRUE(torch::allclose(tensor.grad(), whole->named_parameters()[name].grad(), 1e-4, 1e-6))
        << name;
}

TEST(Frozen, ComeBackFromTheRunFolderBitForBit) {
  const TemporaryFolder folder;
  const auto first = frozen_setup(std::make_shared<TwoNorms>());
  keep_frozen(first, folder.path());
  auto second = frozen_setup(std::make_shared<TwoNorms>(), layout::MemoryFormat::channels_last);
  {
    const torch::NoGradGuard no_grad;
    second.model.flat.frozen.add_(1);
  }
  engine::record_frozen_digest(second.model);
  EXPECT_NE(second.model.frozen_digest, first.model.frozen_digest);
  load_frozen(second, folder.path() / "checkpoints" / "state_00000001");
  EXPECT_EQ(second.model.frozen_digest, first.model.frozen_digest);
  EXPECT_EQ(models::to_file(second.model.flat.frozen_layout, second.model.flat.frozen),
            models::to_file(first.model.flat.frozen_layout, first.model.flat.frozen));
}

TEST(Frozen, WeightsTrainedWithAnotherFrozenPartAreRefused) {
  auto setup = frozen_setup(std::make_shared<TwoNorms>());
  const auto state = network_state(setup, "stage1", {}, {});
  const auto carried = engine::carried_layout(setup.model);
  EXPECT_NO_THROW(restore_network(state, "stage1", setup));
  {
    const torch::NoGradGuard no_grad;
    setup.model.flat.frozen[0] += 1e-6;
  }
  engine::record_frozen_digest(setup.model);
  const auto error_of = [](const auto& call) { return thrown<std::invalid_argument>(call); };
  EXPECT_THAT(error_of([&] { restore_network(state, "stage1", setup); }),
              HasSubstr("was trained with other frozen parameters (digest "));
  EXPECT_THAT(error_of([&] { engine::require_same_frozen(setup.model, carried, "it"); }),
              HasSubstr("was trained with other frozen parameters (digest "));
}

TEST(Frozen, MissingOrOfAnotherNetworkIsRefused) {
  const TemporaryFolder folder;
  auto setup = frozen_setup(std::make_shared<TwoNorms>());
  const auto error_of = [&] {
    return thrown<std::invalid_argument>([&] { load_frozen(setup, folder.path()); });
  };
  EXPECT_THAT(error_of(), HasSubstr(frozen_file_name));
  checkpoints::write_safetensors(folder / frozen_file_name, {{"conv1.weight", {2}, {1, 2}}});
  EXPECT_THAT(error_of(), HasSubstr("conv1.weight"));
}

TEST(NamedWeights, OfCheckpointsWithoutAnOrderAreRefused) {
  const TemporaryFolder folder;
  const auto setup = frozen_setup(std::make_shared<TwoNorms>());
  for (const auto* name : {"a", "b"}) {
    std::filesystem::create_directory(folder / name);
    checkpoints::write_safetensors(folder / name / "step1.safetensors", {{"w", {1}, {1}}});
  }
  const auto text = thrown<std::invalid_argument>(
      [&] { named_weights(setup.model, folder / "*/step1.safetensors"); });
  EXPECT_THAT(text, HasSubstr("has no newest checkpoint, because"));
  EXPECT_THAT(text, HasSubstr("both belong to step 1"));
  std::filesystem::rename(folder / "b/step1.safetensors", folder / "b/mean.safetensors");
  std::filesystem::rename(folder / "a/step1.safetensors", folder / "b/best.safetensors");
  const auto without_steps =
      thrown<std::invalid_argument>([&] { named_weights(setup.model, folder / "b"); });
  EXPECT_THAT(without_steps, HasSubstr("because the names have no steps"));
}

/// A snapshot's tensors have their names again, the frozen ones of its run among them.
TEST(NamedWeights, OfASnapshotAreTheNetworksTensors) {
  const TemporaryFolder folder;
  auto setup = frozen_setup(std::make_shared<TwoNorms>(), layout::MemoryFormat::channels_last);
  keep_frozen(setup, folder.path());
  const auto path = checkpoints::SnapshotStore(folder / "snapshots", 3)
                        .save(start_snapshot(setup, {}, {})())
                        .path;
  const auto file = named_weights(setup.model, folder / "snapshots");
  const auto matching = match(
      setup.model,
      file,
      [](const std::string&) { return true; },
      std::vector<float>(static_cast<std::size_t>(setup.model.flat.layout.global_size)));
  EXPECT_TRUE(matching.problems.empty()) << first_problems(matching);
  EXPECT_TRUE(matching.unused.empty());
  EXPECT_EQ(matching.loaded.size(), file.tensors.size());
  for (const auto& [name, tensor, global_rows, first_row] : setup.model.objective->frozen()) {
    const auto found = std::ranges::find(file.tensors, name, &checkpoints::WeightTensor::name);
    ASSERT_NE(found, file.tensors.end()) << name;
    EXPECT_EQ(found->values, models::to_vector(tensor.contiguous().flatten())) << name;
  }
  for (const auto& [name, tensor, global_rows, first_row] : setup.model.objective->parameters()) {
    const auto found = std::ranges::find(file.tensors, name, &checkpoints::WeightTensor::name);
    ASSERT_NE(found, file.tensors.end()) << name;
    EXPECT_EQ(found->values, models::to_vector(tensor.contiguous().flatten())) << name;
  }
  // Another frozen part in the run's folder is noticed.
  {
    const torch::NoGradGuard no_grad;
    setup.model.flat.frozen[0] += 1;
  }
  keep_frozen(setup, folder.path());
  EXPECT_THAT(thrown<std::runtime_error>([&] { named_weights(setup.model, path); }),
              HasSubstr("digest"));
}

/// Two convolutions with BatchNorm, and a file with the network's tensors under `prefix`, counts as
/// floats.
struct ForeignFile {
  ForeignFile() {
    setup.model.objective = models::classifier(std::make_shared<TwoNorms>(), {});
    setup.model.flat =
        models::flatten(*setup.model.objective, layout::MemoryFormat::contiguous, torch::kCPU);
    setup.model.columns = distributed::columns_of(setup.model.flat.layout, *setup.communicator);
    for (const auto& [name, tensor, rows, first] : models::all_tensors(*setup.model.objective)) {
      const auto values = tensor.is_floating_point() ? tensor : torch::full_like(tensor, count);
      floats.push_back({name,
                        tensor.sizes().vec(),
                        models::to_vector(values.to(torch::kFloat).contiguous().flatten())});
    }
  }

  /// The answer of load_weights: the weights' note, or the refusal.
  std::string load(const std::string& prefix = "") {
    auto renamed = floats;
    for (auto& tensor : renamed) tensor.name = prefix + tensor.name;
    checkpoints::write_safetensors(folder / "w.safetensors", renamed, {});
    return failure_of([&] { weights = load_weights(setup, folder / "w.safetensors"); });
  }

  static constexpr std::int64_t count = 5;
  const TemporaryFolder folder;
  engine::Setup setup =
      engine::toy_setup(models::Precision::float32, std::make_shared<engine::DropoutNet>());
  std::vector<checkpoints::FloatTensor> floats;
  Weights weights;
};

/// Within BatchNorm's epsilon the second would train, with a wrong scale.
TEST(ForeignWeights, AVarianceBelowZeroIsRefusedWhereWeightsEnterANetwork) {
  for (const std::string name : {"norm1.running_var", "norm2.running_var"}) {
    for (const float variance : {-0.9F, -1e-6F, 0.0F}) {
      ForeignFile file;
      std::ranges::find(file.floats, name, &checkpoints::FloatTensor::name)->values[1] = variance;
      ASSERT_EQ(file.load(), "");
      Console console(/*quiet=*/true);
      TransferOptions options{.initialize_from = file.folder / "w.safetensors"};
      const auto rule = "needs running variances >= 0, received a variance below 0 in " + name;
      const auto applied = failure_of([&] { apply(file.setup.model, file.weights); });
      const auto begun = failure_of([&] { initialize(file.setup, options, {}, console); });
      EXPECT_EQ(applied.find(rule) != applied.npos, variance < 0) << applied;
      EXPECT_EQ(begun.find(rule) != begun.npos, variance < 0) << begun;
      EXPECT_EQ(begun.empty(), variance == 0) << begun;
      EXPECT_EQ(begun.find("[initialize_from] ") != begun.npos, variance < 0) << begun;
    }
  }
  ForeignFile file;
  std::ranges::find(file.floats, "norm2.running_var", &checkpoints::FloatTensor::name)->values[0] =
      -1;
  ASSERT_EQ(file.load(), "");
  file.weights.needs_recalibration = true;  // BatchNorm's statistics are estimated again
  EXPECT_EQ(failure_of([&] { apply(file.setup.model, file.weights); }), "");
}

TEST(ForeignWeights, CountsMayBeFloatsAndNamesMayHaveOnePrefix) {
  ForeignFile file;
  for (const std::string prefix : {"", "module._orig_mod.", "model."}) {
    EXPECT_EQ(file.load(prefix), "");
    EXPECT_EQ(file.weights.counters,
              (std::vector<std::int64_t>{ForeignFile::count, ForeignFile::count}));
    EXPECT_EQ(file.weights.note,
              prefix.empty() ? "" : "the prefix " + prefix + " was dropped from all names");
  }
  const auto counter = std::ranges::find_if(
      file.floats, [](const auto& tensor) { return tensor.name.ends_with("tracked"); });
  ASSERT_NE(counter, file.floats.end());
  counter->values = {0.5F};
  EXPECT_THAT(file.load(), HasSubstr("expected 1 whole numbers, received [] floats"));
}

TEST(ForeignWeights, WhatIsNotOfTheNetworkIsSaid) {
  ForeignFile file;
  file.floats.push_back({"learning_rate", {2}, {1, 2}});
  file.floats.push_back({"extra.weight", {1}, {1}});
  EXPECT_EQ(file.load(), "");
  EXPECT_EQ(
      file.weights.note,
      "left out as training state: 1 tensor (learning_rate); unused: 1 tensor (extra.weight)");
  file.floats.back().name = "conv3.weight";  // behind conv1 and conv2
  EXPECT_THAT(file.load(),
              HasSubstr("belongs to a larger model: the file has 1 more tensors than the "
                        "network, among them conv3.weight"));
  file.floats = {{"a.b", {1}, {1}}, {"c.d", {1}, {1}}};
  EXPECT_THAT(file.load(),
              HasSubstr("the file and the network have no name in common: the file has a.b, "
                        "c.d; the network has conv1.weight, conv1.bias, norm1.weight, ..."));
}

/// The frozen part that states rely on is not replaced by another start.
TEST(Frozen, StaysInTheFolderOfARunThatHasStates) {
  const TemporaryFolder folder;
  auto setup = frozen_setup(std::make_shared<TwoNorms>());
  engine::record_frozen_digest(setup.model);
  keep_frozen(setup, folder.path());
  std::filesystem::create_directories(folder / "checkpoints" / "state_00000001");
  EXPECT_NO_THROW(keep_frozen(setup, folder.path()));
  {
    const torch::NoGradGuard no_grad;
    setup.model.flat.frozen[0] += 1;
  }
  engine::record_frozen_digest(setup.model);
  const auto error_of = thrown<std::invalid_argument>([&] { keep_frozen(setup, folder.path()); });
  EXPECT_THAT(error_of, HasSubstr("and the checkpoint have different frozen parameters"));
}

}  // namespace
}  // namespace dimred::run
