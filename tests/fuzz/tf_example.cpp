#include "data/tf_example.h"

#include "tests/fuzz/fuzz.h"

std::vector<std::string> dimred::fuzz::seeds() {
  const auto image = small_png();
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(image.data()),
                                            image.size());
  return {data::to_message({.encoded = bytes, .format = "png", .label = 7}),
          data::to_message({.encoded = bytes.first(3), .label = -1, .class_name = "name"})};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  std::size_t used = 0;
  fuzz::bear_errors([&] {
    data::visit_features({data, size}, [&](std::string_view name, const data::Feature& feature) {
      used += name.size() + feature.bytes.size();
      for (const auto byte : feature.bytes) used += byte;
    });
  });
  fuzz::bear_errors([&] { used += data::parse_image_example({data, size}).encoded.size(); });
  return used == ~std::size_t{0} ? 1 : 0;
}
