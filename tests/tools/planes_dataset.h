#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// The common part of test data sets: images of one shape as planes, and numbered classes.
struct PlanesDataset : Dataset {
  ImageShape image_shape;
  std::vector<std::string> names;

  PlanesDataset(ImageShape shape, std::int64_t classes)
      : image_shape(shape), names(numbered_classes(classes)) {}

  const std::vector<std::string>& class_names() const override { return names; }
  std::optional<ImageShape> shape() const override { return image_shape; }
  std::string origin(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }
  Sample sample(std::span<const std::uint8_t> planes, std::int64_t label) const {
    return {.shape = image_shape, .bytes = planes, .label = label};
  }
};

}  // namespace dimred::data
