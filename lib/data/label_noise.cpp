#include "data/label_noise.h"

#include <cmath>
#include <utility>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

class LabelNoise : public DatasetView {
 public:
  LabelNoise(SharedDataset whole, std::uint64_t replaced, std::uint64_t seed)
      : DatasetView(std::move(whole)), replaced_(replaced), seed_(seed) {}

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    auto sample = whole_->read(index, scratch);
    if (permuted(index, size(), seed_, RandomPurpose::label_noise, 0) < replaced_)
      sample.label = other_class(sample.label, index);
    return sample;
  }

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

 private:
  std::int64_t other_class(std::int64_t label, std::int64_t index) const {
    RandomStream stream(seed_, RandomPurpose::label_noise, 0, index);
    const std::int64_t drawn = stream.below(classes() - 1);
    return drawn < label ? drawn : drawn + 1;
  }

  std::uint64_t replaced_, seed_;
};

}  // namespace

SharedDataset with_label_noise(SharedDataset whole, double fraction, std::uint64_t seed) {
  check(whole != nullptr, "label noise on no dataset");
  require(fraction >= 0 && fraction <= 1,
          "[label_noise] needs a fraction in [0, 1], received {}",
          fraction);
  if (fraction == 0) return whole;
  require(whole->classes() >= 2, "[label_noise] needs >= 2 classes, received {}", whole->classes());
  const auto replaced = std::llround(fraction * whole->size());
  require(replaced >= 1,
          "[label_noise] label_noise {} of {} samples replaces none",
          fraction,
          whole->size());
  return std::make_shared<LabelNoise>(std::move(whole), replaced, seed);
}

}  // namespace dimred::data
