#include <functional>
#include <utility>

#include "models/network.h"
#include "models/script.h"
#include "support/errors.h"
#include "support/suggestion.h"
#include "support/text.h"

namespace dimred::models {
namespace {

using Builder = std::function<std::shared_ptr<Network>(const InputShape&, std::int64_t)>;

/// A family's builder with its first arguments fixed.
template <class Make, class... Fixed>
Builder with(Make make, Fixed... fixed) {
  return [make, ... fixed = std::move(fixed)](const InputShape& input, std::int64_t classes) {
    return make(fixed..., input, classes);
  };
}

struct RegisteredNetwork {
  NetworkInfo info;
  std::int64_t smallest;  // height and width of the images that it takes
  Builder build;
};

using Blocks = std::vector<std::int64_t>;  // of each stage

/// Adding a network is one file and one line here.
const std::vector<RegisteredNetwork> registry = {
    {{"convnet", 28, "fc2"}, 18, make_convnet},
    {{"lenet", 28, "fc4"}, 4, make_lenet},
    {{"resnet20", 32, "fc"}, 4, with(make_resnet_cifar, 3)},
    {{"resnet32", 32, "fc"}, 4, with(make_resnet_cifar, 5)},
    {{"resnet56", 32, "fc"}, 4, with(make_resnet_cifar, 9)},
    {{"resnet110", 32, "fc"}, 4, with(make_resnet_cifar, 18)},
    {{"preresnet164", 32, "fc"}, 4, with(make_preresnet, 18)},
    {{"wrn28_10", 32, "linear"}, 4, with(make_wide_resnet, 4, 10)},
    {{"alexnet", 224, "classifier.6"}, 63, make_alexnet},
    {{"vgg11", 224, "classifier.6"}, 32, with(make_vgg, Blocks{1, 1, 2, 2, 2}, false)},
    {{"vgg11_bn", 224, "classifier.6"}, 32, with(make_vgg, Blocks{1, 1, 2, 2, 2}, true)},
    {{"vgg16", 224, "classifier.6"}, 32, with(make_vgg, Blocks{2, 2, 3, 3, 3}, false)},
    {{"vgg16_bn", 224, "classifier.6"}, 32, with(make_vgg, Blocks{2, 2, 3, 3, 3}, true)},
    {{"vgg16_flatten", 224, "fc"}, 32, make_vgg16_flatten},
    {{"vgg19", 224, "classifier.6"}, 32, with(make_vgg, Blocks{2, 2, 4, 4, 4}, false)},
    {{"vgg19_bn", 224, "classifier.6"}, 32, with(make_vgg, Blocks{2, 2, 4, 4, 4}, true)},
    {{"resnet18", 224, "fc"}, 32, with(make_resnet, Blocks{2, 2, 2, 2}, false)},
    {{"resnet34", 224, "fc"}, 32, with(make_resnet, Blocks{3, 4, 6, 3}, false)},
    {{"resnet50", 224, "fc"}, 32, with(make_resnet, Blocks{3, 4, 6, 3}, true)},
    {{"resnet101", 224, "fc"}, 32, with(make_resnet, Blocks{3, 4, 23, 3}, true)},
    {{"resnet152", 224, "fc"}, 32, with(make_resnet, Blocks{3, 8, 36, 3}, true)},
    {{"resnet_v2_50", 224, "fc"}, 32, make_resnet_v2_50},
    {{"mobilenet_v2", 224, "classifier.1"}, 32, make_mobilenet_v2},
    // Its auxiliary classifier pools 17x17 maps.
    {{"inception_v3", 299, "fc,AuxLogits.fc"}, 299, make_inception_v3},
    {{"inception_resnet_v2", 299, "classif,AuxLogits.fc"}, 75, make_inception_resnet_v2},
};

const RegisteredNetwork& find(const std::string& name) {
  for (const auto& entry : registry) {
    if (entry.info.name == name) return entry;
  }
  refuse("[models] needs one of the networks {}, received {}{}",
         name_list(network_names()),
         name,
         suggestion(name, network_names(), "; a TorchScript module is a file *.pt"));
}

}  // namespace

NetworkInfo network_info(const std::string& name) {
  return is_script(name) ? NetworkInfo{.name = name} : find(name).info;
}

std::vector<std::string> network_names() {
  return texts_of(registry, [](const RegisteredNetwork& entry) { return entry.info.name; });
}

std::shared_ptr<Network> make_network(const std::string& name,
                                      const InputShape& input,
                                      std::int64_t classes) {
  const bool script = is_script(name);
  require(classes >= 2 || (script && classes == 0),
          "[models] needs at least 2 classes, received {}",
          classes);
  if (script) return load_script(name, input, classes);
  const auto& [info, smallest, build] = find(name);
  require(input.height >= smallest && input.width >= smallest,
          "[models] {} needs images of at least {} x {}, received {} x {}",
          name,
          smallest,
          smallest,
          input.height,
          input.width);
  return build(input, classes);
}

}  // namespace dimred::models
