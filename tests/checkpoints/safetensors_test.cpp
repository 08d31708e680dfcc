#include "checkpoints/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "checkpoints/float_formats.h"
#include "checkpoints/tensor_table.h"
#include "checkpoints/weights_file.h"
#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string file_text(const std::string& header, const std::string& data) {
  return raw(std::vector<std::uint64_t>{header.size()}) + header + data;
}

TEST(Safetensors, ComesBackAsWritten) {
  const TemporaryFolder folder;
  const std::vector<FloatTensor> tensors{{"z.weight", {2, 3}, {1, -0.0F, 3, 4, 5, 6e-45F}},
                                         {"a.scale", {}, {7}},
                                         {"none", {0, 4}, {}},
                                         {"b", {2}, {8, 9}}};
  write_safetensors(folder / "t", tensors);
  const auto infos = read_safetensors_header(folder / "t");
  ASSERT_EQ(infos.size(), 4U);
  EXPECT_EQ(infos[0].offset % 8, 0);
  for (const FloatTensor& tensor : tensors) {
    const auto info = std::ranges::find(infos, tensor.name, &TensorInfo::name);
    ASSERT_NE(info, infos.end());
    EXPECT_EQ(info->shape, tensor.shape);
    const auto place = static_cast<std::size_t>(info - infos.begin());
    EXPECT_EQ(raw(read_weights(folder / "t").tensors[place].values), raw(tensor.values))
        << tensor.name;
  }
  EXPECT_EQ(infos[0].name, "z.weight");
  std::filesystem::create_symlink("t", folder / "link");  // as in Hugging Face's cache
  EXPECT_EQ(read_weights(folder / "link").tensors.size(), 4U);
}

// Bit patterns from IEEE 754-2008 binary16, table by hand; bfloat16 is the upper half of float32.
TEST(Safetensors, ConvertsHalfPrecisionExactly) {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> half{
      0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xC000, 0x3555, 0x7BFF};
  const std::vector<std::uint16_t> brain{0x3F80, 0xC2F7, 0x0001, 0x8000};
  put_file(folder / "t",
           file_text(R"({"h":{"dtype":"F16","shape":[9],"data_offsets":[0,18]},)"
                     R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[18,26]}})",
                     raw(half) + raw(brain)));
  const auto tensors = read_weights(folder / "t").tensors;
  const std::vector<float> expected{
      0.0F, -0.0F, 0x1p-24F, 0x1.ff8p-15F, 0x1p-14F, 1.0F, -2.0F, 0x1.554p-2F, 65504.0F};
  EXPECT_EQ(raw(tensors[0].values), raw(expected));
  EXPECT_EQ(raw(tensors[1].values),
            raw(std::vector<float>{1.0F, -123.5F, std::bit_cast<float>(0x00010000U), -0.0F}));
}

TEST(FloatFormats, KeepWhatIsNotFinite) {
  EXPECT_EQ(from_half(0x7C00), INFINITY);
  EXPECT_EQ(from_half(0xFC00), -INFINITY);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(from_half(0xFE01)), 0xFFC02000U);  // NaN, its payload
  EXPECT_EQ(from_bfloat(0x7F80), INFINITY);
  EXPECT_EQ(from_double(-1e39), -INFINITY);
  EXPECT_TRUE(std::isnan(from_double(NAN)));
}

// All halves there are, and the middles between neighbours as float32 has them.
TEST(FloatFormats, EachHalfComesBackAndMiddlesGoToTheEvenOne) {
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_half(half);
    EXPECT_EQ(
        value,
        std::ldexp(bits < 0x400 ? bits : bits % 0x400 + 0x400, std::max<int>(bits >> 10, 1) - 25));
    ASSERT_EQ(to_half(value), half);
    ASSERT_EQ(to_half(-value), half | 0x8000);
    const float middle = (value + (bits == 0x7BFF ? 65536.0F : from_half(half + 1))) / 2;
    ASSERT_EQ(to_half(middle), half + half % 2);
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0F)), half);
    ASSERT_EQ(to_half(std::nextafter(middle, 1e9F)), half + 1);
  }
  EXPECT_EQ(to_half(1e30F), 0x7C00);
  EXPECT_EQ(to_half(-INFINITY), 0xFC00);
  EXPECT_TRUE(std::isnan(from_half(to_half(NAN))));
}

// A double a hair beside a middle, which float32 itself would round to it.
TEST(FloatFormats, RoundingToOddKeepsTheSideOfAMiddle) {
  for (const double hair : {1e-12, -1e-12}) {
    EXPECT_EQ(to_bfloat(to_odd(0x1.01p0 + hair)), hair > 0 ? 0x3F81 : 0x3F80);
    EXPECT_EQ(to_bfloat(to_odd(-0x1.03p0 - hair)), hair > 0 ? 0xBF82 : 0xBF81);
    EXPECT_EQ(to_half(to_odd(1 + 0x1p-11 + hair)), hair > 0 ? 0x3C01 : 0x3C00);
    EXPECT_EQ(to_half(to_odd(0x1p-25 * (1 + hair))), hair > 0 ? 1 : 0);
    EXPECT_EQ(to_bfloat(to_odd(0x1p-134 * (1 + hair))), hair > 0 ? 1 : 0);
  }
  EXPECT_EQ(to_odd(0.5), 0.5F);
  EXPECT_EQ(to_bfloat(to_odd(1e300)), 0x7F80);
  EXPECT_EQ(to_half(to_odd(-1e300)), 0xFC00);
  EXPECT_EQ(to_bfloat(to_odd(-0.0)), 0x8000);
  EXPECT_TRUE(std::isnan(to_odd(NAN)));
}

TEST(Safetensors, RefusesValuesThatAreNotFiniteAsFloat) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& type, const std::string& data) {
    put_file(folder / "t",
             file_text(formatted("{}{}{}{}]}}}}",
                                 R"({"d":{"dtype":")",
                                 type,
                                 R"(","shape":[2],"data_offsets":[0,)",
                                 data.size()),
                       data));
    return read_weights(folder / "t").tensors[0].values;
  };
  using Doubles = std::vector<double>;
  EXPECT_EQ(read("F64", raw(Doubles{0.1, -3e38})), (std::vector<float>{0.1F, -3e38F}));
  for (const auto& bad : std::vector<std::pair<std::string, std::string>>{
           {"F64", raw(Doubles{1, 1e39})},
           {"F64", raw(Doubles{1, -INFINITY})},
           {"F32", raw(std::vector<float>{1, NAN})},
           {"F16", raw(std::vector<std::uint16_t>{0, 0x7C00})},
           {"BF16", raw(std::vector<std::uint16_t>{0, 0x7F80})}}) {
    EXPECT_NE(thrown<std::runtime_error>([&] {
                read(bad.first, bad.second);
              }).find("\"d\" needs values that are finite in float32, but element 1 is not finite"),
              std::string::npos)
        << bad.first;
  }
}

TEST(Safetensors, ReadsIntegersAndRefusesOtherTypes) {
  const TemporaryFolder folder;
  put_file(folder / "t",
           file_text(R"({"q":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                     R"("i":{"dtype":"I32","shape":[2],"data_offsets":[16,24]},)"
                     R"("u":{"dtype":"U8","shape":[2],"data_offsets":[24,26]}})",
                     raw(std::vector<std::int64_t>{-1, INT64_MAX}) +
                         raw(std::vector<std::int32_t>{-2, 3}) + "\xFF\x01"));
  const auto tensors = read_weights(folder / "t").tensors;
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(tensors[0].integers, (Values{-1, INT64_MAX}));
  EXPECT_EQ(tensors[1].integers, (Values{-2, 3}));
  EXPECT_EQ(tensors[2].integers, (Values{255, 1}));
  put_file(folder / "t",
           file_text(R"({"c":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "ab"));
  EXPECT_NE(
      thrown<std::runtime_error>([&] { read_weights(folder / "t"); }).find("received F8_E4M3"),
      std::string::npos);
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const TemporaryFolder folder;
  const auto write = [&](const std::vector<FloatTensor>& tensors) {
    EXPECT_THROW(write_safetensors(folder / "t", tensors), std::invalid_argument);
  };
  write({{"a", {1}, {1}}, {"a", {1}, {1}}});
  write({{"__metadata__", {1}, {1}}});
  write({{"a", {2}, {1}}});
  write({{"a", {-1, -1}, {1}}});
  write({{"a", {1}, {NAN}}});
  write({{"a", {INT64_MAX, 2}, {1}}});
  EXPECT_EQ(folder.count(), 0U);
}

// A transposed matrix costs a call for each element of a row, not all of it for each block.
TEST(Safetensors, ReadsElementsOfStridesWhereTheyLie) {
  std::vector<float> file(1000 * 100);
  std::iota(file.begin(), file.end(), 0.0F);
  const StoredTensor tensor{.name = "w",
                            .dtype = "F32",
                            .shape = {100, 1000},
                            .boxes = {box_of({100, 1000}, {0, 0}, {100, 1000}, {1, 100})}};
  std::size_t bytes = 0;
  const auto read = [&](std::size_t /*file*/, std::int64_t offset, std::span<std::byte> out) {
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(file.data()) + offset, out.size());
    bytes += out.size();
  };
  std::vector<float> values(2500);
  read_stored(read, tensor.boxes, sizeof(float), 500, std::as_writable_bytes(std::span(values)));
  for (std::int64_t i = 0; i < 2500; ++i) {
    const auto element = 500 + i;
    const auto stored = element / 1000 + element % 1000 * 100;
    ASSERT_EQ(values[i], static_cast<float>(stored));
  }
  EXPECT_EQ(bytes, 2500 * sizeof(float));
}

/// The boxes of a tensor of {5, 7, 4} that is cut behind `cuts` in each dimension, one behind the
/// other in the file; every third lies transposed there. `file` gets each element's number.
std::vector<StoredBox> boxes_cut(const std::vector<std::vector<std::int64_t>>& cuts,
                                 std::vector<std::int16_t>& file) {
  const std::vector<std::int64_t> shape{5, 7, 4};
  std::vector<StoredBox> boxes;
  for (std::size_t i = 1; i < cuts[0].size(); ++i) {
    for (std::size_t j = 1; j < cuts[1].size(); ++j) {
      for (std::size_t k = 1; k < cuts[2].size(); ++k) {
        const std::vector first{cuts[0][i - 1], cuts[1][j - 1], cuts[2][k - 1]};
        const std::vector sizes{
            cuts[0][i] - first[0], cuts[1][j] - first[1], cuts[2][k] - first[2]};
        const bool transposed = boxes.size() % 3 == 2;
        const std::vector stride{std::int64_t{1}, sizes[0], sizes[0] * sizes[1]};
        boxes.push_back(
            box_of(shape, first, sizes, transposed ? stride : std::vector<std::int64_t>{}));
        boxes.back().offset = std::ssize(file) * 2;
        const auto elements = sizes[0] * sizes[1] * sizes[2];
        const auto begin = std::ssize(file);
        file.resize(begin + elements);
        for (std::int64_t e = 0; e < elements; ++e) {
          const auto x = e / sizes[2] / sizes[1];
          const auto y = e / sizes[2] % sizes[1];
          const auto z = e % sizes[2];
          const auto place = transposed ? x + y * stride[1] + z * stride[2] : e;
          file[begin + place] =
              static_cast<std::int16_t>(((first[0] + x) * 7 + first[1] + y) * 4 + first[2] + z);
        }
      }
    }
  }
  return boxes;
}

// As tensor parallelism, FSDP or both cut a tensor: whatever is asked for arrives in the tensor's
// order, and each box is read once for it.
TEST(Safetensors, ReadsAnyRangeOfATensorThatIsCutIntoBoxes) {
  const std::vector<std::vector<std::vector<std::int64_t>>> all_cuts{
      {{0, 5}, {0, 7}, {0, 4}},
      {{0, 2, 5}, {0, 7}, {0, 4}},
      {{0, 5}, {0, 3, 4, 7}, {0, 4}},
      {{0, 5}, {0, 7}, {0, 1, 4}},
      {{0, 1, 5}, {0, 2, 7}, {0, 3, 4}}};
  for (const auto& cuts : all_cuts) {
    std::vector<std::int16_t> file;
    const auto boxes = boxes_cut(cuts, file);
    std::size_t bytes = 0;
    const auto read = [&](std::size_t, std::int64_t offset, std::span<std::byte> out) {
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(file.data()) + offset, out.size());
      bytes += out.size();
    };
    for (std::int64_t first = 0; first < 140; ++first) {
      for (std::int64_t end = first; end <= 140; ++end) {
        std::vector<std::int16_t> values(end - first);
        bytes = 0;
        read_stored(read, boxes, 2, first, std::as_writable_bytes(std::span(values)));
        for (std::int64_t i = 0; i < end - first; ++i) ASSERT_EQ(values[i], first + i);
        ASSERT_TRUE(end - first < 140 || bytes == 280U);
      }
    }
  }
}

}  // namespace
}  // namespace dimred::checkpoints
