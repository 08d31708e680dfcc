#pragma once

#include <string>

#include "checkpoints/verbs/diff.h"

namespace dimred::commands {

/// Returns a difference for people: both paths, remarks, a line for each tensor that differs, the
/// names that one side has alone, twenty of each, and the verdict in the last line.
std::string diff_text(const verbs::Difference& difference, const verbs::Tolerance& tolerance);

}  // namespace dimred::commands
