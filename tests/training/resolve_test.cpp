#include <gtest/gtest.h>

#include "training/setup.h"

namespace dimred::training {
namespace {

std::int64_t image_size(const std::string& model, data::Recipe recipe, std::int64_t given = 0) {
  CommonOptions options;
  options.model.model = model;
  options.data.preprocessing_name = recipe;
  options.data.image_size = given;
  resolve(options, /*ranks=*/1);
  return options.data.image_size;
}

TEST(Resolve, ImagesAreThoseOfTheNetworkWhereTheRecipeCutsThem) {
  using enum data::Recipe;
  EXPECT_EQ(image_size("mobilenet_v2", inception), 224);
  EXPECT_EQ(image_size("inception_v3", imagenet), 299);
  EXPECT_EQ(image_size("resnet20", vgg), 32);
  EXPECT_EQ(image_size("resnet20", vgg, 96), 96);
  EXPECT_EQ(image_size("resnet20", none), 0);
  EXPECT_EQ(image_size("inception_v3", cifarnet), 0);
  // The recipe's own, as in folders of versions that did not ask the network.
  EXPECT_EQ(image_size("resnet50", imagenet), 0);
  EXPECT_EQ(image_size("inception_v3", inception), 0);
}

}  // namespace
}  // namespace dimred::training
