#pragma once

#include <cstdint>
#include <vector>

#include "data/preprocess.h"

namespace dimred::data {

/// A picture of pictures: height x width x channels pixels, interleaved.
struct ContactSheet {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
};

/// A row for each index: the image as evaluation sees it, then as epochs 0 to columns - 2 of
/// training do, on white. The normalisation is undone; of standardised images the values from -2 to
/// 2 become black to white. Throws std::invalid_argument unless columns >= 1 and the sheet has at
/// most 64 megapixels, and as prepare() does, with the sample's origin.
ContactSheet contact_sheet(const Dataset& dataset,
                           const Preprocessing& preprocessing,
                           const std::vector<std::int64_t>& indices,
                           std::int64_t columns);

}  // namespace dimred::data
