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
#include "support/bytes.h"

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
  ImageShape shape;  // of planes; empty for jpeg and png, whose header says it
  Bytes bytes;       // point into the dataset or into `scratch` of read()
  std::int64_t label = 0;
  double seconds_fetching = 0;   // that the read has waited for a file that lies elsewhere
  std::string_view damage = {};  // of planes decoded ahead: what is wrong with the file they are of
};

/// Labelled images by index. read() is safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const { return facts_.size; }
  /// The name of each label, in the data set's order: name of label i at i.
  virtual const std::vector<std::string>& class_names() const { return facts_.class_names; }
  std::int64_t classes() const { return std::ssize(class_names()); }
  /// The shape of every sample after decoding; nullopt where sizes differ or are not known.
  virtual std::optional<ImageShape> shape() const { return facts_.shape; }
  /// The sample; its bytes may point into the dataset or into `scratch`.
  /// Throws std::invalid_argument unless 0 <= index < size(), std::runtime_error (with origin) when
  /// the environment fails.
  virtual Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const = 0;
  /// The origin of a sample, for messages: "file" or "file, offset N".
  virtual std::string origin(std::int64_t index) const = 0;
  /// Findings while reading that a person should know, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Samples of each file, in the order of the indices; their sum is size(). One file: {size()}.
  virtual std::vector<std::int64_t> shard_sizes() const { return {size()}; }
  /// One line for manifest.json: kind, path, size, digest of the content.
  virtual std::string description() const = 0;
  /// The description without digests, for messages.
  std::string title() const;
  /// Tells these samples from others, as far as that is known without a further pass: of the
  /// content, or of paths and labels. Wherever the files lie, and whether or not they are kept
  /// decoded; by default the description.
  virtual std::string digest() const {
    return facts_.digest.empty() ? description() : facts_.digest;
  }
  /// The state of files that are known by their paths, which the description lacks: changes when
  /// one of them is written to. Cost: a stat(2) a file. Returns an empty text if the content of
  /// files is known.
  virtual std::string files_state() const { return {}; }
  /// The digest of all decoded pixels, where they are kept (data/resident.h); empty elsewhere.
  virtual std::string pixel_digest() const { return {}; }
  /// Tells data whose files are fetched as they are needed what comes next. Cost: 10 ms at most.
  virtual void expect(const Upcoming& /*upcoming*/) const {}
  /// The capacity for such data; nullopt for other data, whose files are all here.
  virtual std::optional<StreamCapacity> stream_capacity() const { return std::nullopt; }

 protected:
  /// The index as a place in a table. Throws std::invalid_argument("[scope] needs 0 <= index < N,
  /// received ...").
  std::size_t checked(std::int64_t index, std::string_view scope) const;

  /// Default return values of the functions above.
  struct Facts {
    std::int64_t size = 0;
    std::vector<std::string> class_names;
    std::optional<ImageShape> shape;
    std::string digest;
  };
  Facts facts_;
};

using SharedDataset = std::shared_ptr<const Dataset>;

/// Another data set's samples, changed in what is overridden.
class DatasetView : public Dataset {
 public:
  explicit DatasetView(SharedDataset whole);
  std::int64_t size() const override { return whole_->size(); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  std::optional<ImageShape> shape() const override { return whole_->shape(); }
  std::string origin(std::int64_t index) const override { return whole_->origin(index); }
  std::vector<std::string> notes() const override { return whole_->notes(); }
  std::vector<std::int64_t> shard_sizes() const override { return whole_->shard_sizes(); }
  std::string digest() const override { return whole_->digest(); }
  void expect(const Upcoming& upcoming) const override { whole_->expect(upcoming); }
  std::optional<StreamCapacity> stream_capacity() const override {
    return whole_->stream_capacity();
  }

 protected:
  SharedDataset whole_;
};

/// "0", "1", ..., for data sets whose labels have no names.
std::vector<std::string> numbered_classes(std::int64_t count);

/// Returns whether two data sets have the same samples, by their digests; as the digest of image
/// files is that of their paths, also by the bytes of up to 16 samples, evenly spread.
bool same_samples(const Dataset& a, const Dataset& b);

/// A remark on labels that no sample has, between the lowest and the largest label: the network has
/// an output for each of them. `noun` is what the labels are of; empty where there is no such
/// label. Labels are in [0, 10^7).
std::string remark_on_gaps(const std::vector<std::int64_t>& labels, std::string_view noun);

/// A data set that is known by its description alone: it has these classes and no sample.
std::unique_ptr<Dataset> without_samples(std::vector<std::string> class_names,
                                         std::string description);

/// A subset of another dataset's samples, by index; may be empty. Throws std::invalid_argument for
/// an index outside the whole.
std::unique_ptr<Dataset> subset(SharedDataset whole, std::vector<std::int64_t> indices);

/// The data set with classes that no sample has behind its own, until there are `count` (1001
/// outputs for the 1000 classes of ImageNet); itself where it has as many, nullptr of nullptr.
SharedDataset with_unused_classes(SharedDataset whole, std::int64_t count);

/// Splits [0, size) at random by seed: first the kept indices, then floor(fraction * size) held
/// out, both ascending. A product within 1e-6 below an integer counts as that integer (0.29 * 100
/// is 28.999999999999996 in binary); at least one index is kept. Throws std::invalid_argument
/// unless size >= 1 and fraction is in [0, 1).
struct Split {
  std::vector<std::int64_t> kept, held_out;
};
Split split_indices(std::int64_t size, double fraction, std::uint64_t seed);

}  // namespace dimred::data
