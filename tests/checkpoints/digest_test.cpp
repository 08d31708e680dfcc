#include "support/digest.h"

#include <gtest/gtest.h>

#include "support/sampled_digest.h"
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

/// Every change of 4 KiB at the ends of 255 gaps, the first and the last among them.
TEST(SampledDigest, LooksAtBothEnds) {
  const TemporaryFolder folder;
  const auto digest_of_text = [&](const std::string& text) {
    put_file(folder / "file", text);
    return sampled_digest(folder / "file");
  };
  constexpr std::size_t size = (8 << 20) + 77;
  const std::string text(size, 'x');
  const auto whole = digest_of_text(text);
  EXPECT_TRUE(whole.starts_with("8388685 bytes, digest "));
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{4095}, size / 255 * 100 + 40, size - 4096, size - 1}) {
    auto changed = text;
    changed[at] = 'y';
    EXPECT_NE(digest_of_text(changed), whole) << at;
  }
  for (const std::size_t few : {std::size_t{0}, std::size_t{1}, std::size_t{4097}}) {
    const std::string small(few, 'x');
    const auto first = digest_of_text(small);
    EXPECT_EQ(first, sampled_digest(folder / "file"));
  }
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
