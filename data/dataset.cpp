#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/digest.h"
#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {
    for (const auto index : indices_) {
      require(index >= 0 && index < whole_->size(),
              "[data::subset] needs indices in [0, {}), received {}",
              whole_->size(),
              index);
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  std::optional<ImageShape> shape() const override { return whole_->shape(); }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    return whole_->read(in_whole(index), scratch);
  }

  std::string origin(std::int64_t index) const override { return whole_->origin(in_whole(index)); }

  std::vector<std::string> notes() const override { return whole_->notes(); }
  std::vector<std::int64_t> shard_sizes() const override {
    // Only ascending indices lie file after file.
    if (!std::is_sorted(indices_.begin(), indices_.end())) return {size()};
    auto sizes = whole_->shard_sizes();
    auto from = indices_.begin();
    std::int64_t end = 0;
    for (auto& size : sizes) {
      const auto to = std::lower_bound(from, indices_.end(), end += size);
      size = std::distance(std::exchange(from, to), to);
    }
    return sizes;
  }
  std::string description() const override {
    return formatted("subset of {} samples, indices xxh3 {}, of {}",
                     size(),
                     digest_of_indices(),
                     whole_->description());
  }
  std::string digest() const override {
    return formatted("{} of {}", digest_of_indices(), whole_->digest());
  }
  void expect(const Upcoming& upcoming) const override {
    auto in_whole = upcoming;
    in_whole.index_at = [this, at = upcoming.index_at](std::int64_t position) {
      return indices_[static_cast<std::size_t>(at(position))];
    };
    whole_->expect(in_whole);
  }
  std::optional<StreamRoom> stream_room() const override { return whole_->stream_room(); }

 private:
  std::string digest_of_indices() const {
    return dimred::digest(std::as_bytes(std::span(indices_)));
  }

  std::int64_t in_whole(std::int64_t index) const {
    require(index >= 0 && index < size(),
            "[data::subset] needs 0 <= index < {}, received {}",
            size(),
            index);
    return indices_[static_cast<std::size_t>(index)];
  }

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < count; ++label) names.push_back(std::to_string(label));
  return names;
}

std::unique_ptr<Dataset> subset(std::shared_ptr<const Dataset> whole,
                                std::vector<std::int64_t> indices) {
  check(whole != nullptr, "subset of no dataset");
  return std::make_unique<Subset>(std::move(whole), std::move(indices));
}

Split split_indices(std::int64_t size, double fraction, std::uint64_t seed) {
  require(size >= 1, "[data::split_indices] needs size >= 1, received {}", size);
  require(fraction >= 0 && fraction < 1,
          "[data::split_indices] needs a fraction in [0, 1), received {}",
          fraction);
  const auto product = std::floor(fraction * static_cast<double>(size) + 1e-6);
  const auto held_count = std::min(static_cast<std::int64_t>(product), size - 1);
  std::vector<bool> held(static_cast<std::size_t>(size), false);
  for (std::int64_t i = 0; i < held_count; ++i) {
    held[permuted(static_cast<std::uint64_t>(i),
                  static_cast<std::uint64_t>(size),
                  seed,
                  RandomPurpose::split,
                  0)] = true;
  }
  Split split;
  for (std::int64_t i = 0; i < size; ++i) {
    (held[static_cast<std::size_t>(i)] ? split.held_out : split.kept).push_back(i);
  }
  return split;
}

}  // namespace dimred::data
