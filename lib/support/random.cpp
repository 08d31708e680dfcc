#include "support/random.h"

#include <bit>
#include <utility>

#include "support/errors.h"

namespace dimred {
namespace {

constexpr std::uint32_t low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high_word(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// The use of a derived key, so that a stream and a permutation never share counters.
enum class KeyUse : std::uint32_t { stream = 0, permutation = 1 };

std::array<std::uint32_t, 2> derived_key(std::uint64_t seed,
                                         RandomPurpose purpose,
                                         std::uint64_t epoch,
                                         KeyUse use) {
  const auto words = philox({low_word(epoch),
                             high_word(epoch),
                             static_cast<std::uint32_t>(purpose),
                             static_cast<std::uint32_t>(use)},
                            {low_word(seed), high_word(seed)});
  return {words[0], words[1]};
}

constexpr std::uint64_t bit_mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

// A permutation of [0, 2^bits), bits <= 64: two halves of equal width (or one bit apart, which the
// even number of rounds undoes).
std::uint64_t feistel(std::uint64_t value, int bits, std::array<std::uint32_t, 2> key) {
  int left_bits = bits / 2;
  int right_bits = bits - left_bits;
  std::uint64_t left = value >> right_bits;
  std::uint64_t right = value & bit_mask(right_bits);
  for (std::uint32_t round = 0; round < 6; ++round) {
    const auto words = philox({low_word(right), high_word(right), round, 0}, key);
    left ^= words[0] & bit_mask(left_bits);
    std::swap(left, right);
    std::swap(left_bits, right_bits);
  }
  return left << right_bits | right;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high_word(b) ^ counter[1] ^ key[0],
               low_word(b),
               high_word(a) ^ counter[3] ^ key[1],
               low_word(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed,
                           RandomPurpose purpose,
                           std::uint64_t epoch,
                           std::uint64_t index)
    : key_(derived_key(seed, purpose, epoch, KeyUse::stream)),
      counter_{0, 0, low_word(index), high_word(index)} {}

std::uint32_t RandomStream::next() {
  if (used_ == 4) {
    words_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return words_[used_++];
}

std::uint32_t RandomStream::below(std::uint32_t bound) {
  require(bound >= 1, "[random] needs bound >= 1, received 0");
  std::uint64_t product = std::uint64_t{next()} * bound;
  if (low_word(product) < bound) {
    // 2^32 mod bound of the low words belong to no complete group of values.
    const std::uint32_t surplus = (0U - bound) % bound;
    while (low_word(product) < surplus) product = std::uint64_t{next()} * bound;
  }
  return high_word(product);
}

std::uint64_t permuted(std::uint64_t position,
                       std::uint64_t size,
                       std::uint64_t seed,
                       RandomPurpose purpose,
                       std::uint64_t epoch) {
  require(position < size,
          "[random] needs position < size, received position = {}, size = {}",
          position,
          size);
  const auto key = derived_key(seed, purpose, epoch, KeyUse::permutation);
  // Enumerated: over 2 bits all 24 permutations occur, each within 6.3 % of equally often.
  const int bits = std::bit_width(size - 1);
  do {
    position = feistel(position, bits, key);
  } while (position >= size);
  return position;
}

}  // namespace dimred
