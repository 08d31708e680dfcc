#include "data/label_noise.h"

#include <cmath>
#include <utility>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

class LabelNoise : public Dataset {
 public:
  LabelNoise(std::shared_ptr<const Dataset> whole, std::int64_t replaced, std::uint64_t seed)
      : whole_(std::move(whole)), replaced_(replaced), seed_(seed) {}

  std::int64_t size() const override { return whole_->size(); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  std::optional<ImageShape> shape() const override { return whole_->shape(); }
  std::string origin(std::int64_t index) const override { return whole_->origin(index); }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    auto sample = whole_->read(index, scratch);
    if (is_replaced(index)) sample.label = other_class(sample.label, index);
    return sample;
  }

  std::vector<std::string> notes() const override { return whole_->notes(); }
  std::vector<std::int64_t> shard_sizes() const override { return whole_->shard_sizes(); }

  std::string description() const override {
    return formatted("label noise on {} of {} samples, seed {}, of {}",
                     replaced_,
                     size(),
                     seed_,
                     whole_->description());
  }
  std::string digest() const override {
    return formatted("noise {} {} on {}", replaced_, seed_, whole_->digest());
  }
  void expect(const Upcoming& upcoming) const override { whole_->expect(upcoming); }
  std::optional<StreamRoom> stream_room() const override { return whole_->stream_room(); }

 private:
  bool is_replaced(std::int64_t index) const {
    const auto place = permuted(static_cast<std::uint64_t>(index),
                                static_cast<std::uint64_t>(size()),
                                seed_,
                                RandomPurpose::label_noise,
                                0);
    return place < static_cast<std::uint64_t>(replaced_);
  }

  std::int64_t other_class(std::int64_t label, std::int64_t index) const {
    RandomStream stream(seed_, RandomPurpose::label_noise, 0, static_cast<std::uint64_t>(index));
    const std::int64_t drawn = stream.below(static_cast<std::uint32_t>(classes() - 1));
    return drawn < label ? drawn : drawn + 1;
  }

  std::shared_ptr<const Dataset> whole_;
  std::int64_t replaced_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const Dataset> with_label_noise(std::shared_ptr<const Dataset> whole,
                                                double fraction,
                                                std::uint64_t seed) {
  check(whole != nullptr, "label noise on no dataset");
  require(fraction >= 0 && fraction <= 1,
          "[data::with_label_noise] needs a fraction in [0, 1], received {}",
          fraction);
  if (fraction == 0) return whole;
  require(whole->classes() >= 2,
          "[data::with_label_noise] needs >= 2 classes, received {}",
          whole->classes());
  const auto replaced = std::llround(fraction * static_cast<double>(whole->size()));
  require(replaced >= 1,
          "[data::with_label_noise] label_noise {} of {} samples replaces none",
          fraction,
          whole->size());
  return std::make_shared<LabelNoise>(std::move(whole), replaced, seed);
}

}  // namespace dimred::data
