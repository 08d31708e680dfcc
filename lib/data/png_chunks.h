#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "support/bytes.h"

// Damage of a PNG file as Pillow judges it, which libpng judges otherwise: which checksums count,
// and where the file or its image data end. Format: ISO/IEC 15948.
namespace dimred::data {

struct PngFields {
  std::uint32_t width = 0, height = 0;
  std::uint8_t colour = 0;
  bool interlaced = false;
};

/// Returns fields of the header chunk; nothing where the image data or the end of the file come
/// before the chunk. Other chunks may come before it, as Pillow bears them. Throws
/// std::runtime_error("[png] ...") for Apple's own form of PNG (CgBI).
std::optional<PngFields> header_fields(Bytes png);

/// Throws std::runtime_error("[png] ...") for a wrong checksum, or a frame of an animation (fdAT),
/// before the image data. Pillow looks at no later checksum: the compressed data have a checksum of
/// their own.
void require_sound_head(Bytes png);

/// Returns the file with the length that its cut image data have, and any checksum behind them,
/// where it ends within them; else no bytes. libpng would pass over the part of a chunk that is
/// there, and over a last row whose chunk has no checksum.
std::vector<std::uint8_t> with_end_of_cut_data(Bytes png);

/// Returns a file that libpng reads as Pillow reads this one, where what stands before the image
/// data is odd but sound: the header chunk behind others, twice, longer, or with another number for
/// the compression; a critical chunk that is unknown; no palette (all is black then), a second one,
/// or one that ends within a colour. Else no bytes. Other chunks before the image data are left out
/// of the file.
std::vector<std::uint8_t> with_plain_head(Bytes png);

/// Returns the file with the type IDAT for each chunk DDAT among the image data, which Pillow takes
/// as such; no bytes where it has none.
std::vector<std::uint8_t> with_plain_data(Bytes png);

/// Returns whether the image data hold a row of `size` bytes, inflated, behind the first `before`
/// bytes, begin it with a known filter, and are sound so far, as Pillow finds: it needs neither
/// their end nor their checksum.
bool holds_row(Bytes png, std::size_t before, std::size_t size);

/// Appends a chunk with its length and checksum; `kind` has four letters.
void append_chunk(std::vector<std::uint8_t>& file, std::string_view kind, Bytes content);

/// Returns how many bytes the image data become when they are inflated up to `most`; 0 where they
/// are damaged or do not end there.
std::size_t inflated_size(Bytes png, std::size_t most);

}  // namespace dimred::data
