#include "data/crop.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/errors.h"

namespace dimred::data {
namespace {

double drawn_between(double low, double high, RandomStream& stream) {
  return low + (high - low) * stream.uniform();
}

/// Uniform in [0, count), or in [0, 2^32) if less: the rest of a longer strip is never drawn.
std::int64_t below(std::int64_t count, RandomStream& stream) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return stream.below(std::min(count, most));
}

Region whole(Size image) { return {0, 0, image.height, image.width}; }

/// The largest centred part whose aspect is allowed.
Region centred(const CropOptions& crop, Size image) {
  const double aspect = 1.0 * image.width / image.height;
  auto height = image.height, width = image.width;
  if (aspect < crop.aspect_low) {
    height = std::llround(width / crop.aspect_low);
  } else if (aspect > crop.aspect_high) {
    width = std::llround(height * crop.aspect_high);
  }
  height = std::clamp<std::int64_t>(height, 1, image.height);
  width = std::clamp<std::int64_t>(width, 1, image.width);
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

Region random_area(const CropOptions& crop, Size image, RandomStream& stream) {
  const double area = 1.0 * image.height * image.width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * drawn_between(crop.area_low, crop.area_high, stream);
    const double aspect =
        std::exp(drawn_between(std::log(crop.aspect_low), std::log(crop.aspect_high), stream));
    const auto width = std::llround(std::sqrt(target * aspect));
    const auto height = std::llround(std::sqrt(target / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const auto top = below(image.height - height + 1, stream);
    const auto left = below(image.width - width + 1, stream);
    return {top, left, height, width};
  }
  return centred(crop, image);
}

/// The image resized to `shorter`, in proportion.
Size with_shorter_side(Size image, std::int64_t shorter) {
  if (image.height <= image.width) return {shorter, shorter * image.width / image.height};
  return {shorter * image.height / image.width, shorter};
}

CropPlan centre(const CropOptions& crop, Size image) {
  const auto size = crop.size;
  if (!crop.keeps_aspect) {
    // TF's central_crop leaves floor(side (1 - part) / 2) out on each side.
    const auto rim = [&](std::int64_t side) {
      return static_cast<std::int64_t>(side * (1 - crop.centre_part) / 2);
    };
    const auto top = rim(image.height), left = rim(image.width);
    return {{top, left, image.height - 2 * top, image.width - 2 * left},
            {size, size},
            {0, 0, size, size}};
  }
  const auto shorter = std::max<std::int64_t>(size, std::llround(size / crop.centre_part));
  const auto resized = with_shorter_side(image, shorter);
  // Python's round(), which torchvision uses: halves to even.
  const auto middle = [&](std::int64_t side) {
    return static_cast<std::int64_t>(std::nearbyint((side - size) / 2.0));
  };
  return {whole(image), resized, {middle(resized.height), middle(resized.width), size, size}};
}

}  // namespace

void validate(const CropOptions& crop) {
  if (crop.cut == CropMode::none) return;
  constexpr std::int64_t longest = 1 << 14;
  require(crop.size >= 1 && crop.size <= longest,
          "[preprocessing_name] needs a crop size in [1, {}], received {}",
          longest,
          crop.size);
  require(crop.area_low > 0 && crop.area_low <= crop.area_high && crop.area_high <= 1,
          "[preprocessing_name] needs 0 < area_low <= area_high <= 1, received {} and {}",
          crop.area_low,
          crop.area_high);
  require(
      crop.aspect_low > 0 && crop.aspect_low <= crop.aspect_high && std::isfinite(crop.aspect_high),
      "[preprocessing_name] needs 0 < aspect_low <= aspect_high, received {} and {}",
      crop.aspect_low,
      crop.aspect_high);
  require(crop.cut != CropMode::random_side ||
              (crop.side_low >= crop.size && crop.side_high >= crop.side_low),
          "[preprocessing_name] needs size <= side_low <= side_high, received {}, {}, {}",
          crop.size,
          crop.side_low,
          crop.side_high);
  require(crop.centre_part > 0 && crop.centre_part <= 1,
          "[preprocessing_name] needs centre_part in (0, 1], received {}",
          crop.centre_part);
}

CropPlan cut(const CropOptions& crop, Size image, RandomStream& stream) {
  const Region square{0, 0, crop.size, crop.size};
  switch (crop.cut) {
    case CropMode::random_area:
      return {random_area(crop, image, stream), {crop.size, crop.size}, square};
    case CropMode::random_side: {
      const auto shorter = crop.side_low + below(crop.side_high - crop.side_low + 1, stream);
      const auto resized = with_shorter_side(image, shorter);
      const auto top = below(resized.height - crop.size + 1, stream);
      const auto left = below(resized.width - crop.size + 1, stream);
      return {whole(image), resized, {top, left, crop.size, crop.size}};
    }
    case CropMode::centre:
      return centre(crop, image);
    case CropMode::none:
      break;
  }
  return {whole(image), image, whole(image)};
}

}  // namespace dimred::data
