#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoints/weights_file.h"
#include "support/binary.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

using std::string_literals::operator""s;
using Numbers = std::vector<std::uint64_t>;

/// A file with entries, descriptions of tensors, and their data.
struct Gguf {
  std::uint32_t version = 3;
  std::vector<std::string> entries, tensors;
  std::string data;

  std::string text() const {
    std::string file = "GGUF";
    append(file, version);
    append(file, tensors.size());
    append(file, entries.size());
    for (const auto& part : entries) file += part;
    for (const auto& part : tensors) file += part;
    return file.append((32 - file.size() % 32) % 32, '\0') + data;
  }
};

std::string tensor_of(const std::string& name,
                      const Numbers& extents,
                      std::uint32_t type,
                      std::uint64_t offset) {
  std::string part;
  append(part, std::tuple(name, static_cast<std::uint32_t>(extents.size())));
  for (const auto extent : extents) append(part, extent);
  append(part, std::tuple(type, offset));
  return part;
}

/// An entry of the description.
template <class... Values>
std::string entry_of(const std::string& key, std::uint32_t type, const Values&... values) {
  std::string entry;
  append(entry, std::tuple(key, type, values...));
  return entry;
}

/// A text, a list of texts, a list of bytes and a number.
std::vector<std::string> some_entries() {
  using std::string;
  return {entry_of("general.architecture", 8, string("convnet")),
          entry_of("tokens", 9, std::uint32_t{8}, std::uint64_t{2}, string("a"), string("bc")),
          entry_of("kinds", 9, std::uint32_t{0}, std::uint64_t{3}) + "xyz",
          entry_of("context_length", 10, std::uint64_t{4096})};
}

/// [2, 3] in float32, 2 in bfloat16, a number.
Gguf network() {
  Gguf file{.entries = some_entries(),
            .tensors = {tensor_of("a.weight", {3, 2}, 0, 0),
                        tensor_of("a.bias", {2}, 30, 32),
                        tensor_of("count", {}, 27, 64)}};
  for (const auto bits : {0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000, 0x40C00000})
    append(file.data, static_cast<std::uint32_t>(bits));
  file.data.resize(32);
  append(file.data, std::uint16_t{0x3F80});
  append(file.data, std::uint16_t{0xC020});
  file.data.resize(64);
  append(file.data, std::int64_t{7});
  return file;
}

WeightsFile weights_of(const std::string& text) {
  const TemporaryFolder folder;
  put_file(folder / "m.gguf", text);
  return read_weights(folder / "m.gguf");
}

std::string refusal(const std::string& text) {
  return thrown<std::runtime_error>([&] { weights_of(text); });
}

std::string refusal(const Gguf& file) { return refusal(file.text()); }

TEST(Gguf, HasTheValuesInTheOrderOfItsShape) {
  const auto file = weights_of(network().text());
  EXPECT_EQ(file.format, "GGUF");
  ASSERT_EQ(file.tensors.size(), 3U);
  const auto& [weight, bias, count] = std::tie(file.tensors[0], file.tensors[1], file.tensors[2]);
  EXPECT_EQ(weight.name, "a.weight");
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(weight.values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(bias.values, (std::vector<float>{1, -2.5}));
  EXPECT_TRUE(count.shape.empty());
  EXPECT_EQ(count.integers, (std::vector<std::int64_t>{7}));
}

TEST(Gguf, TakesEveryTypeWithoutQuantisation) {
  constexpr std::array<std::uint32_t, 8> types{0, 1, 24, 25, 26, 27, 28, 30};
  constexpr std::uint16_t half = 0xC100, bfloat = 0xC020;
  Gguf file;
  const auto add = [&](auto value) {
    const auto i = file.tensors.size();
    file.tensors.push_back(tensor_of("abcdefgh"s.substr(i, 1), {1}, types[i], 32 * i));
    file.data.resize(32 * i);
    file.data.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(-2.5F), add(half), add(std::int8_t{-3}), add(std::int16_t{-300}), add(-70'000);
  add(std::int64_t{-5'000'000'000}), add(-2.5), add(bfloat);
  for (const std::uint32_t version : {2, 3}) {
    file.version = version;
    const auto read_back = weights_of(file.text()).tensors;
    ASSERT_EQ(read_back.size(), 8U);
    for (const int i : {0, 1, 6, 7}) EXPECT_EQ(read_back[i].values, std::vector<float>{-2.5}) << i;
    std::vector<std::int64_t> integers;
    for (const int i : {2, 3, 4, 5}) integers.push_back(read_back[i].integers.at(0));
    EXPECT_EQ(integers, (std::vector<std::int64_t>{-3, -300, -70'000, -5'000'000'000}));
  }
}

TEST(Gguf, BeginsTheDataAtItsOwnAlignment) {
  Gguf file{.entries = {entry_of("general.alignment", 4, std::uint32_t{4096})},
            .tensors = {tensor_of("a", {1}, 0, 0), tensor_of("b", {1}, 0, 4096)}};
  auto text = file.text();
  text.resize(4096);
  append(text, 0x3F800000U);
  text.resize(8192);
  append(text, 0x40000000U);
  const auto tensors = weights_of(text).tensors;
  EXPECT_EQ(tensors[0].values, std::vector<float>{1});
  EXPECT_EQ(tensors[1].values, std::vector<float>{2});
  for (const auto& entry : {entry_of("general.alignment", 4, std::uint32_t{0}),
                            entry_of("general.alignment", 6, std::uint32_t{32})}) {
    file.entries = {entry};
    EXPECT_THAT(refusal(file), testing::HasSubstr("needs general.alignment as a UINT32 > 0"));
  }
}

TEST(Gguf, IsRefusedWhereverItIsCut) {
  const auto text = network().text();
  for (std::size_t length = 4; length < text.size(); ++length)
    EXPECT_THAT(refusal(text.substr(0, length)),
                testing::AllOf(testing::StartsWith("[GGUF] '"),
                               testing::HasSubstr("m.gguf': the data are incomplete: ")))
        << length;
}

TEST(Gguf, RefusesWhatItCannotRead) {
  const auto with = [](const std::string& tensor) {
    return refusal(Gguf{.tensors = {tensor}, .data = std::string(64, '\0')});
  };
  EXPECT_THAT(with(tensor_of("q", {32}, 2, 0)),
              testing::HasSubstr("\"q\" needs a type without quantisation"));
  EXPECT_THAT(with(tensor_of("q", {1, 1, 1, 1, 1}, 0, 0)), testing::HasSubstr("received 5"));
  EXPECT_THAT(with(tensor_of("\xff", {1}, 0, 0)), testing::HasSubstr("names in UTF-8"));
  constexpr std::uint64_t half = 1ULL << 32;
  EXPECT_THAT(with(tensor_of("q", {half, half}, 0, 0)), testing::HasSubstr("fewer elements"));
  EXPECT_THAT(with(tensor_of("q", {1ULL << 62}, 0, 0)), testing::HasSubstr("\"q\" ends behind"));
  EXPECT_THAT(with(tensor_of("q", {~0ULL}, 0, 0)), testing::HasSubstr("fewer elements"));
  EXPECT_THAT(with(tensor_of("q", {1}, 0, ~0ULL)), testing::HasSubstr("received -1"));
  EXPECT_THAT(refusal(Gguf{.entries = {entry_of("split.count", 2, std::uint16_t{3})},
                           .tensors = {tensor_of("q", {1}, 0, 0)}}),
              testing::HasSubstr("one of 3 parts"));
  const Gguf twice{.tensors = {tensor_of("a", {8}, 0, 0), tensor_of("b", {8}, 0, 0)},
                   .data = std::string(400, '\0')};
  EXPECT_THAT(refusal(twice), testing::HasSubstr("\"b\" needs the offset 32, received 0"));
  EXPECT_THAT(refusal(Gguf{}), testing::HasSubstr("needs 1 to 1000000 tensors, received 0"));
  EXPECT_THAT(refusal(Gguf{.version = 1}), testing::HasSubstr("needs version 2 or 3"));
  EXPECT_THAT(refusal(Gguf{.entries = {entry_of("k", 13)}, .tensors = {tensor_of("q", {1}, 0, 0)}}),
              testing::HasSubstr("needs types of values below 13"));
}

}  // namespace
}  // namespace dimred::checkpoints
