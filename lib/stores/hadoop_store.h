#pragma once

#include "stores/store.h"

namespace dimred::stores {

/// A line of `hadoop fs -ls -R` as a file below `folder`; nullopt for a folder's. Throws
/// StoreError.
std::optional<Item> parse_hadoop_line(const std::string& line, const Url& folder);

}  // namespace dimred::stores
