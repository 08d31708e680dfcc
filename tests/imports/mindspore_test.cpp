#include <map>

#include "tests/imports/imports_fixture.h"

namespace dimred::imports {
namespace {

// The tutorial's dictionary: one of its keys is unknown to MindSpore itself, one misspelt.
constexpr auto tutorial = R"({
  "boost": {"mode": "manual", "less_bn": false, "dim_reduce": true},
  "common": {"device_num": 8},
  "dim_reduce": {"rho": 0.55, "gamma": 0.9, "alpha": 0.001, "sigma": 0.4, "n_component": 32,
                 "pca_mat_path": "pca_mat.npy", "weight_load_dir": "./checkpoint_pca", "timeout": 1200}
})";

TEST_F(Imports, TheTutorialsBoostDictionaryMeansMindsporesLatest) {
  const auto import = read_boost(file("boost.json", tutorial));
  const std::map<std::string, std::string> expected = {{"alpha", "0.001"},
                                                       {"collective_timeout", "1200"},
                                                       {"gamma", "0.9"},
                                                       {"n_component", "32"},
                                                       {"pca_mat", "pca_mat.npy"},
                                                       {"preset", "mindspore-latest"},
                                                       {"rho", "0.55"},
                                                       {"sigma", "0.4"},
                                                       {"snapshots", "./checkpoint_pca"}};
  EXPECT_EQ(settings(import), expected);
  EXPECT_NE(line(import, "common.device_num").text.find("ignores this key"), std::string::npos);
  EXPECT_NE(line(import, "dim_reduce.n_component").text.find("ignores"), std::string::npos);
  EXPECT_EQ(refusal(import), "");
}

TEST_F(Imports, TheKeysOfDimReduceMayStandAlone) {
  const auto import = read_boost(file("boost.json", R"({"n_components": 20, "timeout": 9})"));
  EXPECT_EQ(settings(import).at("n_component"), "20");
}

TEST_F(Imports, BothSpellingsOfTheNumberOfComponentsAgreeOrAreRefused) {
  const auto same = file("same.json", R"({"n_components": 20, "n_component": 20})");
  EXPECT_EQ(settings(read_boost(same)).at("n_component"), "20");
  const auto number = file("number.json", R"({"n_components": 20, "n_component": 20.0})");
  EXPECT_EQ(settings(read_boost(number)).at("n_component"), "20");
  const auto null = file("null.json", R"({"n_components": null, "n_component": 20})");
  EXPECT_EQ(settings(read_boost(null)).at("n_component"), "20");
  const auto other = file("other.json", R"({"n_components": 32, "n_component": 16})");
  EXPECT_NE(message([&] {
              read_boost(other);
            }).find("n_component = 16 and dim_reduce.n_components = 32 contradict"),
            std::string::npos);
}

TEST_F(Imports, DeviceNumIsNotedWhereverItStands) {
  for (const auto* text : {R"({"rho": 0.5, "device_num": 8})",
                           R"({"dim_reduce": {"rho": 0.5, "device_num": 8}})",
                           R"({"common": {"device_num": 8}, "dim_reduce": {"rho": 0.5}})"}) {
    const auto said = describe(read_boost(file("boost.json", text)));
    EXPECT_NE(said.find("ignores this key, because the right name is device_number"),
              std::string::npos)
        << said;
  }
}

TEST_F(Imports, ABoostDictionaryThatIsNotOneIsRefused) {
  const std::map<std::string, std::string> cases = {
      {R"({"dim_reduce": {"roh": 1}})", "did you mean rho?"},
      {R"({"dim_reduse": {"rho": 1}})", "dim_reduse is not a key"},
      {R"({"dim_reduce": {"rho": 1}, "other": {}})",
       "MindSpore's boost dictionary has no part other"},
      {R"({"dim_reduce": {"rho": 1, "rho": 2}})", "rho: given twice"},
      {R"([1])", "needs a JSON object"},
      {R"({"rho": )", "not JSON"}};
  for (const auto& [text, said] : cases) {
    const auto received = message([&] { read_boost(file("boost.json", text)); });
    EXPECT_NE(received.find(said), std::string::npos) << received;
  }
  EXPECT_NE(refusal(read_boost(file("b.json", R"({"boost": {"dim_reduce": false}})")))
                .find("dimred stage1"),
            std::string::npos);
}

TEST_F(Imports, ARankTableBecomesTorchrunCommands) {
  const auto table =
      file("rank_table.json", R"({"version": "1.0", "server_count": "2", "server_list": [
    {"server_id": "10.0.0.1", "device": [{"device_id": "0", "device_ip": "x", "rank_id": "0"},
                                         {"device_id": "1", "device_ip": "y", "rank_id": "1"}]},
    {"server_id": "10.0.0.2", "device": [{"device_id": "3", "device_ip": "z", "rank_id": "2"}]}]})");
  EXPECT_EQ(format_of(table), ForeignFormat::rank_table);
  const auto masked = file("masked.json", R"({"server_list": [{"server_id": "10.*.*.*", "device": [
    {"device_id": "0", "rank_id": "0"}, {"device_id": "1", "rank_id": "1"}]}]})");
  EXPECT_NE(
      describe_rank_table(masked).find("on 10.*.*.*: CUDA_VISIBLE_DEVICES=0,1 torchrun --no-python "
                                       "--nproc_per_node=2 dimred stage1"),
      std::string::npos);
  EXPECT_NE(message([&] {
              describe_rank_table(file("two.json", R"({"server_list": [
                {"server_id": "10.*.*.*", "device": [{"device_id": "0", "rank_id": "0"}]},
                {"server_id": "10.*.*.*", "device": [{"device_id": "0", "rank_id": "1"}]}]})"));
            }).find("a host or a number as server_id, received 10.*.*.*"),
            std::string::npos);
  const auto text = describe_rank_table(table);
  EXPECT_NE(text.find("on 10.0.0.1: CUDA_VISIBLE_DEVICES=0,1 torchrun --no-python "
                      "--nproc_per_node=2 --nnodes=2 --node_rank=0 --master_addr=10.0.0.1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("on 10.0.0.2: CUDA_VISIBLE_DEVICES=3 torchrun"), std::string::npos) << text;
  EXPECT_NE(message([&] {
              describe_rank_table(file("r.json", R"({"server_list": []})"));
            }).find("a non-empty list \"server_list\""),
            std::string::npos);
  EXPECT_NE(
      message([&] {
        describe_rank_table(file("r.json", R"({"server_list": [{"server_id": "a",
                "device": [{"device_id": "0", "rank_id": "1"}]}]})"));
      })
          .find("needs ascending ranks, as torchrun numbers them: the next rank_id must be 0, "
                "received 1"),
      std::string::npos);
  EXPECT_NE(message([&] {
              describe_rank_table(file("r.json", R"({"server_list": [{"server_id": "a; rm -r b",
                "device": [{"device_id": "0", "rank_id": "0"}]}]})"));
            }).find("a host or a number as server_id"),
            std::string::npos);
  EXPECT_NE(message([&] {
              describe_rank_table(file("r.json", R"({"server_count": 5, "server_list": [
                {"server_id": "a", "device": [{"device_id": "0", "rank_id": "0"}]}]})"));
            }).find("needs server_count = 1 (the length of server_list), received 5"),
            std::string::npos);
}

}  // namespace
}  // namespace dimred::imports
