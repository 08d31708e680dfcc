#include "models/name_patterns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/network.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

NamePatterns patterns(const std::string& list, const std::string& logits = "fc,AuxLogits.fc") {
  return {"some_patterns", list, logits};
}

TEST(NamePatterns, MatchAnywhereUnlessAnchored) {
  EXPECT_TRUE(patterns("conv1").matches("layer1.0.conv1.weight"));
  EXPECT_FALSE(patterns("^conv1").matches("layer1.0.conv1.weight"));
  EXPECT_TRUE(patterns("fc, ^layer[12]\\.").matches("layer2.0.conv1.weight"));
  EXPECT_FALSE(patterns("fc, ^layer[12]\\.").matches("layer3.0.conv1.weight"));
  EXPECT_FALSE(patterns("").matches("conv1.weight"));
  EXPECT_TRUE(patterns("").empty());
}

TEST(NamePatterns, LogitsAreTheLastLayersAndNothingElse) {
  const auto logits = patterns("logits");
  EXPECT_TRUE(logits.matches("fc.weight"));
  EXPECT_TRUE(logits.matches("AuxLogits.fc.bias"));
  EXPECT_FALSE(logits.matches("fc2.weight"));
  EXPECT_FALSE(logits.matches("AuxLogitsxfc.bias"));
  EXPECT_FALSE(logits.matches("layer.fc.weight"));
  EXPECT_THROW(patterns("logits", ""), std::invalid_argument);  // of a TorchScript module
}

/// The registered names are those of real layers, and of little of the network.
TEST(NamePatterns, LogitsFitTheNetworks) {
  for (const std::string name :
       {"convnet", "resnet20", "preresnet164", "mobilenet_v2", "inception_v3"}) {
    const auto info = network_info(name);
    const auto logits = patterns("logits", info.logits);
    const auto network = make_network(name, {3, info.image_size, info.image_size}, 7);
    std::int64_t heads = 0, tensors = 0;
    for (const auto& item : network->named_parameters()) {
      ++tensors;
      if (!logits.matches(item.key())) continue;
      ++heads;
      EXPECT_EQ(item.value().size(0), 7) << name << ": " << item.key();
    }
    const auto layers = std::ranges::count(info.logits, ',') + 1;
    EXPECT_EQ(heads, 2 * layers) << name;
    EXPECT_GT(tensors, heads) << name;
  }
}

TEST(NamePatterns, RefuseWhatIsBrokenOrMatchesNothing) {
  const std::vector<std::string> names{"conv1.weight", "layer1.0.bn1.bias", "fc.weight"};
  const auto error_of = [&](const std::string& list) {
    return thrown<std::invalid_argument>([&] { patterns(list).require_matches(names); });
  };
  EXPECT_EQ(error_of("conv1,logits,global_step"), "no exception");
  EXPECT_NE(error_of("cnv1.weight").find("[some_patterns]"), std::string::npos);
  EXPECT_NE(error_of("cnv1.weight").find("did you mean conv1.weight?"), std::string::npos);
  EXPECT_NE(error_of("layr1.0").find("did you mean layer1.0?"), std::string::npos);
  EXPECT_NE(error_of("logts").find("did you mean logits?"), std::string::npos);
  EXPECT_NE(error_of("fc,,conv1").find("before and after each comma"), std::string::npos);
  EXPECT_NE(error_of("fc[").find("regular expressions, received fc["), std::string::npos);
}

}  // namespace
}  // namespace dimred::models
