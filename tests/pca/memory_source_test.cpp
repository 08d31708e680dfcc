#include "pca/memory_source.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "pca/fit.h"
#include "pca/parameter_choice.h"
#include "support/errors.h"
#include "tests/pca/matrices.h"
#include "tests/pca/sources.h"

namespace dimred::pca {
namespace {

using testing::all_of;

template <class T>
MemoryTensor tensor(const std::string& name,
                    const std::vector<std::int64_t>& shape,
                    const std::string& dtype,
                    std::span<const T> values,
                    std::int64_t stride = 1) {
  return {name, shape, dtype, std::as_bytes(values).data(), stride};
}

TEST(MemorySource, ReadsTheRowsOfAMatrixWhateverTheirStride) {
  const std::vector<double> columns{0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23};  // Fortran order
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto values = std::span(columns).subspan(i);
    rows.push_back({formatted("row {}", i), {tensor<double>("", {4}, "F64", values, 3)}});
  }
  const auto source = memory_source(rows);
  EXPECT_EQ(source->rows(), 3);
  EXPECT_EQ(source->info().names[1], "row 1");
  EXPECT_EQ(source->info().layout_json, "");
  EXPECT_TRUE(source->info().files.empty());
  EXPECT_EQ(all_of(*source), (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}));
}

TEST(MemorySource, JoinsTensorsOfAllFloatTypesWithoutRunningStatistics) {
  const std::vector<float> single{1, 2};
  const std::vector<double> wide{3};
  const std::vector<std::uint16_t> half{0x4400, 0x4500};  // 4, 5
  const std::vector<std::uint16_t> brain{0x40C0};         // 6
  const std::vector<float> statistics{9, 9};
  const MemoryRow row{"a",
                      {tensor<float>("weight", {2, 1}, "F32", single),
                       tensor<float>("none", {0}, "F32", {}),
                       tensor<double>("scale", {}, "F64", wide),
                       tensor<float>("bn.running_mean", {2}, "F32", statistics),
                       tensor<std::uint16_t>("half", {2}, "F16", half),
                       tensor<std::uint16_t>("brain", {1}, "BF16", brain)}};
  const auto source = memory_source({row});
  EXPECT_EQ(all_of(*source), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(source->info().float64);
  std::vector<double> values(4);
  source->read_float64(0, 1, values);
  EXPECT_EQ(values, (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(source->info().layout_json.find("running_mean"), std::string::npos);
}

TEST(MemorySource, GivesTheColumnsOfChosenParameters) {
  const std::vector<float> a{1, 2};
  const std::vector<double> b{3, 4, 5 + 1e-12};
  const std::vector<float> c{6};
  const MemoryRow row{"row",
                      {tensor<float>("a", {2}, "F32", a),
                       tensor<double>("b", {3}, "F64", b),
                       tensor<float>("c", {1}, "F32", c)}};
  const auto source = chosen_parameters(memory_source({row, row}), {"c", "b"});
  EXPECT_EQ(all_of(*source), (std::vector<float>{3, 4, 5, 6, 3, 4, 5, 6}));
  std::vector<double> values(2);
  source->read_float64(1, 2, values);
  EXPECT_EQ(values, (std::vector<double>{5 + 1e-12, 6}));
  EXPECT_EQ(source->info().layout_json.find("\"a\""), std::string::npos);
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              chosen_parameters(memory_source({row}), {"d"});
            }).find("needs names of parameters in the snapshots, received the unknown name d"),
            std::string::npos);
}

TEST(MemorySource, RefusesOtherShapesAndTypesByName) {
  const std::vector<float> values(6);
  const auto row = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    return MemoryRow{name, {tensor<float>("fc.weight", shape, "F32", values)}};
  };
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({row("a", {2, 3}), row("b", {3, 2})});
            }),
            "[snapshots] 'b' has another layout than 'a': parameter 0: expected fc.weight "
            "[2,3], received fc.weight [3,2]");
  const MemoryRow longer{"c", {tensor<float>("", {5}, "F32", values)}};
  const MemoryRow shorter{"d", {tensor<float>("", {4}, "F32", values)}};
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({longer, shorter});
            }),
            "[snapshots] 'd' has another layout than 'c': expected 5 values, received 4");
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({{"e", {tensor<float>("", {6}, "I32", values)}}});
            }),
            "[pca] needs values of float32, float64, float16 or bfloat16, received I32");
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({{"e", {tensor<float>("count", {6}, "I32", values)}}});
            }),
            "[pca] 'e' holds no float values");
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({{"f", {}}});
            }),
            "[pca] 'f' holds no float values");
}

TEST(MemorySource, RefusesComplexWeightsByNameAndLeavesOutOthers) {
  const std::vector<float> values{1, 2, 3, 4};
  const auto weight = tensor<float>("fc.weight", {4}, "F32", values);
  const auto row = [&](const std::string& name, const std::string& dtype) {
    return std::vector<MemoryRow>{{"a", {weight, tensor<float>(name, {2}, dtype, values)}}};
  };
  EXPECT_EQ(thrown<std::invalid_argument>([&] { memory_source(row("phases", "C64")); }),
            "[pca] 'a': \"phases\" holds complex weights (C64); save the real and the imaginary "
            "part as two tensors");
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              memory_source(row("fc.bias", "C128"));
            }).find("\"fc.bias\" holds complex weights (C128)"),
            std::string::npos);
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              memory_source({{"b", {tensor<float>("", {2}, "C64", values)}}});
            }),
            "[pca] 'b' holds complex values (C64); give the real and the imaginary part as two "
            "vectors");
  for (const auto* name : {"bn.running_mean", "fc.weight.exp_avg"})
    EXPECT_EQ(all_of(*memory_source(row(name, "C64"))), values);
}

TEST(MemorySource, AFitNamesTheParameterThatIsNotFinite) {
  const TemporaryFolder folder;
  std::vector<float> values{1, 2, 3, 4, 5, std::numeric_limits<float>::infinity()};
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto weight = std::span<const float>(values).subspan(i);
    rows.push_back({formatted("step {}", i),
                    {tensor<float>("fc.weight", {1, 3}, "F32", weight),
                     tensor<float>("fc.bias", {1}, "F32", weight.subspan(i == 2 ? 3 : 0))}});
  }
  EXPECT_EQ(thrown<std::invalid_argument>(
                [&] { fit(*memory_source(rows), testing::options_of(1), folder / "p.npy"); }),
            "[pca] needs finite snapshots, received inf in row 2 (step 2), column 3 (of "
            "parameter fc.bias)");
}

}  // namespace
}  // namespace dimred::pca
