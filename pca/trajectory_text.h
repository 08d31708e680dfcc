#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pca/trajectory.h"

// What dimred inspect --trajectory and dimred.trajectory say of a report.
namespace dimred::pca {

/// The verdict as a person reads it.
std::string_view text_of(Verdict verdict);

/// A sentence for each test that cannot reject, with the flips or snapshots that it needs.
std::vector<std::string> limits_of(const TrajectoryReport& report);

/// A JSON object with the fields of the report by their names, statistics as {value, walk, p_value,
/// p_blocks}; what is no number (PC1 of points that are all equal) is null.
std::string to_json(const TrajectoryReport& report);

}  // namespace dimred::pca
