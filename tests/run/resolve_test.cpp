#include <gtest/gtest.h>

#include <fstream>

#include "options/options_file.h"
#include "run/options.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::run {
namespace {

/// Resolved; the options come from `flags`, then from the lines of a run's `config`.
std::int64_t resolved_size(const std::vector<std::string>& flags, const std::string& config = "") {
  CommonOptions options;
  OptionTable table("dimred test", "");
  add_data_options(table, options.data);
  add_model_options(table, options.model);
  table.parse(flags);
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "config.toml") << config;
  table.adopt(read_config_file(folder.path() / "config.toml"));
  resolve(options, /*ranks=*/1, table);
  return options.data.image_size;
}

std::int64_t image_size(const std::string& model, const std::string& recipe) {
  return resolved_size({"--model=" + model, "--preprocessing_name=" + recipe});
}

TEST(Resolve, ImagesAreThoseOfTheNetworkWhereTheRecipeCutsThem) {
  EXPECT_EQ(image_size("mobilenet_v2", "inception"), 224);
  EXPECT_EQ(image_size("inception_v3", "imagenet"), 299);
  EXPECT_EQ(image_size("resnet20", "vgg"), 32);
  EXPECT_EQ(image_size("resnet20", "none"), 0);
  EXPECT_EQ(image_size("inception_v3", "cifarnet"), 0);
  // The recipe's own, as in folders of versions that did not ask the network.
  EXPECT_EQ(image_size("resnet50", "imagenet"), 0);
  EXPECT_EQ(image_size("inception_v3", "inception"), 0);
}

TEST(Resolve, AnImageSizeThatWasGivenStays) {
  const std::vector<std::string> pair{"--model=resnet20", "--preprocessing_name=vgg"};
  const auto with = [&](const char* flag) {
    return std::vector{pair[0], pair[1], std::string(flag)};
  };
  EXPECT_EQ(resolved_size(with("--image_size=96")), 96);
  EXPECT_EQ(resolved_size(with("--image_size=0")), 0);
}

TEST(Resolve, ARunsImageSizeOf0IsTheRecipesOwn) {
  const std::string run = "model = \"resnet20\"\npreprocessing_name = \"imagenet\"\n";
  EXPECT_EQ(resolved_size({}, run + "image_size = 0\n"), 0);
  EXPECT_EQ(resolved_size({}, run + "image_size = 32\n"), 32);
  EXPECT_EQ(resolved_size({}, run), 32);
  EXPECT_EQ(resolved_size({"--image_size=64"}, run + "image_size = 0\n"), 64);
}

}  // namespace
}  // namespace dimred::run
