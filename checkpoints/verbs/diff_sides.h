#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "checkpoints/checkpoint.h"

namespace dimred::verbs {

/// Opens both sides of a comparison. `take`: raw or averaged, of each side that holds both kinds;
/// empty: none was asked for. Throws as open_checkpoint(), and std::invalid_argument where `take`
/// is given and neither side holds both.
std::pair<checkpoints::Checkpoint, checkpoints::Checkpoint> open_sides(
    const std::filesystem::path& a, const std::filesystem::path& b, const std::string& take);

}  // namespace dimred::verbs
