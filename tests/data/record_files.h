#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "data/base64.h"
#include "data/dataset.h"
#include "data/encode.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::data {

inline std::span<const std::uint8_t> as_numbers(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// A PNG that differs for every number.
inline std::string image_file(std::int64_t number) {
  const ImageShape shape{3, 5, 4};
  std::string pixels;
  for (std::int64_t i = 0; i < shape.size(); ++i)
    pixels += static_cast<char>((number * 2654435761U + i * 40503U) >> 5);
  return to_png(as_numbers(pixels), shape);
}

inline std::string example_record(std::int64_t number, std::int64_t label) {
  const auto image = image_file(number);
  return to_tfrecord(to_message({.encoded = as_numbers(image), .format = "png", .label = label}));
}

inline std::string base64_line(std::int64_t number, std::int64_t label, bool label_first = false) {
  const auto image = to_base64(as_numbers(image_file(number)));
  const auto text = std::to_string(label);
  return (label_first ? text + '\t' + image : image + '\t' + text) + '\n';
}

/// The shape of a sample, which is a PNG.
inline std::string bytes_at(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  const auto sample = dataset.read(index, scratch);
  EXPECT_EQ(sample.encoding, Encoding::png);
  return {sample.bytes.begin(), sample.bytes.end()};
}

inline std::int64_t label_at(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  return dataset.read(index, scratch).label;
}

}  // namespace dimred::data
