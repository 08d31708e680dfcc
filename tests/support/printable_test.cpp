#include "support/printable.h"

#include <gtest/gtest.h>

#include "support/utf8.h"

namespace dimred {
namespace {

TEST(Printable, KeepsAMessageOnOneShortLine) {
  EXPECT_EQ(printable("a\nb\x1B"), "a\\nb\\u001B");
  EXPECT_EQ(printable(""), "\"\"");
  EXPECT_LE(printable(std::string(5000, 'x')).size(), 110U);
}

TEST(Printable, EscapesWhatATerminalObeysAndKeepsOtherLetters) {
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\x7F"),
            "\\u009B2J\\u007F");  // C1, DEL
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b\xE2\x81\xA6"),
            "a\\u202Eb\\u2066");                     // right to left
  EXPECT_EQ(printable("a\x9B\xFF"), "a\\x9B\\xFF");  // no UTF-8
  const std::string letters = "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80";
  EXPECT_EQ(printable(letters), letters);
  EXPECT_EQ(terminal_text("a\tb\n\x1B"), "a\tb\n\\u001B");
  EXPECT_EQ(terminal_text("a\n", ""), "a\\n");
}

TEST(Printable, LeavesAPasswordOutWhereverAUrlBegins) {
  EXPECT_EQ(printable(" s3://me:secret@bucket/x"), " s3://bucket/x");
  EXPECT_EQ(printable("x=https://me:secret@host/p?signature"), "x=https://host/p");
}

}  // namespace
}  // namespace dimred
