#include "data/tfrecord.h"

#include <cstring>
#include <limits>

#include "data/inflated_file.h"
#include "support/binary.h"
#include "support/crc32c.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t head_bytes = length_bytes + checksum_bytes;
static_assert(head_bytes + checksum_bytes == tfrecord_overhead);

template <class Integer>
Integer number_at(std::span<const std::byte> bytes) {
  Integer value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void require_checksum(std::span<const std::byte> bytes,
                      std::span<const std::byte> checksum,
                      std::string_view what) {
  require_environment(masked_crc32c(bytes) == number_at<std::uint32_t>(checksum),
                      "[tfrecord] a record is damaged: the {} does not match its checksum",
                      what);
}

}  // namespace

std::uint32_t masked_crc32c(ByteView bytes) {
  const auto checksum = crc32c(bytes);
  return (checksum >> 15 | checksum << 17) + 0xA282EAD8;
}

std::string to_tfrecord(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + head_bytes + checksum_bytes);
  append(record, payload.size());
  append(record, masked_crc32c(record));
  record += payload;
  append(record, masked_crc32c(payload));
  return record;
}

std::optional<std::uint64_t> tfrecord_length(ByteView bytes) {
  if (bytes.size() < head_bytes) return std::nullopt;
  const auto length = bytes.first(length_bytes);
  require_checksum(length, bytes.subspan(length_bytes), "length");
  const auto announced = number_at<std::uint64_t>(length);
  if (announced > std::numeric_limits<std::uint64_t>::max() - tfrecord_overhead)
    return std::nullopt;
  return announced;
}

std::optional<TfRecord> first_tfrecord(ByteView bytes) {
  const auto announced = tfrecord_length(bytes);
  if (!announced || *announced + tfrecord_overhead > bytes.size()) return std::nullopt;
  const auto payload = bytes.subspan(head_bytes, *announced);
  require_checksum(payload, bytes.subspan(head_bytes + *announced), "payload");
  return TfRecord{.payload = payload, .size = *announced + tfrecord_overhead};
}

bool is_tfrecord(const std::filesystem::path& file) {
  try {
    return tfrecord_length(first_bytes(file, 12)).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace dimred::data
