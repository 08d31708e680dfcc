#include "data/resident.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "data/decode.h"
#include "data/loader_report.h"
#include "data/marks.h"
#include "data/parallel.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

/// What is wrong with samples: a mark for each, and the texts of the first few by index.
class Faults {
 public:
  explicit Faults(std::int64_t size) : marks_(static_cast<std::size_t>(size)) {}

  void add(std::int64_t index, std::string text) {
    marks_.set(static_cast<std::size_t>(index));
    const std::lock_guard lock(mutex_);
    ++count_;
    texts_[index] = std::move(text);
    if (texts_.size() > most_texts) texts_.erase(std::prev(texts_.end()));
  }
  std::int64_t count() const { return count_; }
  bool has(std::int64_t index) const { return marks_.has(static_cast<std::size_t>(index)); }
  /// Of a sample that has one.
  std::string_view text(std::int64_t index) const {
    const auto found = texts_.find(index);
    return found == texts_.end() ? std::string_view("is damaged") : found->second;
  }
  const std::string& first() const { return texts_.begin()->second; }

 private:
  static constexpr std::size_t most_texts = 100;
  Marks marks_;
  std::mutex mutex_;  // guards what follows while samples are decoded
  std::int64_t count_ = 0;
  std::map<std::int64_t, std::string> texts_;
};

class Resident : public Dataset {
 public:
  Resident(std::shared_ptr<const Dataset> whole, const ImageShape& shape)
      : whole_(std::move(whole)),
        shape_(shape),
        size_(whole_->size()),
        bad_(size_),
        damaged_(size_) {
    planes_.resize(static_cast<std::size_t>(size_ * shape_.size()));
    labels_.resize(static_cast<std::size_t>(size_));
  }

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(index >= 0 && index < size_,
            "[data::resident] needs 0 <= index < {}, received {}",
            size_,
            index);
    if (bad_.has(index)) throw std::runtime_error(std::string(bad_.text(index)));
    return {.shape = shape_,
            .bytes = std::span(planes_).subspan(place_of(index), bytes_of_one()),
            .label = labels_[static_cast<std::size_t>(index)],
            .damage = damaged_.has(index) ? damaged_.text(index) : std::string_view()};
  }

  std::string origin(std::int64_t index) const override { return whole_->origin(index); }
  std::vector<std::int64_t> shard_sizes() const override { return whole_->shard_sizes(); }
  std::vector<std::string> notes() const override { return whole_->notes(); }
  std::string description() const override {
    return formatted("{}, pixels xxh3 {}", whole_->description(), digest_);
  }
  std::string digest() const override { return whole_->digest(); }

  /// Decodes all; false as soon as an image has another size.
  bool fill(std::int64_t threads, bool skip_bad) {
    constexpr std::int64_t chunk = 64;
    in_parallel(static_cast<std::size_t>((size_ + chunk - 1) / chunk),
                static_cast<std::size_t>(threads),
                [&](std::size_t i) {
                  const auto begin = static_cast<std::int64_t>(i) * chunk;
                  take(begin, std::min(begin + chunk, size_));
                });
    if (differs_) return false;
    const auto bad = bad_.count();
    if (bad > 0)
      require_environment(skip_bad && bad<size_, "[data::resident] {}{}", bad_.first(), bad> 1
                              ? formatted(" (and {} more)", bad - 1)
                              : "");
    digest_ = dimred::digest(std::as_bytes(std::span(planes_)));
    return true;
  }

 private:
  std::size_t bytes_of_one() const { return static_cast<std::size_t>(shape_.size()); }
  std::size_t place_of(std::int64_t index) const {
    return static_cast<std::size_t>(index) * bytes_of_one();
  }

  void take(std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t> scratch;
    Image image;
    for (auto index = begin; index < end && !differs_; ++index) take(index, scratch, image);
  }

  void take(std::int64_t index, std::vector<std::uint8_t>& scratch, Image& image) {
    try {
      const auto sample = whole_->read(index, scratch);
      labels_[static_cast<std::size_t>(index)] = sample.label;
      const auto shape = encoded_shape(sample);
      if (shape.height != shape_.height || shape.width != shape_.width) {
        differs_ = true;
        return;
      }
      decode(sample,
             {0, 0, shape.height, shape.width},
             {shape.height, shape.width},
             static_cast<int>(shape_.channels),
             image);
      if (!image.damage.empty()) damaged_.add(index, image.damage);
      to_planes(image, index);
    } catch (const std::runtime_error&) {
      // What read() throws names the origin, what decode() throws does not.
      bad_.add(index, text_of(with_origin(std::current_exception(), whole_->origin(index))));
    }
  }

  void to_planes(const Image& image, std::int64_t index) {
    auto* to = planes_.data() + place_of(index);
    const auto channels = image.channels;
    const auto count = image.height * image.width;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const auto* from = image.pixels.data() + channel;
      for (std::int64_t i = 0; i < count; ++i, from += channels) *to++ = *from;
    }
  }

  std::shared_ptr<const Dataset> whole_;
  ImageShape shape_;
  std::int64_t size_;
  std::vector<std::uint8_t> planes_;
  std::vector<std::int64_t> labels_;
  std::string digest_;
  std::atomic<bool> differs_ = false;
  Faults bad_, damaged_;
};

/// Of the first sample that has one.
std::optional<ImageShape> first_shape(const Dataset& whole, bool skip_bad) {
  std::vector<std::uint8_t> scratch;
  for (std::int64_t index = 0; index < whole.size(); ++index) {
    try {
      return encoded_shape(whole.read(index, scratch));
    } catch (const std::runtime_error&) {
      if (!skip_bad)
        std::rethrow_exception(with_origin(std::current_exception(), whole.origin(index)));
    }
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const Dataset> resident(std::shared_ptr<const Dataset> whole,
                                        std::int64_t memory,
                                        std::int64_t threads,
                                        int channels,
                                        bool skip_bad,
                                        std::int64_t longest_side) {
  check(whole != nullptr, "resident: no dataset");
  if (whole->size() == 0 || whole->shape().has_value()) return whole;
  auto shape = first_shape(*whole, skip_bad);
  if (!shape) return whole;  // the pipeline says so
  if (channels > 0) shape->channels = channels;
  if (shape->size() > memory / whole->size()) return whole;
  if (longest_side > 0 && std::max(shape->height, shape->width) > longest_side) return whole;
  auto result = std::make_shared<Resident>(whole, *shape);
  if (!result->fill(threads, skip_bad)) return whole;
  return result;
}

}  // namespace dimred::data
