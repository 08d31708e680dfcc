#include "data/resident.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "data/decode.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

/// What could not be read, by index.
struct Failure {
  std::int64_t index;
  std::string text;
};

class Resident : public Dataset {
 public:
  Resident(std::shared_ptr<const Dataset> whole, const ImageShape& shape)
      : whole_(std::move(whole)), shape_(shape), size_(whole_->size()) {
    planes_.resize(static_cast<std::size_t>(size_ * shape_.size()));
    labels_.resize(static_cast<std::size_t>(size_));
  }

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(index >= 0 && index < size_,
            "data::resident",
            "needs 0 <= index < ",
            size_,
            ", received ",
            index);
    return {.shape = shape_,
            .bytes = std::span(planes_).subspan(place_of(index), bytes_of_one()),
            .label = labels_[static_cast<std::size_t>(index)]};
  }

  std::string origin(std::int64_t index) const override { return whole_->origin(index); }
  std::vector<std::int64_t> shard_sizes() const override { return whole_->shard_sizes(); }
  std::vector<std::string> notes() const override {
    auto notes = whole_->notes();
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }
  std::string description() const override {
    return concat(whole_->description(), ", pixels xxh3 ", digest_);
  }

  /// Decodes all; false as soon as an image has another size.
  bool fill(std::int64_t threads, bool skip_bad) {
    std::vector<std::thread> pool;
    for (std::int64_t i = 1; i < threads; ++i) pool.emplace_back([this] { work(); });
    work();
    for (auto& thread : pool) thread.join();
    if (differs_) return false;
    std::sort(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) {
      return a.index < b.index;
    });
    if (!failures_.empty()) {
      require_environment(
          skip_bad && static_cast<std::int64_t>(failures_.size()) < size_,
          "data::resident",
          failures_.front().text,
          failures_.size() > 1 ? concat(" (and ", failures_.size() - 1, " more)") : "");
      replace_bad();
    }
    digest_ = dimred::digest(std::as_bytes(std::span(planes_)));
    return true;
  }

 private:
  std::size_t bytes_of_one() const { return static_cast<std::size_t>(shape_.size()); }
  std::size_t place_of(std::int64_t index) const {
    return static_cast<std::size_t>(index) * bytes_of_one();
  }

  void work() {
    constexpr std::int64_t chunk = 64;
    std::vector<std::uint8_t> scratch;
    Image image;
    while (!differs_) {
      const auto begin = next_.fetch_add(chunk);
      if (begin >= size_) return;
      for (auto index = begin; index < std::min(begin + chunk, size_) && !differs_; ++index) {
        take(index, scratch, image);
      }
    }
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
      if (!image.damage.empty()) note(index, image.damage);
      to_planes(image, index);
    } catch (const std::exception& error) {
      // What read() throws names the origin, what decode() throws does not.
      const auto origin = whole_->origin(index);
      const std::string text = error.what();
      const std::lock_guard lock(mutex_);
      failures_.push_back(
          {index, text.find(origin) == std::string::npos ? concat(origin, ": ", text) : text});
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

  void note(std::int64_t index, const std::string& text) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(concat(whole_->origin(index), ": ", text));
  }

  void replace_bad() {
    std::vector<bool> bad(static_cast<std::size_t>(size_), false);
    for (const auto& failure : failures_) bad[static_cast<std::size_t>(failure.index)] = true;
    for (const auto& failure : failures_) {
      auto good = failure.index;
      while (bad[static_cast<std::size_t>(good)]) good = (good + 1) % size_;
      std::memcpy(planes_.data() + place_of(failure.index),
                  planes_.data() + place_of(good),
                  bytes_of_one());
      labels_[static_cast<std::size_t>(failure.index)] = labels_[static_cast<std::size_t>(good)];
    }
    notes_.push_back(concat(failures_.size(),
                            " bad samples are replaced by others; the first: ",
                            failures_.front().text));
  }

  std::shared_ptr<const Dataset> whole_;
  ImageShape shape_;
  std::int64_t size_;
  std::vector<std::uint8_t> planes_;
  std::vector<std::int64_t> labels_;
  std::string digest_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> differs_ = false;
  std::mutex mutex_;  // guards failures_ and notes_ while fill() runs
  std::vector<Failure> failures_;
  std::vector<std::string> notes_;
};

}  // namespace

std::shared_ptr<const Dataset> resident(std::shared_ptr<const Dataset> whole,
                                        std::int64_t memory,
                                        std::int64_t threads,
                                        int channels,
                                        bool skip_bad,
                                        std::int64_t longest_side) {
  check(whole != nullptr, "resident: no dataset");
  if (whole->size() == 0 || whole->shape().has_value()) return whole;
  std::vector<std::uint8_t> scratch;
  ImageShape shape;
  try {
    shape = encoded_shape(whole->read(0, scratch));
  } catch (const std::runtime_error&) {
    if (!skip_bad) throw;
    return whole;  // the pipeline counts it when it meets it
  }
  if (channels > 0) shape.channels = channels;
  if (shape.size() > memory / whole->size()) return whole;
  if (longest_side > 0 && std::max(shape.height, shape.width) > longest_side) return whole;
  auto result = std::make_shared<Resident>(whole, shape);
  if (!result->fill(threads, skip_bad)) return whole;
  return result;
}

}  // namespace dimred::data
