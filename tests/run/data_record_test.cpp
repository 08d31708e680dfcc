#include "engine/input/data_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run/state.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

using ::testing::HasSubstr;

engine::Setup recorded_setup() {
  auto setup = engine::toy_setup(models::Precision::float32);
  setup.data.record = engine::record_of(*setup.data.train, setup.data.test.get());
  setup.data.record.class_names = {"cat", "dog", "c\xFFw"};
  return setup;
}

std::string record_refusal(const checkpoints::State& state, engine::Setup& setup) {
  return thrown<std::invalid_argument>([&] { restore_network(state, "stage1", setup); });
}

TEST(DataRecord, AStateGoesOnWithItsOwnData) {
  auto setup = recorded_setup();
  const auto state = network_state(setup, "stage1", {}, {});
  EXPECT_NO_THROW(restore_network(state, "stage1", setup));

  auto other = recorded_setup();
  std::swap(other.data.record.class_names[0], other.data.record.class_names[1]);
  const auto classes = record_refusal(state, other);
  EXPECT_THAT(classes, HasSubstr("label 0 was cat and is now dog (3 classes before, 3 now)"));

  other = recorded_setup();
  other.data.record.class_names.pop_back();
  EXPECT_THAT(record_refusal(state, other), HasSubstr("label 2 was c\\xFFw and is now none"))
      << record_refusal(state, other);

  other = recorded_setup();
  other.data.record.test->digest = "another";
  EXPECT_THAT(record_refusal(state, other),
              HasSubstr("the test set has other samples: the set was toy"))
      << record_refusal(state, other);

  other = recorded_setup();
  ++other.data.record.train.samples;
  EXPECT_THAT(record_refusal(state, other), HasSubstr("the train set has other samples"));
}

/// Files are known by their names; what is kept decoded is known by its pixels, too.
TEST(DataRecord, ImagesThatHaveChangedUnderTheirNamesAreNotTheRunsOwn) {
  auto setup = recorded_setup();
  auto& pixels = setup.data.record.train;
  pixels.pixels_of = "96 x 1 x 28 x 28";
  pixels.pixels = "before";
  const auto state = network_state(setup, "stage1", {}, {});
  EXPECT_NO_THROW(restore_network(state, "stage1", setup));
  pixels.pixels = "after";
  const auto changed = record_refusal(state, setup);
  EXPECT_THAT(changed,
              HasSubstr("the images of the train set have changed, but not their names: the "
                        "digest of all pixels was before and is now after"));
  pixels.pixels_of = "48 x 1 x 28 x 28";  // a part of them, which says nothing
  EXPECT_NO_THROW(restore_network(state, "stage1", setup));
  auto without = recorded_setup();
  restore_network(state, "stage1", without);
  EXPECT_EQ(without.data.record.train.pixels, "before");  // a later start compares again
}

TEST(DataRecord, ATestSetThatComesOrGoesIsAnotherOne) {
  auto with = recorded_setup(), without = recorded_setup();
  without.data.record.test.reset();
  const auto state = network_state(without, "stage1", {}, {});
  EXPECT_NO_THROW(restore_network(state, "stage1", without));
  EXPECT_THAT(record_refusal(state, with),
              HasSubstr("the test set has other samples: the set was none and is now"));
  const auto gone = record_refusal(network_state(with, "stage1", {}, {}), without);
  EXPECT_THAT(gone, HasSubstr(" and is now none"));
}

TEST(DataRecord, AStateWithoutOneGoesOn) {
  auto setup = recorded_setup();
  auto state = network_state(setup, "stage1", {}, {});
  ASSERT_EQ(state.scalars.erase("data"), 1U);
  EXPECT_NO_THROW(restore_network(state, "stage1", setup));
}

}  // namespace
}  // namespace dimred::run
