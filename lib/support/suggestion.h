#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dimred {

/// The candidate of smallest edit distance to `name`, or nullopt when none is near.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates);

/// "; did you mean NAME?" where a candidate is near, or several that begin with `name`; else
/// `otherwise`. `prefix` stands before each.
std::string suggestion(std::string_view name,
                       const std::vector<std::string>& candidates,
                       std::string_view otherwise = {},
                       std::string_view prefix = {});

}  // namespace dimred
