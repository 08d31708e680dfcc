#include <cmath>

#include "data/format.h"
#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

constexpr std::int64_t offsets = 4096;

/// Pixels without any file: for pure speed. Sample i is `shape` bytes of one random block of shape
/// + 4 KiB bytes from a place that depends on i; its label is i mod classes.
class Mock : public Dataset {
 public:
  Mock(std::int64_t size, const ImageShape& shape, std::int64_t classes)
      : block_(shape.size() + offsets) {
    facts_ = {.size = size, .class_names = numbered_classes(classes), .shape = shape};
    RandomStream stream(0, RandomPurpose::mock);
    for (auto& byte : block_) byte = stream.next();
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    return {.shape = *facts_.shape,
            .bytes = std::span(block_).subspan(checked(index, "mock") * 61 % offsets,
                                               facts_.shape->size()),
            .label = index % classes()};
  }

  std::string origin(std::int64_t index) const override {
    return formatted("mock sample {}", index);
  }

  std::string description() const override {
    return formatted("mock, {} images of {} x {} x {}, {} classes",
                     size(),
                     facts_.shape->channels,
                     facts_.shape->height,
                     facts_.shape->width,
                     classes());
  }

 private:
  std::vector<std::uint8_t> block_;
};

std::unique_ptr<Dataset> open_mock(const DatasetRequest& request) {
  const auto& numbers = request.options.mock_shape;
  require(numbers.size() == 3,
          "[data] mock_shape needs three numbers (channels, height, width), received {}",
          numbers.size());
  constexpr std::int64_t longest = 1 << 15;
  for (const auto number : numbers)
    require(number == std::floor(number),
            "[data] mock_shape needs whole numbers, received {}",
            number_text(number));
  const auto fits = [](double side) { return side >= 1 && side <= longest; };
  require(numbers[0] >= 1 && numbers[0] <= 64 && fits(numbers[1]) && fits(numbers[2]),
          "[mock] needs channels in [1, 64] and sides in [1, {}], received {} x {} x {}",
          longest,
          numbers[0],
          numbers[1],
          numbers[2]);
  const ImageShape shape{static_cast<std::int64_t>(numbers[0]),
                         static_cast<std::int64_t>(numbers[1]),
                         static_cast<std::int64_t>(numbers[2])};
  constexpr std::int64_t train_size = 50'000, test_size = 10'000, classes = 10;
  const auto& options = request.options;
  const auto size = options.num_samples > 0 ? options.num_samples : train_size;
  return std::make_unique<Mock>(request.train ? size : test_size,
                                shape,
                                options.num_classes > 0 ? options.num_classes : classes);
}

}  // namespace

namespace formats {
DatasetFormat mock() {
  return {.holds = [](const std::filesystem::path&) { return false; }, .open = open_mock};
}
}  // namespace formats

}  // namespace dimred::data
