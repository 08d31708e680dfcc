#include "data/png_chunks.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "data/bytes.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/scope_exit.h"

namespace dimred::data {
namespace {

constexpr std::size_t first_chunk = 8;  // after the signature
constexpr std::size_t chunk_head_bytes = 8, chunk_checksum_bytes = 4;
constexpr std::string_view image_data = "IDAT";

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

}  // namespace

void require_sound_head(Bytes png) {
  for (auto chunk = chunk_at(png, first_chunk);
       chunk && chunk->kind != image_data && chunk->is_whole(png);
       chunk = chunk_at(png, chunk->next())) {
    const auto stored = big_endian<chunk_checksum_bytes>(png, chunk->next() - chunk_checksum_bytes);
    const auto found = crc32_z(0, png.data() + chunk->at + 4, chunk->length + 4);
    require_environment(stored == found,
                        "[png] needs the checksum {} of the chunk {}, received {}",
                        found,
                        printable(chunk->kind),
                        stored);
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
