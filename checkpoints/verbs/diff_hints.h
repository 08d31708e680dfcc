#pragma once

#include <string>
#include <vector>

namespace dimred::verbs {

/// Returns the line of a --rename file that maps most names of `only_a` to those of `only_b`, for a
/// person: a prefix that one side has ("module.", "model."), or torch.compile's "_orig_mod."
/// anywhere in A's names. Returns an empty text if no such line maps any.
std::string rename_hint(const std::vector<std::string>& only_a,
                        const std::vector<std::string>& only_b);

}  // namespace dimred::verbs
