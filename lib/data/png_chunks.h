#pragma once

#include <cstdint>
#include <vector>

#include "support/bytes.h"

// Damage of a PNG file as Pillow judges it, which libpng judges otherwise: which checksums count,
// and where the file or its image data end. Format: ISO/IEC 15948.
namespace dimred::data {

/// Throws std::runtime_error("[png] ...") for a wrong checksum before the image data. Pillow looks
/// at no later one: the compressed data have a checksum of their own.
void require_sound_head(Bytes png);

/// Returns the file with the length that its cut image data have, and any checksum behind them,
/// where it ends within them; else no bytes. libpng would pass over the part of a chunk that is
/// there, and over a last row whose chunk has no checksum.
std::vector<std::uint8_t> with_end_of_cut_data(Bytes png);

/// Returns how many bytes the image data become when they are inflated up to `most`; 0 where they
/// are damaged or do not end there.
std::size_t inflated_size(Bytes png, std::size_t most);

}  // namespace dimred::data
