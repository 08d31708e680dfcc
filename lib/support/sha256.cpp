#include "support/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "support/digest.h"
#include "support/errors.h"

namespace dimred {

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  const bool ready =
      context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), /*impl=*/nullptr) == 1;
  require_environment(ready, "[sha256] this machine's libcrypto has no SHA-256");
}

void Sha256Stream::update(ByteView bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "EVP_DigestUpdate");
}

std::string Sha256Stream::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1, "EVP_DigestFinal_ex");
  return hex_text({digest.data(), size});
}

}  // namespace dimred
