#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// Decoded images of one shape that lie one after another, and their labels.
struct Planes {
  std::string kind;  // begins the description and messages
  std::filesystem::path images_file, labels_file;
  ImageShape shape;
  Bytes pixels;                          // of all images
  std::shared_ptr<const void> owner;     // of their memory
  std::vector<std::int64_t> labels;      // one an image
  std::vector<std::string> class_names;  // empty: as many numbers as the labels need
  bool train = true;                     // a test set may lack some of the labels
  std::string digest;                    // of pixels and labels; empty: it is computed
};

/// The images as a data set. Throws std::runtime_error naming the file unless there are as many
/// labels as images, and each is below the number of classes (at most 1,000,000 where they have no
/// names).
std::unique_ptr<Dataset> planes_dataset(Planes planes);

}  // namespace dimred::data
