#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <utility>

#include "support/digest.h"
#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {

std::string Dataset::title() const {
  static const std::regex digests(
      ",? ?(indices |pixels )?xxh3( [a-z]+)* [0-9a-f]{32}( labels [0-9a-f]{32})?");
  return std::regex_replace(description(), digests, "");
}
namespace {

class Subset : public DatasetView {
 public:
  Subset(SharedDataset whole, std::vector<std::int64_t> indices)
      : DatasetView(std::move(whole)), indices_(std::move(indices)) {
    for (const auto index : indices_) {
      require(index >= 0 && index < whole_->size(),
              "[data] needs indices in [0, {}), received {}",
              whole_->size(),
              index);
    }
  }

  std::int64_t size() const override { return std::ssize(indices_); }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    return whole_->read(in_whole(index), scratch);
  }

  std::string origin(std::int64_t index) const override { return whole_->origin(in_whole(index)); }

  std::vector<std::int64_t> shard_sizes() const override {
    // Only ascending indices lie file after file.
    if (!std::ranges::is_sorted(indices_)) return {size()};
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
                     digest_of(indices_),
                     whole_->description());
  }
  std::string digest() const override {
    return formatted("{} of {}", digest_of(indices_), whole_->digest());
  }
  void expect(const Upcoming& upcoming) const override {
    auto in_whole = upcoming;
    in_whole.index_at = [this, at = upcoming.index_at](std::int64_t position) {
      return indices_[at(position)];
    };
    whole_->expect(in_whole);
  }

 private:
  std::int64_t in_whole(std::int64_t index) const { return indices_[checked(index, "data")]; }

  std::vector<std::int64_t> indices_;
};

class MoreClasses : public DatasetView {
 public:
  MoreClasses(SharedDataset whole, std::int64_t count)
      : DatasetView(std::move(whole)), names_(whole_->class_names()) {
    while (std::ssize(names_) < count) names_.push_back(formatted("unused {}", names_.size()));
  }
  const std::vector<std::string>& class_names() const override { return names_; }
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    return whole_->read(index, scratch);
  }
  std::string description() const override { return whole_->description(); }
  std::string files_state() const override { return whole_->files_state(); }

 private:
  std::vector<std::string> names_;
};

class WithoutSamples : public Dataset {
 public:
  WithoutSamples(std::vector<std::string> class_names, std::string description)
      : description_(std::move(description)) {
    facts_.class_names = std::move(class_names);
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    checked(index, "data");
    return {};
  }
  std::string origin(std::int64_t /*index*/) const override { return description_; }
  std::string description() const override { return description_; }

 private:
  std::string description_;
};

}  // namespace

std::size_t Dataset::checked(std::int64_t index, std::string_view scope) const {
  require(index >= 0 && index < size(),
          "[{}] needs 0 <= index < {}, received {}",
          scope,
          size(),
          index);
  return index;
}

DatasetView::DatasetView(SharedDataset whole) : whole_(std::move(whole)) {
  check(whole_ != nullptr, "a view of no dataset");
}

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < count; ++label) names.push_back(std::to_string(label));
  return names;
}

bool same_samples(const Dataset& a, const Dataset& b) {
  if (a.size() != b.size() || a.digest() != b.digest()) return false;
  if (a.stream_capacity() || b.stream_capacity()) return true;  // their digest is of the content
  const auto looks = std::min<std::int64_t>(16, a.size());
  std::vector<std::uint8_t> scratch_a, scratch_b;
  try {
    for (std::int64_t look = 0; look < looks; ++look) {
      const auto at = look * a.size() / looks;
      const auto one = a.read(at, scratch_a), other = b.read(at, scratch_b);
      if (one.label != other.label || !std::ranges::equal(one.bytes, other.bytes)) return false;
    }
  } catch (const std::runtime_error&) {
    return false;  // for whoever reads the sample to report
  }
  return true;
}

std::string remark_on_gaps(const std::vector<std::int64_t>& labels, std::string_view noun) {
  if (labels.empty()) return {};
  const auto [lowest, largest] = std::ranges::minmax(labels);
  std::vector<bool> used(largest - lowest + 1);
  for (const auto label : labels) used[label - lowest] = true;
  constexpr std::int64_t most = 3;
  std::int64_t count = 0;
  std::string gaps;
  for (auto label = lowest; label < largest; ++label)
    if (!used[label - lowest] && count++ < most)
      gaps += formatted("{}{}", gaps.empty() ? "" : ", ", label);
  if (count == 0) return {};
  return formatted(
      "no {} has the label {}{}; the network has an output for each label from 0 to {}",
      noun,
      gaps,
      count > most ? formatted(", ... ({} in all)", count) : "",
      largest);
}

std::unique_ptr<Dataset> without_samples(std::vector<std::string> class_names,
                                         std::string description) {
  return std::make_unique<WithoutSamples>(std::move(class_names), std::move(description));
}

std::unique_ptr<Dataset> subset(SharedDataset whole, std::vector<std::int64_t> indices) {
  return std::make_unique<Subset>(std::move(whole), std::move(indices));
}

SharedDataset with_unused_classes(SharedDataset whole, std::int64_t count) {
  if (!whole || count <= whole->classes()) return whole;
  return std::make_shared<MoreClasses>(std::move(whole), count);
}

Split split_indices(std::int64_t size, double fraction, std::uint64_t seed) {
  require(
      size >= 1, "[validation_fraction] needs a data set of 1 or more samples, received {}", size);
  require(fraction >= 0 && fraction < 1,
          "[validation_fraction] needs a fraction in [0, 1), received {}",
          fraction);
  const std::int64_t product = std::floor(fraction * size + 1e-6);
  std::vector<bool> held(size, false);
  for (std::int64_t i = 0; i < std::min(product, size - 1); ++i)
    held[permuted(i, size, seed, RandomPurpose::split, 0)] = true;
  Split split;
  for (std::int64_t i = 0; i < size; ++i) (held[i] ? split.held_out : split.kept).push_back(i);
  return split;
}

}  // namespace dimred::data
