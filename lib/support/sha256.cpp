#include "support/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "support/errors.h"

namespace dimred {

struct Sha256Stream::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    const bool ready =
        context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), /*impl=*/nullptr) == 1;
    if (!ready) EVP_MD_CTX_free(context);
    require_environment(ready, "[sha256] this machine's libcrypto has no SHA-256");
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;

void Sha256Stream::update(ByteView bytes) {
  check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "EVP_DigestUpdate");
}

std::string Sha256Stream::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1, "EVP_DigestFinal_ex");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4U];
    text += "0123456789abcdef"[digest[i] & 15U];
  }
  return text;
}

}  // namespace dimred
