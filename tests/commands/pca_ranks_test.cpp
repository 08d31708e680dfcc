#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands/pca_command.h"
#include "tests/commands/program.h"
#include "tests/tools/thread_ranks.h"

namespace dimred::commands {
namespace {

using testing::Each;
using testing::HasSubstr;

/// `dimred pca` by three ranks of this process: what each threw, and what they printed together.
struct ByRanks {
  std::vector<std::string> errors;
  std::string output;

  explicit ByRanks(const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    errors = ThreadRanks(3).run([&](Communicator& ranks) {
      const auto run_on_ranks = [&](const auto&, const auto&, const auto& work) {
        return work(ranks);
      };
      EXPECT_EQ(pca_command(arguments, run_on_ranks), 0);
    });
    output = testing::internal::GetCapturedStdout();
  }
};

TEST(PcaByRanks, WritesOneMatrixAndSaysSoOnce) {
  const TemporaryFolder folder;
  const auto snapshots = write_snapshots(folder.path(), 6);
  const auto output = folder / "p.npy";
  const ByRanks fit({snapshots.string(), "--output", output.string(), "--components", "3"});
  EXPECT_THAT(fit.errors, Each(""));
  EXPECT_EQ(checkpoints::read_npy_header(output).shape, (std::vector<std::int64_t>{3, 40}));
  EXPECT_THAT(fit.output, HasSubstr("wrote " + output.string()));
  EXPECT_EQ(fit.output.find("wrote"), fit.output.rfind("wrote"));
  // All refuse what rank 0 finds in the way.
  const ByRanks again({snapshots.string(), "--output", output.string()});
  EXPECT_THAT(again.errors,
              Each("caller: [file] " + output.string() +
                   " exists already; choose another --output or give --overwrite"));
  EXPECT_EQ(again.output, "");
}

}  // namespace
}  // namespace dimred::commands
