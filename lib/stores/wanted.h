#pragma once

#include <filesystem>

#include "stores/listing.h"

namespace dimred::stores {

/// A file that is found, and the local one that it shall be.
struct Wanted {
  Found found;
  std::filesystem::path to;
};

}  // namespace dimred::stores
