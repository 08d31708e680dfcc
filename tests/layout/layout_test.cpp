#include "layout/layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::layout {
namespace {

const std::vector<Parameter> conv_net{
    {"conv1.weight", {3, 5, 2, 3}, MemoryFormat::channels_last},
    {"conv1.bias", {3}},
    {"scale", {}},
    {"empty", {0, 7}},
    {"conv2.weight", {4, 3, 3, 3}, MemoryFormat::contiguous},
    {"conv3.weight", {2, 4, 1, 1}, MemoryFormat::channels_last},
    {"dense.weight", {10, 17}},
};

std::string thrown_by(const std::vector<Parameter>& parameters) {
  return thrown<std::invalid_argument>([&] { make_layout(parameters); });
}

TEST(Layout, PacksFilesAndAlignsMemory) {
  const Layout layout = make_layout(conv_net);
  const std::vector<std::int64_t> file_offsets{0, 90, 93, 94, 94, 202, 210};
  const std::vector<std::int64_t> memory_offsets{0, 96, 112, 128, 128, 240, 256};
  for (std::size_t i = 0; i < conv_net.size(); ++i) {
    EXPECT_EQ(layout.entries[i].file_offset, file_offsets[i]) << i;
    EXPECT_EQ(layout.entries[i].memory_offset, memory_offsets[i]) << i;
  }
  EXPECT_EQ(layout.file_size, 380);
  EXPECT_EQ(layout.memory_size, 432);
}

// Oracle: the index formula of channels_last strides, element by element.
TEST(Layout, MovesEveryElementByTheStrideFormula) {
  const Layout layout = make_layout(conv_net);
  std::vector<float> file(static_cast<std::size_t>(layout.file_size));
  std::iota(file.begin(), file.end(), 1.0F);
  std::vector<float> expected(static_cast<std::size_t>(layout.memory_size), 0.0F);
  for (const Entry& entry : layout.entries) {
    for (std::int64_t i = 0; i < entry.size; ++i) {
      std::int64_t to = i;
      if (entry.memory_format == MemoryFormat::channels_last) {
        const std::int64_t C = entry.shape[1], H = entry.shape[2], W = entry.shape[3];
        const std::int64_t w = i % W, h = i / W % H, c = i / (W * H) % C, o = i / (W * H * C);
        to = o * (H * W * C) + h * (W * C) + w * C + c;
      }
      expected.at(static_cast<std::size_t>(entry.memory_offset + to)) =
          file.at(static_cast<std::size_t>(entry.file_offset + i));
    }
  }
  std::vector<float> memory(expected.size(), -1.0F);  // so that padding must be set to 0
  file_to_memory(layout, file, memory);
  EXPECT_EQ(memory, expected);
  std::vector<float> back(file.size(), -1.0F);
  memory_to_file(layout, memory, back);
  EXPECT_EQ(back, file);
}

// The value was computed apart, by xxHash over the text as Python's struct.pack makes it.
TEST(Layout, HashIsFixedAndIgnoresMemoryFormat) {
  std::vector<Parameter> parameters{{"conv.weight", {2, 3, 3, 3}}, {"conv.bias", {2}}};
  const std::string hash = make_layout(parameters).hash;
  EXPECT_EQ(hash, "522f5f7a4c0e9e6d3586bcf3b99d876d");
  parameters[0].memory_format = MemoryFormat::channels_last;
  EXPECT_EQ(make_layout(parameters).hash, hash);
  parameters[1].name = "conv.bia_";
  EXPECT_NE(make_layout(parameters).hash, hash);
  parameters[1] = {"conv.bias", {1, 2}};
  EXPECT_NE(make_layout(parameters).hash, hash);
}

TEST(Layout, RefusesBadParametersWithTheirName) {
  EXPECT_NE(thrown_by({}).find("at least one parameter"), std::string::npos);
  EXPECT_NE(thrown_by({{"", {1}}}).find("needs a name"), std::string::npos);
  EXPECT_NE(thrown_by({{"a", {1}}, {"a", {2}}}).find("'a' twice"), std::string::npos);
  EXPECT_NE(thrown_by({{"a", {2, -3}}}).find("received -3"), std::string::npos);
  EXPECT_NE(thrown_by({{"a", {2, 3}, MemoryFormat::channels_last}}).find("4 dimensions"),
            std::string::npos);
}

TEST(Layout, RefusesSizesThatOverflow) {
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_NE(thrown_by({{"a", {big, big}}}).find("'a' has too many elements"), std::string::npos);
  EXPECT_NE(
      thrown_by({{"a", {big, big / 64}}, {"b", {big, big / 64}}}).find("'b' makes the vector"),
      std::string::npos);
}

TEST(Layout, RefusesVectorsOfAnotherLength) {
  const Layout layout = make_layout({{"a", {3}}});
  std::vector<float> file(3), memory(16), wrong(4);
  EXPECT_THROW(file_to_memory(layout, wrong, memory), std::invalid_argument);
  EXPECT_THROW(memory_to_file(layout, wrong, file), std::invalid_argument);
}

TEST(LayoutJson, NamesTheFirstDifference) {
  const Layout ours = make_layout({{"a", {2, 3}}, {"b", {4}}});
  EXPECT_EQ(first_difference(ours, to_json(ours)), "");
  EXPECT_EQ(first_difference(ours, to_json(make_layout({{"a", {2, 3}}, {"c", {5}}}))),
            "parameter 1: expected b [4], received c [5]");
  EXPECT_EQ(first_difference(ours, to_json(make_layout({{"a", {3, 2}}, {"b", {4}}}))),
            "parameter 0: expected a [2,3], received a [3,2]");
  EXPECT_EQ(first_difference(ours, to_json(make_layout({{"a", {2, 3}}}))),
            "expected 2 parameters, received 1; the first missing parameter is b [4]");
  EXPECT_EQ(first_difference(ours, to_json(make_layout({{"a", {2, 3}}, {"b", {4}}, {"c", {}}}))),
            "expected 2 parameters, received 3; the first additional parameter is c []");
}

TEST(LayoutJson, CarriesHashNamesShapesAndOffsets) {
  const Layout layout = make_layout({{"a", {2, 3}}, {"b", {4}}});
  EXPECT_EQ(to_json(layout),
            "{\"hash\":\"" + layout.hash +
                "\",\"parameters\":[{\"name\":\"a\",\"shape\":[2,3],\"offset\":0},"
                "{\"name\":\"b\",\"shape\":[4],\"offset\":6}]}");
}

TEST(LayoutJson, ReportsADamagedText) {
  const Layout layout = make_layout({{"a", {1}}});
  for (const std::string text : {"", "[]", "{}", R"({"parameters":[{"name":3,"shape":[1]}]})"}) {
    EXPECT_THROW(first_difference(layout, text), std::runtime_error) << text;
  }
}

}  // namespace
}  // namespace dimred::layout
