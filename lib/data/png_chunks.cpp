#include "data/png_chunks.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "support/binary.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/scope_exit.h"
#include "support/text.h"

namespace dimred::data {
namespace {

constexpr std::size_t first_chunk = 8;  // after the signature
constexpr std::size_t chunk_head_bytes = 8, chunk_checksum_bytes = 4;
constexpr std::string_view image_data = "IDAT", header_kind = "IHDR", palette_kind = "PLTE";
constexpr std::string_view more_data = "DDAT", frame_kind = "fdAT", apple_kind = "CgBI";
constexpr std::size_t field_bytes = 13, colour_field = 9, compression_field = 10,
                      interlacing_field = 12;
constexpr std::size_t colour_bytes = 3, palette_bytes = 256 * colour_bytes;

struct Chunk {
  std::string_view kind;
  Bytes content;           // as much of it as there is
  std::size_t at = 0;      // of the chunk in the file
  std::size_t length = 0;  // that the chunk announces

  bool is_whole(Bytes png) const {
    return length + chunk_checksum_bytes <= png.size() - at - chunk_head_bytes;
  }
  std::size_t next() const { return at + chunk_head_bytes + length + chunk_checksum_bytes; }
};

/// The chunk that begins at `at`, or nothing where the file has ended.
std::optional<Chunk> chunk_at(Bytes png, std::size_t at) {
  if (at > png.size() || png.size() - at < chunk_head_bytes) return std::nullopt;
  const auto rest = png.subspan(at + chunk_head_bytes);
  const std::size_t length = big_endian<4>(png, at);
  return Chunk{.kind = text_of(png.subspan(at + 4, 4)),
               .content = rest.first(std::min(length, rest.size())),
               .at = at,
               .length = length};
}

/// The first chunk of image data.
std::optional<Chunk> first_data(Bytes png) {
  auto chunk = chunk_at(png, first_chunk);
  while (chunk && chunk->kind != image_data) chunk = chunk_at(png, chunk->next());
  return chunk;
}

/// The chunks before the image data, as Pillow takes them.
struct PngHead {
  std::vector<std::uint8_t> header, palette;
  int headers = 0, palettes = 0;
  bool odd = false;  // libpng refuses it
};

bool add_header(const Chunk& chunk, PngHead& head) {
  if (chunk.length < field_bytes) return false;
  const auto first = chunk.content.first(field_bytes);
  std::vector<std::uint8_t> fields(first.begin(), first.end());
  head.odd =
      head.odd || head.headers > 0 || chunk.length > field_bytes || fields[compression_field] != 0;
  fields[compression_field] = 0;
  if (head.headers > 0 && fields != head.header) return false;
  head.header = std::move(fields);
  ++head.headers;
  return true;
}

bool add_palette(const Chunk& chunk, PngHead& head) {
  if (head.headers == 0) return true;  // Pillow knows of no palette yet
  if (chunk.length >= palette_bytes + colour_bytes) return false;
  const auto whole =
      chunk.content.first(std::min(chunk.length - chunk.length % colour_bytes, palette_bytes));
  head.odd = head.odd || head.palettes > 0 || chunk.length == 0 || whole.size() != chunk.length;
  head.palette.assign(whole.begin(), whole.end());
  ++head.palettes;
  return true;
}

/// Adds a chunk before the image data; returns false where Pillow refuses it or takes it as data.
bool add_chunk(const Chunk& chunk, PngHead& head) {
  head.odd = head.odd || (head.headers == 0 && chunk.kind != header_kind);
  if (chunk.kind == header_kind) return add_header(chunk, head);
  if (chunk.kind == palette_kind) return add_palette(chunk, head);
  const auto is_critical = [](char first) { return first >= 'A' && first <= 'Z'; };
  const auto is_letter = [&](char letter) {
    return is_critical(letter) || (letter >= 'a' && letter <= 'z');
  };
  const auto is_of_names = [&](char letter) {
    return is_letter(letter) || is_digit(letter) || letter == '_';
  };
  if (!std::ranges::all_of(chunk.kind, is_of_names)) return false;
  if (chunk.kind == "IEND") return false;
  head.odd =
      head.odd || is_critical(chunk.kind.front()) || !std::ranges::all_of(chunk.kind, is_letter);
  return true;
}

void append_number(std::vector<std::uint8_t>& file, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    file.push_back(static_cast<std::uint8_t>(number >> shift));
}

}  // namespace

void append_chunk(std::vector<std::uint8_t>& file, std::string_view kind, Bytes content) {
  append_number(file, content.size());
  const auto begin = file.size();
  file.insert(file.end(), kind.begin(), kind.end());
  file.insert(file.end(), content.begin(), content.end());
  append_number(file, crc32_z(0, file.data() + begin, file.size() - begin));
}

std::optional<PngFields> header_fields(Bytes png) {
  std::optional<PngFields> found;
  for (auto chunk = chunk_at(png, first_chunk); chunk && chunk->kind != image_data;
       chunk = chunk_at(png, chunk->next())) {
    require_environment(
        chunk->kind != apple_kind,
        "[png] the file has a chunk CgBI, so it is in Apple's own form, which Xcode "
        "makes for iPhones; convert the file to a plain PNG");
    if (found || chunk->kind != header_kind || chunk->content.size() < field_bytes) continue;
    const auto& fields = chunk->content;
    found = {.width = big_endian<4>(fields, 0),
             .height = big_endian<4>(fields, 4),
             .colour = fields[colour_field],
             .interlaced = fields[interlacing_field] != 0};
  }
  return found;
}

void require_sound_head(Bytes png) {
  for (auto chunk = chunk_at(png, first_chunk);
       chunk && chunk->kind != image_data && chunk->is_whole(png);
       chunk = chunk_at(png, chunk->next())) {
    const auto stored = big_endian<chunk_checksum_bytes>(png, chunk->next() - chunk_checksum_bytes);
    const auto found = crc32_z(0, png.data() + chunk->at + 4, chunk->length + 4);
    require_environment(stored == found,
                        "[png] the chunk {} is damaged: needs the checksum {}, received {}",
                        printable(chunk->kind),
                        found,
                        stored);
    require_environment(
        chunk->kind != frame_kind,
        "[png] a chunk fdAT, a frame of an animation, stands before the image data");
  }
}

std::vector<std::uint8_t> with_end_of_cut_data(Bytes png) {
  for (auto chunk = first_data(png); chunk && chunk->kind == image_data;
       chunk = chunk_at(png, chunk->next())) {
    if (chunk->is_whole(png)) continue;
    std::vector<std::uint8_t> file(png.begin(), png.end());
    file.resize(chunk->at + chunk_head_bytes + chunk->content.size() + chunk_checksum_bytes);
    for (std::size_t i = 0; i < 4; ++i) file[chunk->at + i] = chunk->content.size() >> (24 - 8 * i);
    return file;
  }
  return {};
}

std::vector<std::uint8_t> with_plain_data(Bytes png) {
  std::vector<std::uint8_t> file;
  for (auto chunk = first_data(png);
       chunk && (chunk->kind == image_data || chunk->kind == more_data);
       chunk = chunk_at(png, chunk->next())) {
    if (chunk->kind == image_data) continue;
    if (file.empty()) file.assign(png.begin(), png.end());
    std::ranges::copy(image_data, file.begin() + static_cast<std::ptrdiff_t>(chunk->at + 4));
  }
  return file;
}

std::vector<std::uint8_t> with_plain_head(Bytes png) {
  constexpr std::uint8_t colours_of_palette = 3;
  PngHead head;
  auto chunk = chunk_at(png, first_chunk);
  for (; chunk && chunk->kind != image_data; chunk = chunk_at(png, chunk->next()))
    if (!chunk->is_whole(png) || !add_chunk(*chunk, head)) return {};
  if (!chunk || head.headers == 0) return {};
  const bool needs_palette = head.header[colour_field] == colours_of_palette;
  if (!head.odd && (head.palettes > 0 || !needs_palette)) return {};
  std::vector<std::uint8_t> file(png.begin(), png.begin() + first_chunk);
  append_chunk(file, header_kind, head.header);
  if (head.palette.empty()) head.palette.resize(colour_bytes);
  if (needs_palette) append_chunk(file, palette_kind, head.palette);
  file.insert(file.end(), png.begin() + static_cast<std::ptrdiff_t>(chunk->at), png.end());
  return file;
}

bool holds_row(Bytes png, std::size_t before, std::size_t size) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  const ScopeExit end([&stream] { inflateEnd(&stream); });
  constexpr std::uint8_t last_filter = 4;
  std::array<std::uint8_t, 1 << 14> out;
  const auto all = before + size;
  for (auto chunk = first_data(png); chunk && chunk->kind == image_data;
       chunk = chunk_at(png, chunk->next())) {
    stream.next_in = const_cast<std::uint8_t*>(chunk->content.data());
    stream.avail_in = chunk->content.size();
    while (stream.avail_in > 0 && stream.total_out < all) {
      // Not beyond `before` at once: libpng and Pillow ask for a row only while bytes are left.
      const auto wanted = (stream.total_out < before ? before : all) - stream.total_out;
      stream.next_out = out.data();
      stream.avail_out = std::min(wanted, out.size());
      const bool begins = stream.total_out == before;
      if (inflate(&stream, Z_NO_FLUSH) != Z_OK) return false;
      if (begins && stream.total_out > before && out.front() > last_filter) return false;
    }
  }
  return stream.total_out == all;
}

std::size_t inflated_size(Bytes png, std::size_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return 0;
  const ScopeExit end([&stream] { inflateEnd(&stream); });
  std::array<std::uint8_t, 1 << 14> out;
  int state = Z_OK;
  for (auto chunk = first_data(png); chunk && chunk->kind == image_data;
       chunk = chunk_at(png, chunk->next())) {
    stream.next_in = const_cast<std::uint8_t*>(chunk->content.data());
    stream.avail_in = chunk->content.size();
    do {
      stream.next_out = out.data();
      stream.avail_out = out.size();
      state = inflate(&stream, Z_NO_FLUSH);
      if (state == Z_STREAM_END) return stream.total_out;
      if ((state != Z_OK && state != Z_BUF_ERROR) || stream.total_out > most) return 0;
    } while (stream.avail_out == 0);
  }
  return 0;
}

}  // namespace dimred::data
