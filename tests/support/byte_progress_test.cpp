#include "support/byte_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ByteProgress, SaysWhatIsDoneOfAll) {
  std::vector<std::pair<std::int64_t, std::int64_t>> said;
  ByteProgress progress{
      [&](std::int64_t done, std::int64_t total) { said.emplace_back(done, total); }};
  EXPECT_EQ(progress.fraction(), 0);
  expect_bytes(&progress, 6);
  expect_bytes(&progress, 2);
  add_done(&progress, 2);
  EXPECT_EQ(progress.fraction(), 0.25);
  add_done(&progress, 6);
  EXPECT_THAT(said, ElementsAre(Pair(2, 8), Pair(8, 8)));
}

TEST(ByteProgress, EndsAWorkThatIsToStop) {
  ByteProgress progress;
  EXPECT_NO_THROW(require_running(&progress, "[merge] stopped"));
  progress.stop = true;
  EXPECT_EQ(thrown<std::runtime_error>([&] { require_running(&progress, "[merge] stopped"); }),
            "[merge] stopped");
}

TEST(ByteProgress, NeedsNobodyWhoLooks) {
  expect_bytes(nullptr, 1);
  add_done(nullptr, 1);
  EXPECT_NO_THROW(require_running(nullptr, "[merge] stopped"));
}

}  // namespace
}  // namespace dimred
