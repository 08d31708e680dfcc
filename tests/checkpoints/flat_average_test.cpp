#include "checkpoints/flat_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<StoredTensor> tensors_of(
    const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, shape] : shapes) tensors.push_back({name, "F32", shape});
  return tensors;
}

std::vector<std::string> kept(std::vector<StoredTensor> tensors, bool averaged) {
  const auto both = flat_averages(tensors);
  EXPECT_EQ(both.size(), 1U);
  keep_one_kind(tensors, both.at(0), averaged);
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(FlatAverage, IsFoundBesideItsRawWeights) {
  const auto found = [](const std::map<std::string, std::vector<std::int64_t>>& shapes) {
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& [averaged, raw] : flat_averages(tensors_of(shapes)))
      names.emplace_back(averaged, raw);
    return names;
  };
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {2}}}), ElementsAre(std::pair("ema.", "")));
  EXPECT_THAT(found({{"model.a.w", {2}}, {"model_ema.a.w", {2}}, {"model_ema.decay", {}}}),
              ElementsAre(std::pair("model_ema.", "model.")));
  EXPECT_THAT(found({{"app.net.w", {2}}, {"app.swa.w", {2}}}),
              ElementsAre(std::pair("app.swa.", "app.net.")));
  EXPECT_THAT(found({{"m.w", {2}}, {"ema1.w", {2}}, {"ema2.w", {2}}}),
              ElementsAre(std::pair("ema1.", "m."), std::pair("ema2.", "m.")));
  // Another shape, a tensor without a raw one, two networks, a module of the network.
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {3}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {2}}, {"ema.v", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"g.w", {2}}, {"d.w", {2}}, {"ema.w", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"l.fc.w", {2}}, {"l.ema_gate.damping", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"schema.w", {2}}}), IsEmpty());
}

TEST(FlatAverage, TakesTheNamesOfTheRawWeights) {
  const auto tensors = tensors_of(
      {{"ema.decay", {}}, {"ema.w", {2}}, {"model.count", {1}}, {"model.w", {2}}, {"other", {9}}});
  EXPECT_THAT(kept(tensors, false), UnorderedElementsAre("model.count", "model.w", "other"));
  EXPECT_THAT(kept(tensors, true), UnorderedElementsAre("model.count", "model.w", "other"));
  const auto bare = tensors_of({{"a.ema.w", {2}}, {"a.w", {2}}});
  EXPECT_THAT(kept(bare, true), ElementsAre("a.w"));
}

TEST(FlatAverage, IsChosenInAnyFormat) {
  const TemporaryFolder folder;
  const auto file = folder / "w.safetensors";
  write_safetensors(file, {{"ema.w", {2}, {1, 2}}, {"w", {2}, {3, 4}}});
  const auto begin_of = [&](const std::string& take) {
    const auto checkpoint = open_checkpoint(file, {.take = take});
    EXPECT_EQ(checkpoint.averaging, take);
    EXPECT_EQ(checkpoint.tensors.size(), 1U);
    EXPECT_EQ(checkpoint.tensors.at(0).name, "w");
    float value = 0;
    TensorReader(checkpoint)
        .read(checkpoint.tensors[0], 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  };
  EXPECT_EQ(begin_of("raw"), 3);
  EXPECT_EQ(begin_of("averaged"), 1);
  const auto both = open_checkpoint(file);
  EXPECT_EQ(both.tensors.size(), 2U);
  EXPECT_THAT(both.remarks, ElementsAre(HasSubstr("their average (ema.*) are both read")));
  write_safetensors(file, {{"ema1.w", {1}, {1}}, {"ema2.w", {1}, {2}}, {"w", {1}, {3}}});
  EXPECT_EQ(open_checkpoint(file, {.take = "raw"}).tensors.size(), 1U);
  EXPECT_THAT(
      thrown<std::invalid_argument>([&] { open_checkpoint(file, {.take = "averaged"}); }),
      HasSubstr("has several kinds of averaged weights: ema1., ema2.; save one of them alone"));
  write_safetensors(file, {{"w", {1}, {3}}});
  EXPECT_THAT(thrown<std::invalid_argument>([&] { open_checkpoint(file, {.take = "averaged"}); }),
              HasSubstr("needs raw and averaged weights, received"));
}

}  // namespace
}  // namespace dimred::checkpoints
