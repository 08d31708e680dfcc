#include "support/digest.h"

#include <gtest/gtest.h>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

std::span<const std::byte> bytes_to_digest(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Values of the xxHash command-line tool and specification: XXH3-128 with seed 0.
TEST(Digest, MatchesPublishedValues) {
  EXPECT_EQ(digest(bytes_to_digest("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest(bytes_to_digest("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, IsTheSameInParts) {
  std::string text(1 << 18, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
  DigestStream first;
  first.update(bytes_to_digest(text).first(1000));
  DigestStream stream = std::move(first);
  stream.update({});
  stream.update(bytes_to_digest(text).subspan(1000));
  EXPECT_EQ(stream.hex(), digest(bytes_to_digest(text)));
}

TEST(FileDigest, SkipsTheOffsetAndCrossesItsParts) {
  const TemporaryFolder folder;
  std::string text((1 << 20) * 2 + 12345, 'x');
  text[1 << 20] = 'y';
  put_file(folder / "file", text);
  EXPECT_EQ(file_digest(folder / "file"), digest(bytes_to_digest(text)));
  EXPECT_EQ(file_digest(folder / "file", 512), digest(bytes_to_digest(text.substr(512))));
  EXPECT_THROW(file_digest(folder / "file", std::ssize(text) + 1), std::runtime_error);
  EXPECT_THROW(file_digest(folder / "none"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::checkpoints
