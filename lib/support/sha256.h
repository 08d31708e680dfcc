#pragma once

#include <memory>
#include <string>

#include "support/bytes.h"

struct evp_md_ctx_st;  // libcrypto's

// SHA-256 by libcrypto, for manifests that `sha256sum -c` reads. Digests of our own files are
// support/digest.h's, which are read at memory speed. Compiled into the room that needs it
// (checkpoints/verbs), so that no other links libcrypto.
namespace dimred {

/// SHA-256 over bytes that arrive in parts.
class Sha256Stream {
 public:
  /// Throws std::runtime_error where libcrypto does not offer SHA-256.
  Sha256Stream();
  void update(ByteView bytes);
  /// Returns the digest as 64 hexadecimal digits; update() is not called after it.
  std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace dimred
