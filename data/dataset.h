#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/stream_plan.h"

namespace dimred::data {

struct ImageShape {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t size() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// planes: channels x height x width bytes, nothing to decode; the others are whole files.
enum class Encoding { planes, jpeg, png };

struct Sample {
  Encoding encoding = Encoding::planes;
  ImageShape shape;                     // of planes; empty for jpeg and png, whose header says it
  std::span<const std::uint8_t> bytes;  // point into the dataset or into `scratch` of read()
  std::int64_t label = 0;
  double seconds_fetching = 0;   // that the read has waited for a file that lies elsewhere
  std::string_view damage = {};  // of planes decoded ahead: what is wrong with the file they are of
};

/// Labelled images by index. read() is safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// The name of each label, in the data set's order: name of label i at i.
  virtual const std::vector<std::string>& class_names() const = 0;
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names().size()); }
  /// Of every sample after decoding; nullopt where sizes differ or are not known.
  virtual std::optional<ImageShape> shape() const = 0;
  /// The sample; its bytes may point into the dataset or into `scratch`.
  /// Throws std::invalid_argument unless 0 <= index < size(), std::runtime_error (with origin) when
  /// the environment fails.
  virtual Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const = 0;
  /// Where a sample comes from, for messages: "file" or "file, offset N".
  virtual std::string origin(std::int64_t index) const = 0;
  /// What has been found while reading that a person should know, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Samples of each file, in the order of the indices; their sum is size(). One file: {size()}.
  virtual std::vector<std::int64_t> shard_sizes() const { return {size()}; }
  /// One line for manifest.json: kind, path, size, digest of the content.
  virtual std::string description() const = 0;
  /// Tells these samples from others, as far as that is known without a further pass: of the
  /// content, or of paths and labels. Wherever the files lie, and whether or not they are kept
  /// decoded; by default the description.
  virtual std::string digest() const { return description(); }
  /// What the description does not say of files that are known by their paths: changes when one of
  /// them is written to. Cost: a stat(2) a file. Empty where a file's content is known.
  virtual std::string files_state() const { return {}; }
  /// Tells data whose files are fetched as they are needed what comes next. Cost: 10 ms at most.
  virtual void expect(const Upcoming& /*upcoming*/) const {}
  /// Of such data; else nullopt: all files are here.
  virtual std::optional<StreamRoom> stream_room() const { return std::nullopt; }
};

/// "0", "1", ..., for data sets whose labels have no names.
std::vector<std::string> numbered_classes(std::int64_t count);

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
