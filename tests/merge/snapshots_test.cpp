#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "merge/merge.h"
#include "tests/merge/checkpoints.h"

namespace dimred::merge {
namespace {

using testing::HasSubstr;

/// Two snapshots of a run whose body did not train, and BatchNorm's statistics of the head.
class Snapshots : public testing::Test {
 protected:
  Snapshots() {
    put_frozen({f32("body.weight", {1, 2, 3}), f32("body.bias", {0.1F})});
    for (const int step : {1, 2}) put_snapshot(step);
  }
  void put_frozen(const std::vector<Stored>& tensors) const {
    fs::create_directories(folder / "run/snapshots");
    put_file(folder / "run/frozen.safetensors", safetensors(tensors));
  }
  /// The digest of the body as it is at first, recorded: those of older runs must not change.
  static std::string digest_of_frozen() { return "620aa3e6867aedcd0081d0857f369b1e"; }
  void put_snapshot(int step, const nlohmann::json& more = {{"frozen", digest_of_frozen()}}) const {
    const auto layout = layout::make_layout({{"head", {2, 2}}, {"norm.weight", {1}}});
    auto table = nlohmann::json::parse(layout::to_json(layout));
    table["buffers"] = {{{"name", "norm.running_mean"}, {"shape", {1}}},
                        {{"name", "norm.running_var"}, {"shape", {1}}}};
    table["counters"] = {
        {{"name", "norm.num_batches_tracked"}, {"shape", nlohmann::json::array()}}};
    table.update(more);
    const auto value = static_cast<float>(step);
    checkpoints::write_snapshot(
        folder / ("run/snapshots/snapshot_0000000" + std::to_string(step) + ".h5"),
        {.weights = {value, 2, 3, 4, 5},
         .buffers = {10 + value, 20 + value},
         .counters = {100 + step},
         .step = step,
         .layout_json = table.dump(),
         .layout_hash = layout.hash});
  }
  std::string refusal() const {
    const auto text = error_of([&] { merge({folder / "run"}, folder / "out", {}); });
    EXPECT_FALSE(fs::exists(folder / "out")) << text;
    return text;
  }
  std::string merged(const std::string& name) const {
    return bytes_of(folder / "out/model.safetensors", name);
  }
  TemporaryFolder folder;
};

TEST_F(Snapshots, GiveAWholeNetwork) {
  const auto report = merge({folder / "run"}, folder / "out", {});
  EXPECT_EQ(merged("head"), raw<float>({1.5, 2, 3, 4}));
  EXPECT_EQ(merged("norm.weight"), raw<float>({5}));
  EXPECT_EQ(merged("norm.running_mean"), raw<float>({12}));
  EXPECT_EQ(merged("norm.running_var"), raw<float>({22}));
  EXPECT_EQ(merged("norm.num_batches_tracked"), raw<std::int64_t>({102}));
  EXPECT_EQ(merged("body.weight"), raw<float>({1, 2, 3}));
  EXPECT_EQ(merged("body.bias"), raw<float>({0.1F}));
  EXPECT_EQ(report.bytes_read, 2 * (5 * 4 + 2 * 4 + 8) + 4 * 4);  // the frozen part once
  EXPECT_TRUE(report.left_out.empty());
}

TEST_F(Snapshots, HoldTheStepThatTheirNamesSay) {
  const auto snapshots = folder / "run/snapshots";
  fs::rename(snapshots / "snapshot_00000001.h5", snapshots / "snapshot_00000003.h5");
  const auto difference = HasSubstr("snapshot_00000003.h5' says step 3, and the file holds step 1");
  const Recipe ema{.coefficients = {.kind = Kind::ema, .decay = .5}};
  for (const auto& options : {Options{.recipe = ema},
                              Options{.recipe = {.window = {.last = 2}}},
                              Options{.sweep = {Recipe{}, ema}}})
    EXPECT_THAT([&] { merge({snapshots / "*.h5"}, folder / "out", options); },
                testing::ThrowsMessage<std::invalid_argument>(difference));
  const auto report = merge({folder / "run"}, folder / "out", {});
  EXPECT_THAT(report.remarks, testing::ElementsAre(difference));
  EXPECT_EQ(merged("head"), raw<float>({1.5, 2, 3, 4}));
}

TEST_F(Snapshots, OfAFrozenPartInAnotherTypeAndInSweeps) {
  const Recipe newest{.window = {.last = 1}};  // the frozen part is read from the other one
  merge({folder / "run"}, folder / "out", {.sweep = {Recipe{}, newest}, .dtype = "BF16"});
  for (const std::string part : {"01", "02"})
    EXPECT_EQ(bytes_of(folder / "out" / part / "model.safetensors", "body.bias"),
              bf16("", {0.1F}).bytes);
}

TEST_F(Snapshots, NeedTheFrozenPartThatTheyWereTrainedWith) {
  put_frozen({f32("body.weight", {1, 2, 3}), f32("body.bias", {0.2F})});
  EXPECT_THAT(refusal(), HasSubstr("frozen.safetensors' is not the frozen part"));
  fs::remove(folder / "run/frozen.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("because the file frozen.safetensors of the run is missing"));
  put_frozen({bf16("body.weight", {1, 2, 3}), f32("body.bias", {0.1F})});
  EXPECT_THAT(refusal(), HasSubstr("needs float32 values, received \"body.weight\" of type BF16"));
  put_snapshot(2, {{"frozen", "another"}});
  put_frozen({f32("body.weight", {1, 2, 3}), f32("body.bias", {0.1F})});
  EXPECT_THAT(refusal(), HasSubstr("were trained with different frozen parameters"));
}

TEST_F(Snapshots, OfARecorderNameWhatTheyLack) {
  for (const int step : {1, 2})
    put_snapshot(step, {{"frozen", digest_of_frozen()}, {"lacks", {"body.weight", "body.bias"}}});
  // As a person saves it: in another order, with more beside.
  put_frozen({f32("body.bias", {0.1F}), f32("body.weight", {1, 2, 3}), f32("other", {7})});
  merge({folder / "run"}, folder / "out", {});
  EXPECT_EQ(merged("body.weight"), raw<float>({1, 2, 3}));
  EXPECT_EQ(merged("other"), "no such tensor");
  fs::remove_all(folder / "out");
  put_frozen({f32("body.weight", {1, 2, 3})});
  EXPECT_THAT(
      refusal(),
      HasSubstr("has no tensor \"body.bias\"; this tensor is needed, because the snapshots"));
  fs::remove(folder / "run/frozen.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("has no values of 2 tensors (body.weight, body.bias), because"));
}

TEST_F(Snapshots, NeedNamesOfTheirBuffers) {
  put_snapshot(2, {{"buffers", nlohmann::json::array()}});
  EXPECT_THAT(
      refusal(),
      HasSubstr(
          "has 2 values, but the tensors of the layout need 0; the file is damaged, or dimred"));
  // 2^80 elements, and as many beside them as would hide a count of -1.
  const auto most = std::int64_t{1} << 40;
  put_snapshot(
      2,
      {{"buffers", {{{"name", "a"}, {"shape", {most, most}}}, {{"name", "b"}, {"shape", {3}}}}}});
  EXPECT_THAT(refusal(),
              HasSubstr("00002.h5' is damaged: the tensor \"a\" of the layout ends beyond"));
  put_snapshot(2, {{"buffers", {{{"shape", {2}}}}}});
  EXPECT_THAT(refusal(), HasSubstr("00002.h5' is damaged: the layout is not a table of tensors"));
}

}  // namespace
}  // namespace dimred::merge
