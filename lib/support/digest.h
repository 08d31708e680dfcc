#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "support/bytes.h"

// XXH3-128 (https://github.com/Cyan4973/xxHash): finds damage at memory speed; no defence against
// forgery.
namespace dimred {

/// XXH3-128 of `bytes` as 32 hexadecimal digits (canonical, big-endian).
std::string digest(ByteView bytes);

/// Returns digest(bytes), for a class that has a digest() of its own.
inline std::string digest_of(ByteView bytes) { return digest(bytes); }

/// XXH3-64 of `bytes`.
std::uint64_t digest64(ByteView bytes);

/// XXH3-128 over bytes that arrive in parts.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  void update(ByteView bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-128 of a file from byte `offset` to its end, read in parts of 1 MiB.
/// Throws std::invalid_argument if it does not exist, std::runtime_error on a read error or when it
/// is shorter than `offset`.
std::string file_digest(const std::filesystem::path& file, std::int64_t offset = 0);

}  // namespace dimred
