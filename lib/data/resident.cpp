#include "data/resident.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "data/decode.h"
#include "data/encode.h"
#include "data/loader_report.h"
#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::data {
namespace {

/// The problems of samples: a mark for each, and the texts of the first few by index.
class Faults {
 public:
  explicit Faults(std::int64_t size) : marks_(size) {}

  void add(std::int64_t index, std::string text) {
    marks_[index] = true;
    const std::lock_guard lock(mutex_);
    ++count_;
    texts_[index] = std::move(text);
    if (texts_.size() > most_texts) texts_.erase(std::prev(texts_.end()));
  }
  std::int64_t count() const { return count_; }
  bool has(std::int64_t index) const { return marks_[index]; }
  /// The problem of a sample that has one.
  std::string_view text(std::int64_t index) const {
    const auto found = texts_.find(index);
    return found == texts_.end() ? std::string_view("is damaged") : found->second;
  }
  /// The first one; empty: there is none.
  std::string_view text() const {
    return texts_.empty() ? std::string_view() : texts_.begin()->second;
  }

 private:
  static constexpr std::size_t most_texts = 100;
  std::vector<std::atomic<bool>> marks_;
  std::mutex mutex_;  // guards what follows while samples are decoded
  std::int64_t count_ = 0;
  std::map<std::int64_t, std::string> texts_;
};

class Resident : public DatasetView {
 public:
  Resident(SharedDataset whole, const ImageShape& shape)
      : DatasetView(std::move(whole)),
        shape_(shape),
        planes_(size() * shape.size()),
        labels_(size()),
        bad_(size()),
        damaged_(size()) {}

  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    const auto at = checked(index, "data");
    if (bad_.has(at)) throw std::runtime_error(std::string(bad_.text(at)));
    return {.shape = shape_,
            .bytes = std::span(planes_).subspan(at * shape_.size(), shape_.size()),
            .label = labels_[at],
            .damage = damaged_.has(at) ? damaged_.text(at) : ""};
  }

  std::vector<std::string> notes() const override {
    auto notes = whole_->notes();
    if (coloured_ > 0)
      notes.push_back(formatted(
          "{} of {} images have colours, and are read as grey", coloured_.load(), size()));
    return notes;
  }

  std::string pixel_digest() const override { return digest_; }

  std::string description() const override {
    return formatted("{}, pixels xxh3 {}", whole_->description(), digest_);
  }

  /// Decodes all; false as soon as an image has another size.
  bool fill(std::int64_t threads, bool skip_bad) {
    constexpr std::int64_t chunk = 64;
    in_parallel(ceiling(size(), chunk), threads, [&](std::int64_t i) {
      take(i * chunk, std::min((i + 1) * chunk, size()));
    });
    if (differs_) return false;
    const auto bad = bad_.count();
    require_environment(bad == 0 || (skip_bad && bad < size()),
                        "[data] {}{}",
                        bad_.text(),
                        bad > 1 ? formatted(" (and {} more)", bad - 1) : "");
    digest_ = digest_of(planes_);
    return true;
  }

 private:
  void take(std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t> scratch;
    Image image;
    for (auto index = begin; index < end && !differs_; ++index) take(index, scratch, image);
  }

  void take(std::int64_t index, std::vector<std::uint8_t>& scratch, Image& image) {
    try {
      const auto sample = whole_->read(index, scratch);
      labels_[index] = sample.label;
      const auto shape = encoded_shape(sample);
      if (shape.height != shape_.height || shape.width != shape_.width) {
        differs_ = true;
        return;
      }
      if (shape.channels > shape_.channels) ++coloured_;
      decode(sample,
             {0, 0, shape.height, shape.width},
             {shape.height, shape.width},
             shape_.channels,
             image);
      if (!image.damage.empty()) damaged_.add(index, image.damage);
      to_planes(image.pixels, shape_, planes_.data() + index * shape_.size());
    } catch (const std::runtime_error& error) {
      // An exception of read() names the origin, one of decode() does not.
      bad_.add(index, with_origin(error, whole_->origin(index)).what());
    }
  }

  ImageShape shape_;
  std::vector<std::uint8_t> planes_;
  std::vector<std::int64_t> labels_;
  std::string digest_;
  std::atomic<bool> differs_ = false;
  std::atomic<std::int64_t> coloured_ = 0;
  Faults bad_, damaged_;
};

/// The shape of the first sample that has one.
std::optional<ImageShape> first_shape(const Dataset& whole, bool skip_bad) {
  std::vector<std::uint8_t> scratch;
  for (std::int64_t index = 0; index < whole.size(); ++index) {
    try {
      return encoded_shape(whole.read(index, scratch));
    } catch (const std::runtime_error& error) {
      if (!skip_bad) throw with_origin(error, whole.origin(index));
    }
  }
  return std::nullopt;
}

}  // namespace

SharedDataset resident(SharedDataset whole,
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
