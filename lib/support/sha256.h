#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "support/bytes.h"

// SHA-256 by libcrypto, for manifests that `sha256sum -c` reads. Digests of our own files are
// support/digest.h's, which are read at memory speed. Compiled into the room that needs it
// (checkpoints/verbs), so that no other links libcrypto.
namespace dimred {

/// SHA-256 over bytes that arrive in parts.
class Sha256Stream {
 public:
  /// Throws std::runtime_error where libcrypto does not offer SHA-256.
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;
  void update(ByteView bytes);
  /// Returns the digest as 64 hexadecimal digits; update() is not called after it.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dimred
