#include <functional>
#include <utility>

#include "models/network.h"
#include "models/script.h"
#include "support/errors.h"
#include "support/options.h"

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

struct Entry {
  NetworkInfo info;
  Builder build;
};

/// Adding a network is one file and one line here.
const std::vector<Entry>& registry() {
  static const std::vector<Entry> networks = {
      {{"convnet", 28, "fc2"}, make_convnet},
      {{"lenet", 28, "fc4"}, make_lenet},
      {{"resnet20", 32, "fc"}, with(make_resnet_cifar, 20)},
      {{"resnet32", 32, "fc"}, with(make_resnet_cifar, 32)},
      {{"resnet56", 32, "fc"}, with(make_resnet_cifar, 56)},
      {{"resnet110", 32, "fc"}, with(make_resnet_cifar, 110)},
      {{"preresnet164", 32, "fc"}, with(make_preresnet, 164)},
      {{"wrn28_10", 32, "linear"}, with(make_wide_resnet, 28, 10)},
      {{"alexnet", 224, "classifier.6"}, make_alexnet},
      {{"vgg11", 224, "classifier.6"}, with(make_vgg, 11, false)},
      {{"vgg11_bn", 224, "classifier.6"}, with(make_vgg, 11, true)},
      {{"vgg16", 224, "classifier.6"}, with(make_vgg, 16, false)},
      {{"vgg16_bn", 224, "classifier.6"}, with(make_vgg, 16, true)},
      {{"vgg19", 224, "classifier.6"}, with(make_vgg, 19, false)},
      {{"vgg19_bn", 224, "classifier.6"}, with(make_vgg, 19, true)},
      {{"resnet18", 224, "fc"}, with(make_resnet, 18)},
      {{"resnet34", 224, "fc"}, with(make_resnet, 34)},
      {{"resnet50", 224, "fc"}, with(make_resnet, 50)},
      {{"resnet101", 224, "fc"}, with(make_resnet, 101)},
      {{"resnet152", 224, "fc"}, with(make_resnet, 152)},
      {{"resnet_v2_50", 224, "fc"}, make_resnet_v2_50},
      {{"mobilenet_v2", 224, "classifier.1"}, make_mobilenet_v2},
      {{"inception_v3", 299, "fc,AuxLogits.fc"}, make_inception_v3},
      {{"inception_resnet_v2", 299, "classif"}, make_inception_resnet_v2},
  };
  return networks;
}

const Entry& find(const std::string& name) {
  for (const auto& entry : registry()) {
    if (entry.info.name == name) return entry;
  }
  std::string known;
  for (const auto& candidate : network_names()) known += (known.empty() ? "" : ", ") + candidate;
  const auto near = nearest(name, network_names());
  throw std::invalid_argument(
      formatted("[models] needs one of {}, received {}{}",
                known,
                name,
                near ? "; did you mean " + *near + "?" : "; a TorchScript module is a file *.pt"));
}

}  // namespace

NetworkInfo network_info(const std::string& name) {
  return is_script(name) ? NetworkInfo{.name = name} : find(name).info;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& entry : registry()) names.push_back(entry.info.name);
  return names;
}

void require_size(const InputShape& input, std::int64_t size, std::string_view scope) {
  require(input.height >= size && input.width >= size,
          "[{}] needs images of at least {} x {}, received {} x {}",
          scope,
          size,
          size,
          input.height,
          input.width);
}

std::shared_ptr<Network> make_network(const std::string& name,
                                      const InputShape& input,
                                      std::int64_t classes) {
  const auto build = is_script(name) ? with(load_script, name) : find(name).build;
  const bool any = classes == 0 && is_script(name);
  require(any || classes >= 2, "[models] needs at least 2 classes, received {}", classes);
  return build(input, classes);
}

}  // namespace dimred::models
