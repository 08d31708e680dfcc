#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "support/bytes.h"

struct XXH3_state_s;  // the library's

// XXH3-128 (https://github.com/Cyan4973/xxHash): finds damage at memory speed; no defence against
// forgery.
namespace dimred {

/// Two hexadecimal digits a byte.
std::string hex_text(Bytes bytes);

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
  void update(ByteView bytes);
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// XXH3-128 of a file from byte `offset` to its end, read in parts of 1 MiB.
/// Throws std::invalid_argument if it does not exist, std::runtime_error on a read error or when it
/// is shorter than `offset`.
std::string file_digest(const std::filesystem::path& file, std::int64_t offset = 0);

}  // namespace dimred
