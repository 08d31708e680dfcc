#include <functional>
#include <utility>

#include "models/network.h"
#include "support/errors.h"
#include "support/options.h"

namespace dimred::models {
namespace {

using Builder = std::function<std::shared_ptr<Network>(const InputShape&, std::int64_t)>;

Builder resnet_cifar(std::int64_t depth) {
  return [depth](const InputShape& input, std::int64_t classes) {
    return make_resnet_cifar(depth, input, classes);
  };
}

/// Adding a network is one file and one line here.
const std::vector<std::pair<std::string, Builder>>& registry() {
  static const std::vector<std::pair<std::string, Builder>> networks = {
      {"convnet", make_convnet},
      {"resnet20", resnet_cifar(20)},
      {"resnet32", resnet_cifar(32)},
      {"resnet56", resnet_cifar(56)},
      {"resnet110", resnet_cifar(110)},
  };
  return networks;
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& [name, builder] : registry()) names.push_back(name);
  return names;
}

std::shared_ptr<Network> make_network(const std::string& name,
                                      const InputShape& input,
                                      std::int64_t classes) {
  require(classes >= 2, "models", "needs at least 2 classes, received ", classes);
  for (const auto& [known, builder] : registry()) {
    if (known == name) return builder(input, classes);
  }
  std::string known;
  for (const auto& candidate : network_names()) known += (known.empty() ? "" : ", ") + candidate;
  const auto near = nearest(name, network_names());
  throw std::invalid_argument(concat("[models] needs one of ",
                                     known,
                                     ", received ",
                                     name,
                                     near ? "; did you mean " + *near + "?" : ""));
}

}  // namespace dimred::models
