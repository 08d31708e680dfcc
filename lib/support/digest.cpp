#include "support/digest.h"

#include <xxhash.h>
// The same functions by the widest instructions that the processor has, where the library has them:
// it is otherwise compiled for any x86-64.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include <new>

#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred {
namespace {

std::string hex_of(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hex_text(canonical.digest);
}

}  // namespace

std::string hex_text(Bytes bytes) {
  std::string text;
  for (const auto byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string digest(ByteView bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::uint64_t digest64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// The library's own allocation: the state needs 64-byte alignment.
DigestStream::DigestStream() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void DigestStream::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void DigestStream::update(ByteView bytes) {
  check(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK, "XXH3 update");
}

std::string DigestStream::hex() const { return hex_of(XXH3_128bits_digest(state_.get())); }

std::string file_digest(const std::filesystem::path& file, std::int64_t offset) {
  const InputFile input(file);
  require_environment(offset >= 0 && offset <= input.size(),
                      "[digest] '{}' needs at least {} bytes, received {}",
                      file,
                      offset,
                      input.size());
  DigestStream stream;
  input.read(offset, [&](ByteView bytes) { stream.update(bytes); });
  return stream.hex();
}

}  // namespace dimred
