#include "training/input/train_on.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/tools/planes_dataset.h"
#include "training/input/batches.h"

namespace dimred::training {
namespace {

/// Images whose first pixels spell the index, labels = index / 30: sorted by class.
struct SortedData final : data::PlanesDataset {
  SortedData() : PlanesDataset({1, 1, 2}, 10) {}
  std::int64_t size() const override { return 300; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    scratch = {static_cast<std::uint8_t>(index / 256), static_cast<std::uint8_t>(index % 256)};
    return sample(scratch, index / 30);
  }
  std::string description() const override { return "sorted"; }
};

Setup split_setup(std::uint64_t split_seed, std::uint64_t seed) {
  Setup setup;
  const auto whole = std::make_shared<SortedData>();
  auto split = data::split_indices(whole->size(), 0.2, split_seed);
  setup.data.validation = data::subset(whole, std::move(split.held_out));
  setup.data.train = data::subset(whole, std::move(split.kept));
  setup.seed = seed;
  setup.data.global_batch_size = 10;
  return setup;
}

std::set<int> samples(const data::Dataset& dataset) {
  std::set<int> indices;
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = dataset.read(i, scratch);
    indices.insert(256 * sample.bytes[0] + sample.bytes[1]);
  }
  return indices;
}

std::set<std::int64_t> classes(const std::set<int>& indices) {
  std::set<std::int64_t> found;
  for (const int index : indices) found.insert(index / 30);
  return found;
}

TEST(TrainOn, ValidationGivesTheHalvesOfTheSplit) {
  auto setup = split_setup(1, 1);
  const auto kept = samples(*setup.data.train), held_out = samples(*setup.data.validation);
  train_on(setup, TrainOn::validation);
  const auto trained = samples(*setup.data.train), watched = samples(*setup.data.validation);
  EXPECT_EQ(trained.size(), 30U);
  EXPECT_EQ(watched.size(), 30U);
  auto both = trained;
  both.insert(watched.begin(), watched.end());
  EXPECT_EQ(both, held_out);
  for (const int index : trained) EXPECT_FALSE(kept.contains(index));
  EXPECT_EQ(setup.data.steps_per_epoch(), 3);
}

TEST(TrainOn, DependsOnTheSplitAlone) {
  auto one = split_setup(1, 1), same = split_setup(1, 7), other = split_setup(2, 1);
  for (auto* setup : {&one, &same, &other}) train_on(*setup, TrainOn::validation);
  EXPECT_EQ(samples(*one.data.train), samples(*same.data.train));
  EXPECT_EQ(one.data.train->description(), same.data.train->description());
  EXPECT_NE(samples(*one.data.train), samples(*other.data.train));
}

/// By places in the split, a sorted data set would be cut into its first and its last classes.
TEST(TrainOn, SortedDataKeepsItsClassesInBothHalves) {
  auto setup = split_setup(1, 1);
  const auto all = classes(samples(*setup.data.validation));
  train_on(setup, TrainOn::validation);
  EXPECT_EQ(classes(samples(*setup.data.train)), all);
  EXPECT_EQ(classes(samples(*setup.data.validation)), all);
}

TEST(TrainOn, TrainChangesNothing) {
  auto setup = split_setup(1, 1);
  const auto train = setup.data.train, validation = setup.data.validation;
  train_on(setup, TrainOn::train);
  EXPECT_EQ(setup.data.train, train);
  EXPECT_EQ(setup.data.validation, validation);
}

TEST(TrainOn, RefusesASetupWithoutAValidationSplit) {
  auto setup = split_setup(1, 1);
  setup.data.validation = nullptr;
  EXPECT_THROW(train_on(setup, TrainOn::validation), std::invalid_argument);
  setup.data.validation = data::subset(std::make_shared<SortedData>(), {4});
  EXPECT_THROW(train_on(setup, TrainOn::validation), std::invalid_argument);
}

TEST(TrainOn, TheNewSetsAreKeptOnTheDeviceInPlaceOfTheOld) {
  auto setup = split_setup(1, 1);
  keep_on_device(setup, DataOnDevice::yes);
  train_on(setup, TrainOn::validation);
  ASSERT_EQ(setup.data.on_device.size(), 2U);
  EXPECT_EQ(setup.data.on_device[0]->set, setup.data.train);
  EXPECT_EQ(setup.data.on_device[1]->set, setup.data.validation);
}

}  // namespace
}  // namespace dimred::training
