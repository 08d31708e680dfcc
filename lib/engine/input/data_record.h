#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace dimred::engine {

/// The record that states keep of a data set as it was opened: before samples are left out, labels
/// changed or a part held out, which the options say.
struct DataPart {
  std::string description;
  std::int64_t samples = 0;
  std::string digest;  // Dataset::digest
  /// Size and digest of the pixels that are kept decoded for this run: files of the same names may
  /// have changed. Both are empty where each use of an image decodes it.
  std::string pixels_of, pixels;
};

struct DataRecord {
  DataPart train;
  std::optional<DataPart> test;          // unset: there is no test set
  std::vector<std::string> class_names;  // empty: nothing is known
};

DataRecord record_of(const data::Dataset& train, const data::Dataset* test);

/// Notes the pixels of a data set as it is used.
void note_pixels(const data::Dataset& used, DataPart& part);

/// Keeps the digests of pixels that `saved` knows and `now` does not, so that a start without them
/// does not lose them.
void keep_pixels(const nlohmann::json& saved, DataRecord& now);

/// For a state's scalars; texts as UTF-8.
nlohmann::json to_json(const DataRecord& record);

/// Throws std::invalid_argument naming the first class that differs unless `saved` (a state's
/// record, null where there is none) has the names of `now`, in their order.
void require_same_classes(const nlohmann::json& saved, const DataRecord& now, const char* scope);

/// How the training set has other samples; empty when it has not, or nothing is known.
std::string other_training_samples(const nlohmann::json& saved, const DataRecord& now);

/// Which of the two sets has other samples, and how: "the training set: 40 images before, ..., 39
/// now, ..."; empty when neither has, or nothing is known.
std::string other_samples(const nlohmann::json& saved, const DataRecord& now);

}  // namespace dimred::engine
