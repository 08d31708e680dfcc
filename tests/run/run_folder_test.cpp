#include "run/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/run_config.h"
#include "models/network.h"
#include "run/curve.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

using checkpoints::read_config;

class Files : public testing::Test {
 protected:
  void start(const std::string& config) const {
    const RunFolder folder(folder_, {.toml = config, .may_change = {"epochs"}}, *ranks_);
  }
  TemporaryFolder place_;
  std::filesystem::path folder_ = place_ / "run";
  std::unique_ptr<distributed::TensorCommunicator> ranks_ = distributed::single_rank();
};

/// libtorch.so brings a std::filesystem of its own that crashes here; see cmake/DimredTorch.cmake.
TEST_F(Files, FoldersAreRemovedBesideLibTorch) {
  std::filesystem::create_directories(folder_ / "a" / "b");
  EXPECT_EQ(std::filesystem::remove_all(folder_), 3U);
}

TEST_F(Files, CurveIsCutToTheLengthOfTheState) {
  std::filesystem::create_directories(folder_);
  const auto path = folder_ / "curve.csv";
  FilePrefix prefix;
  std::string first_two;
  {
    CurveWriter curve(path, {});
    curve.append({.stage = "stage1", .method = "sgd", .epoch = 1, .test_accuracy = 0.5});
    prefix = curve.prefix();
    first_two = text_of_file(path);
    curve.append({.stage = "stage1", .method = "sgd", .epoch = 2});
  }
  CurveWriter again(path, prefix);
  EXPECT_EQ(text_of_file(path), first_two);
  EXPECT_THROW(CurveWriter(path, {.length = prefix.length + 1000}), std::runtime_error);
  std::fstream(path).seekp(prefix.length - 3).put('#');
  EXPECT_THROW(CurveWriter(path, prefix), std::runtime_error);  // damaged where it counts
}

TEST_F(Files, RunFolderRefusesAnotherConfigurationByName) {
  start("seed = 1\nepochs = 2\nmodel = \"convnet\"\n");
  start("seed = 1\nepochs = 5\nmodel = \"convnet\"\n");  // longer: taken up again
  EXPECT_THAT([&] { start("seed = 1\nepochs = 5\nmodel = \"resnet20\"\n"); },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::HasSubstr("model = \"convnet\", received \"resnet20\"")));
}

TEST_F(Files, ARunWithOtherOptionsThanTheseIsRefused) {
  start("seed = 1\n");
  EXPECT_THROW(start("seed = 1\nnoise = 0.0\n"), std::invalid_argument);
  EXPECT_THROW(start(""), std::invalid_argument);
  EXPECT_EQ(read_config(folder_), "seed = 1\n");
}

TEST_F(Files, RunFolderRefusesADamagedConfiguration) {
  start("seed = 1\n");
  EXPECT_EQ(read_config(folder_), "seed = 1\n");
  const auto size = std::filesystem::file_size(folder_ / "config.toml");
  std::fstream(folder_ / "config.toml").seekp(static_cast<std::streamoff>(size) - 2).put('3');
  EXPECT_THROW(read_config(folder_), std::runtime_error);
  EXPECT_THROW(start("seed = 3\n"), std::runtime_error);
}

TEST_F(Files, AFinishedRunThatIsStartedAgainKeepsWhatItHasRead) {
  auto setup = engine::toy_setup(models::Precision::float32,
                                 models::make_network("convnet", {1, 28, 28}, 10));
  setup.data.report.training.bad_samples = 7;
  const auto finish = [&] {
    const RunFolder folder(folder_, {.toml = "seed = 1\n"}, *ranks_);
    if (!std::filesystem::exists(folder_ / "curve.csv"))
      CurveWriter(folder_ / "curve.csv", {}).append({.stage = "stage1", .method = "sgd"});
    folder.write_manifest(setup, "stage1", "finished", nlohmann::json::object());
    return checkpoints::read_text(folder_ / "manifest.json");
  };
  const auto first = finish();
  setup.data.report = {};
  EXPECT_EQ(finish(), first);
}

TEST_F(Files, AnAbandonedRunLeavesNoTraceUnlessItHasTrained) {
  for (const bool trained : {false, true}) {
    const RunFolder folder(folder_, {.toml = "seed = 1\n"}, *ranks_);
    CurveWriter curve(folder_ / "curve.csv", {});
    if (trained) curve.append({.stage = "stage1", .method = "sgd", .epoch = 1});
    folder.abandon();
    EXPECT_EQ(std::filesystem::exists(folder_ / "curve.csv"), trained);
  }
}

TEST_F(Files, RunFolderRefusesForeignFiles) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "thesis.txt") << "precious";
  EXPECT_THROW(start("seed = 1\n"), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.toml"));
}

}  // namespace
}  // namespace dimred::run
