#include "checkpoints/verbs/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::verbs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string one(64, '1'), two(64, '2');

Manifest manifest_of_all_kinds() {
  return {{{"a b.bin", one}, {"back\\slash", two}, {"line\nend\r", one}},
          {{"", "F32", {}, one}, {"h.0 [x] \\n\n", "BF16", {2, 3}, two}}};
}

std::string refused_line(const std::string& text) {
  return thrown<std::invalid_argument>([&] { parse_manifest(text, "m"); });
}

TEST(Manifest, ItsTextHasSha256sumsFormAndEscapes) {
  EXPECT_EQ(manifest_text(manifest_of_all_kinds()),
            std::string(manifest_head) + "; sha256sum -c reads it in the folder that it is of\n" +
                one + "  a b.bin\n\\" + two + "  back\\\\slash\n\\" + one +
                "  line\\nend\\r\n# tensor " + one + " F32 [] \n# tensor " + two +
                " BF16 [2,3] h.0 [x] \\\\n\\n\n");
  EXPECT_THAT(manifest_text({{{"-", one}}, {}}), HasSubstr(one + "  ./-\n"));
}

TEST(Manifest, IsReadAsWritten) {
  auto expected = manifest_of_all_kinds();
  expected.files.push_back({"-n", two});
  const auto read = parse_manifest(manifest_text(expected), "m");
  std::ranges::sort(expected.files);
  EXPECT_EQ(read.files, expected.files);
  EXPECT_EQ(read.tensors, expected.tensors);
}

TEST(Manifest, TakesWhatSha256sumTakes) {
  const auto read =
      parse_manifest("# a comment\n\n" + std::string(64, 'A') + " *./x/../y\r\n", "m");
  EXPECT_THAT(read.files, ElementsAre(FileDigest{"y", std::string(64, 'a')}));
  EXPECT_TRUE(read.tensors.empty());
}

TEST(Manifest, AMalformedLineIsRefusedWithItsNumber) {
  for (const std::string& line : {one + " a",
                                  one.substr(1) + "  a",
                                  one + "  ",
                                  "g" + one.substr(1) + "  a",
                                  "\\" + one + "  a\\t",
                                  "\\" + one + "  a\\",
                                  "# tensor " + one,
                                  "# tensor " + one + " F32 2,3 a",
                                  "# tensor " + one + " F32 [2,-3] a",
                                  "# tensor " + one + " F32 [2,x] a",
                                  one + "  ../a",
                                  one + "  b/../../a",
                                  one + "  /a",
                                  "SHA256 (a) = " + one})
    EXPECT_THAT(refused_line("# head\n" + line + "\n"), HasSubstr("m:2: needs ")) << line;
  EXPECT_EQ(refused_line(one + "  a\n" + two + "  ./a\n"), "m: a: given twice");
}

TEST(Manifest, DifferencesAreALineEach) {
  const Manifest expected{{{"a", one}, {"b", one}, {"c", one}},
                          {{"s", "F32", {2}, one},
                           {"t", "F32", {2}, one},
                           {"u", "F32", {2}, one},
                           {"v", "F32", {2}, one}}};
  const Manifest now{{{"a", one}, {"b", two}, {"d", one}},
                     {{"s", "F32", {2}, two},
                      {"t", "BF16", {2}, one},
                      {"u", "F32", {2, 1}, one},
                      {"w", "F32", {2}, one}}};
  const auto found = differences(expected, now);
  EXPECT_THAT(found.faults,
              ElementsAre("b: changed",
                          "c: missing",
                          "d: not listed in the manifest",
                          "tensor s: other values",
                          "tensor t: BF16, was F32",
                          "tensor u: shape [2,1], was [2]",
                          "tensor v: missing",
                          "tensor w: not listed in the manifest"));
  EXPECT_TRUE(found.remarks.empty());
  EXPECT_TRUE(differences(expected, expected).faults.empty());
}

TEST(Manifest, HasTheVisibleFilesOfAFolderAndItsOwnHiddenOnes) {
  const TemporaryFolder folder;
  for (const auto* name : {"a", "b.tmp", ".hidden", ".metadata", "m"}) folder.write(name, name);
  std::filesystem::create_directories(folder.path() / "below/.git");
  folder.write("below/c", "c");
  folder.write("below/.git/d", "d");
  std::filesystem::create_symlink(folder.path() / ".hidden", folder.path() / "link");
  const std::vector<std::filesystem::path> own{folder.path() / ".metadata"};
  EXPECT_THAT(manifest_files(folder.path(), true, own, folder.path() / "m"),
              ElementsAre(".metadata", "a", "below/c", "link"));
  EXPECT_THAT(manifest_files(folder.path(), false, own, {}), ElementsAre(".metadata"));
  EXPECT_THAT(
      manifest_files(folder.path(),
                     false,
                     {},
                     {},
                     {{".hidden", one}, {"below/.git/d", one}, {"gone", one}, {"below", one}}),
      ElementsAre(".hidden", "below/.git/d"));
}

}  // namespace
}  // namespace dimred::verbs
