#include "data/tfrecord.h"

#include <concepts>
#include <limits>

#include "support/crc32c.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t head_bytes = length_bytes + checksum_bytes;
static_assert(head_bytes + checksum_bytes == tfrecord_overhead);

template <std::unsigned_integral Integer>
void append_little_endian(std::string& text, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    text += static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
}

template <std::unsigned_integral Integer>
Integer little_endian(std::span<const std::byte> bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= std::to_integer<Integer>(bytes[i]) << 8 * i;
  return value;
}

void require_checksum(std::span<const std::byte> bytes,
                      std::span<const std::byte> checksum,
                      std::string_view what) {
  require_environment(masked_crc32c(bytes) == little_endian<std::uint32_t>(checksum),
                      "[tfrecord] a record is damaged: the checksum of its {} differs",
                      what);
}

}  // namespace

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const auto checksum = crc32c(bytes);
  return (checksum >> 15 | checksum << 17) + 0xA282EAD8;
}

std::string to_tfrecord(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + head_bytes + checksum_bytes);
  append_little_endian(record, std::uint64_t{payload.size()});
  append_little_endian(record, masked_crc32c(std::as_bytes(std::span(record))));
  record += payload;
  append_little_endian(record, masked_crc32c(std::as_bytes(std::span(payload))));
  return record;
}

std::optional<std::uint64_t> tfrecord_length(std::span<const std::byte> bytes) {
  if (bytes.size() < head_bytes) return std::nullopt;
  const auto length = bytes.first(length_bytes);
  require_checksum(length, bytes.subspan(length_bytes), "length");
  const auto announced = little_endian<std::uint64_t>(length);
  if (announced > std::numeric_limits<std::uint64_t>::max() - tfrecord_overhead)
    return std::nullopt;
  return announced;
}

std::optional<TfRecord> first_tfrecord(std::span<const std::byte> bytes) {
  const auto announced = tfrecord_length(bytes);
  if (!announced || *announced + tfrecord_overhead > bytes.size()) return std::nullopt;
  const auto payload = bytes.subspan(head_bytes, *announced);
  require_checksum(payload, bytes.subspan(head_bytes + *announced), "payload");
  return TfRecord{.payload = payload, .size = *announced + tfrecord_overhead};
}

}  // namespace dimred::data
