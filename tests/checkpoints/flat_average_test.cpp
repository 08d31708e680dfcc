#include "checkpoints/flat_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "support/formatted.h"
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

using Kinds = std::vector<std::pair<std::string, std::string>>;

/// Returns what averages and their raw weights are called.
Kinds found(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  Kinds names;
  for (const auto& both : flat_averages(tensors_of(shapes)))
    names.emplace_back(both.averaged, both.raw);
  return names;
}

TEST(FlatAverage, IsFoundBesideItsRawWeights) {
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {2}}}), ElementsAre(std::pair("ema.*", "*")));
  EXPECT_THAT(found({{"model.a.w", {2}}, {"model_ema.a.w", {2}}, {"model_ema.decay", {}}}),
              ElementsAre(std::pair("model_ema.*", "model.*")));
  EXPECT_THAT(found({{"app.net.w", {2}}, {"app.swa.w", {2}}}),
              ElementsAre(std::pair("app.swa.*", "app.net.*")));
  EXPECT_THAT(found({{"m.w", {2}}, {"ema1.w", {2}}, {"ema2.w", {2}}}),
              ElementsAre(std::pair("ema1.*", "m.*"), std::pair("ema2.*", "m.*")));
  // A wrapper of one kind or of both, the end of names, a word that a layer may have.
  EXPECT_THAT(found({{"a.w", {2}}, {"ema.module.a.w", {2}}, {"ema.n_averaged", {}}}),
              ElementsAre(std::pair("ema.module.*", "*")));
  EXPECT_THAT(found({{"module.a.w", {2}}, {"ema.module.a.w", {2}}}),
              ElementsAre(std::pair("ema.*", "*")));
  EXPECT_THAT(found({{"a.w", {2}}, {"a.w_ema", {2}}, {"b", {2}}, {"b_ema", {2}}, {"c", {9}}}),
              ElementsAre(std::pair("*_ema", "*")));
  EXPECT_THAT(found({{"w", {2}}, {"w_ema", {2}}, {"w_swa", {2}}}),
              ElementsAre(std::pair("*_ema", "*"), std::pair("*_swa", "*")));
  EXPECT_THAT(found({{"a.w", {2}}, {"shadow.a.w", {2}}}), ElementsAre(std::pair("shadow.*", "*")));
  EXPECT_THAT(found({{"model.w", {2}}, {"shadow_params.w", {2}}}),
              ElementsAre(std::pair("shadow_params.*", "model.*")));
  EXPECT_THAT(found({{"model.a.w", {2}}, {"ema.shadow.a.w", {2}}, {"ema.decay", {}}}),
              ElementsAre(std::pair("ema.shadow.*", "model.*")));
  EXPECT_THAT(found({{"model.module.w", {2}}, {"ema.w", {2}}}),
              ElementsAre(std::pair("ema.*", "model.module.*")));
  EXPECT_THAT(
      found({{"model.l.w", {2}}, {"model_ema.lw", {2}}, {"model_ema.decay", {}}, {"vae.w", {9}}}),
      ElementsAre(std::pair("model_ema.*", "model.*")));
  EXPECT_THAT(found({{"model.w", {2}}, {"avg.w", {2}}}),
              ElementsAre(std::pair("avg.*", "model.*")));
  EXPECT_THAT(found({{"a.w", {2}}, {"b.w", {2}}, {"averaged.a.w", {2}}, {"averaged.b.w", {2}}}),
              ElementsAre(std::pair("averaged.*", "*")));
}

TEST(FlatAverage, IsNoLayerAndNoOtherNetwork) {
  // Another shape, a tensor without a raw one, two networks, a module of the network.
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {3}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"ema.w", {2}}, {"ema.v", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"g.w", {2}}, {"d.w", {2}}, {"ema.w", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"l.fc.w", {2}}, {"l.ema_gate.damping", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"schema.w", {2}}}), IsEmpty());
  // Two names that are the same without dots.
  EXPECT_THAT(found({{"model.a.b.w", {2}}, {"model.ab.w", {2}}, {"ema.abw", {2}}}), IsEmpty());
  // Pooling, whose branches have the same shapes.
  EXPECT_THAT(found({{"avg.w", {2}}, {"max.w", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"avg.c.w", {2}},
                     {"avg.c.b", {2}},
                     {"max.c.w", {2}},
                     {"max.c.b", {2}},
                     {"fc.w", {2}},
                     {"fc.b", {2}}}),
              IsEmpty());
  // Layers called shadow, one with a raw partner among others without, and a codebook's buffers.
  EXPECT_THAT(found({{"light.w", {2}}, {"shadow.w", {3}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"shadow.w", {2}}, {"shadow.v", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"a.w", {2}}, {"b.w", {2}}, {"fc.w", {2}}, {"shadow.fc.w", {2}}}), IsEmpty());
  EXPECT_THAT(found({{"embed", {4, 2}}, {"embed_avg", {4, 2}}, {"cluster_size", {4}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"w_ema", {3}}}), IsEmpty());
  EXPECT_THAT(found({{"w", {2}}, {"w_ema", {2}}, {"v_ema", {2}}}), IsEmpty());
}

TEST(FlatAverage, WithoutOneSetOfRawWeightsIsNamed) {
  const auto unpaired = [](const std::map<std::string, std::vector<std::int64_t>>& shapes) {
    EXPECT_THAT(flat_averages(tensors_of(shapes)), IsEmpty());
    return unpaired_averages(tensors_of(shapes));
  };
  EXPECT_THAT(unpaired({{"model.w", {2}}, {"ema.w", {2}}, {"ema.v", {2}}}), ElementsAre("ema.*"));
  EXPECT_THAT(unpaired({{"model.w", {2}}, {"head.w", {2}}, {"ema.w", {2}}}), ElementsAre("ema.*"));
  EXPECT_THAT(unpaired({{"m.w", {2}}, {"ema_0.99.w", {2}}, {"ema_0.999.w", {2}}}),
              ElementsAre("ema_0.*"));
  EXPECT_THAT(unpaired({{"w", {2}}, {"w_ema", {2}}, {"v_ema", {2}}}), ElementsAre("*_ema"));
  EXPECT_THAT(unpaired({{"a.b.w", {2}}, {"ema_a_b_w", {2}}}), ElementsAre("ema_*"));
  // Layers.
  EXPECT_THAT(unpaired({{"avg.w", {2}}, {"max.w", {2}}}), IsEmpty());
  EXPECT_THAT(unpaired({{"l.ema_gate.d", {2}}, {"a", {2}}, {"b", {2}}, {"c", {2}}, {"d", {2}}}),
              IsEmpty());
}

TEST(FlatAverage, OfManyNamesIsSoughtInOrder) {
  std::vector<StoredTensor> tensors;
  for (int i = 0; i < 30'000; ++i)
    for (const auto& name : {formatted("layers.{}.avg_proj.weight", i),
                             formatted("layers.{}.max_proj.weight", i),
                             formatted("layers.{}.w_ema{}", i, i),
                             formatted("layers.{}.w", i)})
      tensors.push_back({name, "F32", {2}});
  EXPECT_THAT(flat_averages(tensors), IsEmpty());
  EXPECT_THAT(unpaired_averages(tensors), IsEmpty());
}

TEST(FlatAverage, TakesTheNamesOfTheRawWeights) {
  const auto tensors = tensors_of(
      {{"ema.decay", {}}, {"ema.w", {2}}, {"model.count", {1}}, {"model.w", {2}}, {"other", {9}}});
  EXPECT_THAT(kept(tensors, false), UnorderedElementsAre("model.count", "model.w", "other"));
  EXPECT_THAT(kept(tensors, true), UnorderedElementsAre("model.count", "model.w", "other"));
  const auto bare = tensors_of({{"a.ema.w", {2}}, {"a.w", {2}}});
  EXPECT_THAT(kept(bare, true), ElementsAre("a.w"));
  const auto wrapped = tensors_of({{"a.w", {2}}, {"ema.module.a.w", {2}}, {"ema.n_averaged", {}}});
  const auto ended = tensors_of({{"a.w", {2}}, {"a.w_ema", {2}}});
  for (const bool averaged : {false, true})
    for (const auto& each : {wrapped, ended}) EXPECT_THAT(kept(each, averaged), ElementsAre("a.w"));
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
  EXPECT_THAT(both.remarks,
              ElementsAre("raw weights (*) and their average (ema.*) are both read; with --take "
                          "raw or averaged, merge, convert and diff read one of them"));
  write_safetensors(file, {{"ema1.w", {1}, {1}}, {"ema2.w", {1}, {2}}, {"w", {1}, {3}}});
  EXPECT_EQ(open_checkpoint(file, {.take = "raw"}).tensors.size(), 1U);
  EXPECT_THAT(
      thrown<std::invalid_argument>([&] { open_checkpoint(file, {.take = "averaged"}); }),
      HasSubstr("has several kinds of averaged weights: ema1.*, ema2.*; save one of them alone"));
  write_safetensors(file, {{"m.w", {2}, {1, 2}}, {"ema.w", {2}, {3, 4}}, {"ema.v", {2}, {5, 6}}});
  EXPECT_THAT(open_checkpoint(file).remarks,
              ElementsAre("names say average, but are read as those of weights: ema.*"));
  for (const std::string take : {"raw", "averaged"})
    EXPECT_THAT(thrown<std::invalid_argument>([&] { open_checkpoint(file, {.take = take}); }),
                HasSubstr("with other names that say average: ema.*; save one kind"));
  write_safetensors(file, {{"w", {1}, {3}}});
  EXPECT_THAT(thrown<std::invalid_argument>([&] { open_checkpoint(file, {.take = "averaged"}); }),
              HasSubstr("needs raw and averaged weights, received"));
}

}  // namespace
}  // namespace dimred::checkpoints
