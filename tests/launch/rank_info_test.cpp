#include "launch/rank_info.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::launch {
namespace {

using Variables = std::map<std::string, std::string>;

RankInfo rank_info_in(const Variables& variables) {
  return discover([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankInfo, IsASingleProcessWithoutALauncher) {
  const auto rank_info = rank_info_in({});
  EXPECT_EQ(rank_info.rank, 0);
  EXPECT_EQ(rank_info.size, 1);
}

TEST(RankInfo, OfTorchrun) {
  const auto rank_info = rank_info_in({{"RANK", "5"},
                                       {"WORLD_SIZE", "16"},
                                       {"LOCAL_RANK", "1"},
                                       {"LOCAL_WORLD_SIZE", "4"},
                                       {"MASTER_ADDR", "node7"},
                                       {"MASTER_PORT", "29500"},
                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                       {"TORCHELASTIC_RUN_ID", "abc"},
                                       {"SLURM_PROCID", "0"},  // torchrun inside a SLURM job
                                       {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(rank_info.rank, 5);
  EXPECT_EQ(rank_info.size, 16);
  EXPECT_EQ(rank_info.local_rank, 1);
  EXPECT_EQ(rank_info.local_size, 4);
  EXPECT_EQ(rank_info.address, "node7");
  EXPECT_EQ(rank_info.port, 29500);
  EXPECT_TRUE(rank_info.agent_store);
  EXPECT_EQ(rank_info.run_id, "abc");
}

TEST(RankInfo, OfTorchrunWithOneRankReachesTheAgentsStore) {
  const auto rank_info = rank_info_in({{"RANK", "0"},
                                       {"WORLD_SIZE", "1"},
                                       {"MASTER_ADDR", "localhost"},
                                       {"MASTER_PORT", "29500"},
                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(rank_info.size, 1);
  EXPECT_EQ(rank_info.address, "localhost");
  EXPECT_EQ(rank_info.port, 29500);
}

TEST(RankInfo, OfSrunWithNothingElse) {
  Variables variables{{"SLURM_PROCID", "3"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_NODELIST", "gpu[017-018]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"}};
  const auto rank_info = rank_info_in(variables);
  EXPECT_EQ(rank_info.rank, 3);
  EXPECT_EQ(rank_info.size, 4);
  EXPECT_EQ(rank_info.local_rank, 1);
  EXPECT_EQ(rank_info.local_size, 2);
  EXPECT_EQ(rank_info.address, "gpu017");
  EXPECT_GE(rank_info.port, 12000);
  EXPECT_LT(rank_info.port, 32000);
  variables["SLURM_PROCID"] = "0";
  EXPECT_EQ(rank_info_in(variables).port, rank_info.port);  // every rank finds the same
  variables["MASTER_ADDR"] = "login";
  variables["MASTER_PORT"] = "1234";
  EXPECT_EQ(rank_info_in(variables).address, "login");
  EXPECT_EQ(rank_info_in(variables).port, 1234);
}

TEST(RankInfo, OfSrunOnNodesWithDifferentCounts) {
  const auto local_size = [](const char* counts, const char* node) {
    return rank_info_in({{"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "12"},
                         {"SLURM_STEP_NODELIST", "n[1-4]"},
                         {"SLURM_STEP_TASKS_PER_NODE", counts},
                         {"SLURM_NODEID", node}})
        .local_size;
  };
  EXPECT_EQ(local_size("1,3", "0"), 1);
  EXPECT_EQ(local_size("1,3", "1"), 3);
  EXPECT_EQ(local_size("4(x2),3,1", "1"), 4);
  EXPECT_EQ(local_size("4(x2),3,1", "2"), 3);
  EXPECT_EQ(local_size("4(x2),3,1", "3"), 1);
}

TEST(RankInfo, OfSrunsArbitraryDistributionNeedsARendezvousAddress) {
  Variables variables{{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "3"},
                      {"SLURM_STEP_NODELIST", "n[1,3]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_DISTRIBUTION", "arbitrary"}};
  EXPECT_THROW(rank_info_in(variables), std::invalid_argument);
  variables["MASTER_ADDR"] = "n3";
  EXPECT_EQ(rank_info_in(variables).address, "n3");
}

TEST(RankInfo, OfABatchScriptIsOneRank) {
  EXPECT_EQ(rank_info_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).size, 1);
  EXPECT_EQ(
      rank_info_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"MASTER_ADDR", "node1"}}).size,
      1);
}

TEST(RankInfo, OfMpirunOnOneMachine) {
  const Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const auto rank_info = rank_info_in(variables);
  EXPECT_EQ(rank_info.rank, 1);
  EXPECT_EQ(rank_info.size, 2);
  EXPECT_EQ(rank_info.address, "127.0.0.1");
}

TEST(RankInfo, OfMpirunOnSeveralMachinesNeedsARendezvousAddress) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THROW(rank_info_in(variables), std::invalid_argument);
  variables["MASTER_ADDR"] = "node1";
  EXPECT_EQ(rank_info_in(variables).address, "node1");
}

TEST(RankInfo, NamesTheVariableThatIsWrong) {
  const auto text_of = [](const Variables& variables) {
    return thrown<std::invalid_argument>([&] { rank_info_in(variables); });
  };
  EXPECT_NE(text_of({{"WORLD_SIZE", "2"}}).find("RANK"), std::string::npos);
  EXPECT_NE(text_of({{"RANK", "0"}, {"WORLD_SIZE", "two"}}).find("WORLD_SIZE, received two"),
            std::string::npos);
  EXPECT_NE(
      text_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})
          .find("rank = 2, size = 2"),
      std::string::npos);
  EXPECT_NE(text_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(
      text_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "99999"}})
          .find("99999"),
      std::string::npos);
}

TEST(FirstHost, OfSlurmsLists) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("node7,node9"), "node7");
  EXPECT_EQ(first_host("gpu[017-018,3]"), "gpu017");
  EXPECT_EQ(first_host("gpu[3,5-7],cpu1"), "gpu3");
  EXPECT_EQ(first_host("rack[1-2]-node.site,x"), "rack1-node.site");
  EXPECT_EQ(first_host("a,gpu[3,5-7]"), "a");
}

}  // namespace
}  // namespace dimred::launch
