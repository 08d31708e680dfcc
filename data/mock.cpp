#include "data/mock.h"

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {
namespace {

constexpr std::int64_t places = 4096;

class Mock : public Dataset {
 public:
  Mock(std::int64_t size, const ImageShape& shape, std::int64_t classes)
      : size_(size), shape_(shape), names_(numbered_classes(classes)) {
    RandomStream stream(0, RandomPurpose::mock);
    block_.resize(static_cast<std::size_t>(shape.size() + places));
    for (auto& byte : block_) byte = static_cast<std::uint8_t>(stream.next());
  }

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(index >= 0 && index < size_, "[mock] needs 0 <= index < {}, received {}", size_, index);
    const auto from = static_cast<std::size_t>(index * 61 % places);
    return {.shape = shape_,
            .bytes = std::span(block_).subspan(from, static_cast<std::size_t>(shape_.size())),
            .label = index % classes()};
  }

  std::string origin(std::int64_t index) const override {
    return formatted("mock sample {}", index);
  }

  std::string description() const override {
    return formatted("mock, {} images of {} x {} x {}, {} classes",
                     size_,
                     shape_.channels,
                     shape_.height,
                     shape_.width,
                     classes());
  }

 private:
  std::int64_t size_;
  ImageShape shape_;
  std::vector<std::string> names_;
  std::vector<std::uint8_t> block_;
};

}  // namespace

std::unique_ptr<Dataset> open_mock(std::int64_t size,
                                   const ImageShape& shape,
                                   std::int64_t classes) {
  require(size >= 1, "[mock] needs at least one sample, received {}", size);
  require(classes >= 1, "[mock] needs at least one class, received {}", classes);
  constexpr std::int64_t longest = 1 << 15;
  const auto fits = [](std::int64_t side) { return side >= 1 && side <= longest; };
  require(shape.channels >= 1 && shape.channels <= 64 && fits(shape.height) && fits(shape.width),
          "[mock] needs channels in [1, 64] and sides in [1, {}], received {} x {} x {}",
          longest,
          shape.channels,
          shape.height,
          shape.width);
  return std::make_unique<Mock>(size, shape, classes);
}

}  // namespace dimred::data
