#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dimred::data {

struct ImageShape {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t size() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

struct Sample {
  ImageShape shape;
  std::span<const std::uint8_t> pixels;  // channels x height x width
  std::int64_t label = 0;
};

/// Labelled images by index. read() is safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual ImageShape shape() const = 0;  // of every sample after decoding
  /// The sample; pixels may point into the dataset or into `scratch`.
  /// Throws std::invalid_argument unless 0 <= index < size().
  virtual Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const = 0;
  /// One line for manifest.json: kind, path, size, digest of the content.
  virtual std::string description() const = 0;
};

/// A subset of another dataset's samples, by index; may be empty. Throws std::invalid_argument for
/// an index outside the whole.
std::unique_ptr<Dataset> subset(std::shared_ptr<const Dataset> whole,
                                std::vector<std::int64_t> indices);

/// Splits [0, size) at random by seed: first the kept indices, then floor(fraction * size) held
/// out, both ascending. A product within 1e-6 below an integer counts as that integer (.29 * 100 is
/// 28.999999999999996 in binary); at least one index is kept. Throws std::invalid_argument unless
/// size >= 1 and fraction is in [0, 1).
struct Split {
  std::vector<std::int64_t> kept, held_out;
};
Split split_indices(std::int64_t size, double fraction, std::uint64_t seed);

}  // namespace dimred::data
