#include "checkpoints/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunIdentity with_id(const std::string& id, std::int64_t seed) {
  return {.id = id, .seed = seed, .split_seed = {}};
}

RunIdentity older(std::optional<std::int64_t> split_seed) {
  return {.id = {}, .seed = {}, .split_seed = split_seed};
}

TEST(Runs, AnIdentityIsReadAsItIsWritten) {
  const auto run = with_id("0f", 3);
  EXPECT_EQ(identity_of(nlohmann::json{{"run", to_json(run)}}.dump()), run);
  EXPECT_EQ(identity_of(R"({"config": "seed = 1\nsplit_seed = 7\nx_split_seed = 8\n"})"), older(7));
  for (const auto* text : {"", "{", "[]", "{}", R"({"run": 3})", R"({"run": {"identity": 3}})"})
    EXPECT_EQ(identity_of(text), RunIdentity()) << text;
  EXPECT_NE(new_identity(), new_identity());
}

TEST(Runs, MembersCountByIdentityAndOlderOnesBySplitSeed) {
  const auto text = [](const std::vector<RunIdentity>& runs) {
    std::vector<MemberFacts> members;
    for (const auto& run : runs)
      members.push_back({.path = "x" + std::to_string(members.size()), .run = run});
    return runs_remark(members);
  };
  const auto a = with_id("a", 1), b = with_id("b", 2);
  EXPECT_EQ(text({a, a, b, a}),
            "the checkpoints are of 2 runs: 3 of run A (seed 1), 1 of run B (seed 2)");
  EXPECT_EQ(text({older(1), older(2)}),
            "the checkpoints are of 2 runs: 1 of run A (split_seed 1), 1 of run B (split_seed 2)");
  EXPECT_THAT(text({a, a}), IsEmpty());
  EXPECT_THAT(text({older(1), older(1), older({})}), IsEmpty());
  EXPECT_THAT(text({older({}), a}), IsEmpty());  // a run that an older revision began
  EXPECT_THAT(text({}), IsEmpty());
}

TEST(Runs, SeveralAreRefusedWithAMemberOfEach) {
  const auto p_and_q = [](const RunIdentity& p, const RunIdentity& q) {
    return std::vector<MemberFacts>{{.path = "p", .run = p}, {.path = "q", .run = q}};
  };
  require_one_run(p_and_q(with_id("a", 1), with_id("a", 1)), "test");
  const auto refusal = thrown<std::invalid_argument>(
      [&] { require_one_run(p_and_q(with_id("a", 1), with_id("b", 2)), "test"); });
  EXPECT_THAT(refusal,
              HasSubstr("[test] needs the snapshots of one run, received 1 of run A (seed 1) such "
                        "as 'p', 1 of run B (seed 2) such as 'q'"));
}

}  // namespace
}  // namespace dimred::checkpoints
