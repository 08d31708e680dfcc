#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/bytes.h"

// TFRecord framing, of TensorFlow's data sets and TensorBoard's event files. A record is
//   uint64 length | uint32 masked CRC-32C of those 8 bytes | payload | uint32 masked CRC-32C of it
// in little-endian order, one record after another, without a header or an end mark.
// Source: tensorflow/core/lib/io/record_writer.h, tsl/lib/hash/crc32c.h.
namespace dimred::data {

/// The checksum c as the format stores it: rotated right by 15 bits, plus 0xA282EAD8, so a checksum
/// of data with checksums in them keeps its worth.
std::uint32_t masked_crc32c(ByteView bytes);

/// `payload` as one record.
std::string to_tfrecord(std::string_view payload);

/// A record within other bytes.
struct TfRecord {
  std::span<const std::byte> payload;
  std::size_t size = 0;  // of the whole record: payload + 16
};

/// Bytes of a record beside its payload.
constexpr std::size_t tfrecord_overhead = 16;

/// Length of the payload of the record that `bytes` begins with, its checksum verified (otherwise
/// std::runtime_error); nullopt for less than the 12 bytes that say it, or when the record would
/// end behind the last 64-bit offset. The payload need not be there.
std::optional<std::uint64_t> tfrecord_length(ByteView bytes);

/// The bytes between length and checksum of a whole record.
inline Bytes payload_of(Bytes record) {
  return record.subspan(tfrecord_overhead - 4, record.size() - tfrecord_overhead);
}

/// The record that `bytes` begins with; nullopt when they end before it does. Throws
/// std::runtime_error("[tfrecord] ...") when one of its checksums differs; the length is believed
/// only after its own has been verified.
std::optional<TfRecord> first_tfrecord(ByteView bytes);

/// Whether the file begins as a TFRecord file does (its first length has its checksum), plain or
/// gz.
bool is_tfrecord(const std::filesystem::path& file);

}  // namespace dimred::data
