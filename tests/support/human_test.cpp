#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/counted.h"
#include "support/formatted.h"
#include "support/text.h"

namespace dimred {
namespace {

TEST(CountText, SeparatesThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(2560000), "2,560,000");
  EXPECT_EQ(count_text(-999), "-999");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(count_text(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Counted, PutsTheNounBehindItsNumber) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(1200, "file"), "1,200 files");
  EXPECT_EQ(counted(2, "class", "classes"), "2 classes");
}

TEST(FirstNames, AreAFewOfMany) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(first_names(names, 3), "a, b, c");
  EXPECT_EQ(first_names(names, 2), "a, b, ...");
  EXPECT_EQ(first_of_all(names, 3), "a, b, c");
  EXPECT_EQ(first_of_all(names, 2), "a, b, ... (3 in all)");
  EXPECT_EQ(first_of_all({}, 2), "");
}

TEST(BytesText, PicksTheUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(999949), "999.9 kB");
  EXPECT_EQ(bytes_text(999999), "1.0 MB");  // not 1000.0 kB
  EXPECT_EQ(bytes_text(32 << 20), "33.6 MB");
  EXPECT_EQ(bytes_text(std::numeric_limits<std::int64_t>::max()), "9223.4 PB");
}

TEST(DurationText, PicksTheUnit) {
  EXPECT_EQ(duration_text(0), "0.0 ms");
  EXPECT_EQ(duration_text(0.0032), "3.2 ms");
  EXPECT_EQ(duration_text(0.42), "0.42 s");
  EXPECT_EQ(duration_text(12.3), "12 s");
  EXPECT_EQ(duration_text(59.7), "1 min 00 s");  // not 60 s
  EXPECT_EQ(duration_text(185), "3 min 05 s");
  EXPECT_EQ(duration_text(7380), "2 h 03 min");
  EXPECT_EQ(duration_text(-1), "?");
  EXPECT_EQ(duration_text(std::nan("")), "?");
  EXPECT_EQ(duration_text(1e300), "?");
}

TEST(DecimalText, HasFixedDigits) {
  EXPECT_EQ(decimal_text(0.31416, 4), "0.3142");
  EXPECT_EQ(decimal_text(-2, 1), "-2.0");
  EXPECT_EQ(decimal_text(1e308, 0).size(), 309U);
  EXPECT_EQ(decimal_text(std::nan(""), 4), "nan");
}

}  // namespace
}  // namespace dimred
