#include "support/list_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class ListLines : public testing::Test {
 protected:
  auto lines_of(const std::string& text, std::int64_t most = 100) const {
    std::vector<std::pair<std::string, std::string>> lines;
    for_each_list_line(folder.write("list.txt", text),
                       most,
                       [&](const std::string& line, const std::string& place) {
                         lines.emplace_back(line, place);
                       });
    return lines;
  }
  TemporaryFolder folder;
};

TEST_F(ListLines, AreNeitherBlankNorComments) {
  const auto place = (folder / "list.txt:").string();
  EXPECT_THAT(lines_of("\xEF\xBB\xBF# newest first\n a \r\n\n  # no more\n\t\r\nb"),
              ElementsAre(Pair(" a ", place + '2'), Pair("b", place + '6')));
}

TEST_F(ListLines, RefuseLargeFilesAndOtherEncodings) {
  EXPECT_THAT(thrown<std::runtime_error>([&] { lines_of("a\nb\n", 3); }),
              HasSubstr("at most 3 bytes, received 4"));
  EXPECT_THAT(thrown<std::runtime_error>([&] {
                lines_of(
                    "\xFF\xFE"
                    "a");
              }),
              HasSubstr("UTF-8"));
}

TEST(WithoutComment, CutsWhatBeginsAtANumberSignBehindABlank) {
  for (const auto* line :
       {"kind=mean # note", "kind=mean #note", "kind=mean\t# a # b", "kind=mean"})
    EXPECT_EQ(without_comment(line), "kind=mean") << line;
  EXPECT_EQ(without_comment("coefficients=a#b.txt last=2 # of run #7"),
            "coefficients=a#b.txt last=2");
  EXPECT_EQ(without_comment("a#b # c#d"), "a#b");
  EXPECT_EQ(without_comment("# all"), "");
}

}  // namespace
}  // namespace dimred
