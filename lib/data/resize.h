#pragma once

#include <cstdint>
#include <vector>

#include "data/decode.h"

namespace dimred::data {

/// A rectangle of an image's pixels, with fractions.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
};

/// Weights of one direction: output i is the sum over k < size of weights[i size + k]
/// input[first[i]
/// + k], in units of 2^-22.
struct ResizeWeights {
  std::int64_t size = 0;
  std::vector<std::int64_t> first, count;
  std::vector<std::int32_t> weights;
};

/// Buffers that a thread reuses.
struct ResizeScratch {
  ResizeWeights rows, columns;
  std::vector<std::uint8_t> line, between;
  std::vector<std::int32_t> sums;
};

/// Antialiased bilinear: the box of the image is resized to out.height x out.width pixels, and
/// `window` of these is written to `result`, interleaved (window.height x window.width x channels).
/// The triangle's half width is max(1, box / out) input pixels; weights beyond the box are left out
/// and the others scaled to sum 1. Columns first, then rows, both in 22-bit fixed point with 8 bits
/// between: what Pillow's resize(BILINEAR) of image.crop(box) gives where the box is whole pixels,
/// bit for bit, or to one level where Pillow (from 13 on) takes rows first. Throws
/// std::invalid_argument unless the box lies in the image and the window in the output. Source:
/// Pillow, src/libImaging/Resample.c.
void resize(const Image& image,
            const Box& box,
            Size out,
            const Region& window,
            ResizeScratch& scratch,
            std::uint8_t* result);

/// A whole image: out.height x out.width x channels bytes.
std::vector<std::uint8_t> resized(const Image& image, Size out);

}  // namespace dimred::data
