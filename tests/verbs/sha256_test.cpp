#include "support/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace dimred {
namespace {

std::string sha256_of(const std::string& text, std::size_t part) {
  Sha256Stream stream;
  for (std::size_t at = 0; at < text.size(); at += part) stream.update(text.substr(at, part));
  return stream.hex();
}

// FIPS 180-4's examples, and a million letters.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc", 2),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 7),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1'000'000, 'a'), 4096),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace dimred
