#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pca/source.h"

namespace dimred::pca {

/// The columns of some parameters, in their order. Throws std::invalid_argument where the rows
/// carry no layout, or a name that it does not have.
std::unique_ptr<SnapshotSource> chosen_parameters(std::unique_ptr<SnapshotSource> source,
                                                  const std::vector<std::string>& names);

}  // namespace dimred::pca
