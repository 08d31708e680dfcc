#include "commands/ranks.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <functional>
#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::commands {
namespace {

int run_alone(const std::function<int(const distributed::Ranks&)>& work) {
  return with_ranks("dimred stage2", {}, {}, /*on_gpu=*/false, work);
}

TEST(WithRanks, AloneReturnsTheCodeAndLetsExceptionsPass) {
  EXPECT_EQ(run_alone([](const auto& ranks) { return 2 + ranks.rank_info.size; }), 3);
  EXPECT_THROW(run_alone([](const auto&) -> int { throw std::invalid_argument("x"); }),
               std::invalid_argument);
}

TEST(WithRanks, MemoryThatIsShortIsSaidWithTheCommandsOptions) {
  const OptionTable table("dimred stage2", "");
  const auto work = [](const auto&) -> int {
    throw c10::OutOfMemoryError({"work", __FILE__, static_cast<std::uint32_t>(__LINE__)},
                                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
                                "total capacity of 79.11 GiB of which 1.50 GiB is free. Process");
  };
  EXPECT_THAT(
      thrown<std::runtime_error>([&] { with_ranks(table, run::CommonOptions{}, work); }),
      testing::AllOf(testing::StartsWith("[device] out of memory: Tried to allocate 2.00 GiB. GPU "
                                         "0 has a total capacity of 79.11 GiB of which 1.50 GiB "
                                         "is free; "),
                     testing::HasSubstr("n_component")));
}

}  // namespace
}  // namespace dimred::commands
