#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "run/events/event_log.h"

namespace dimred::run {

/// The cost of a run so far; saved with the resume state.
struct Totals {
  std::int64_t images = 0;          // training samples passed through a gradient
  double seconds = 0;               // training: data waits, steps, trials and saves; not evaluation
  double data_wait_seconds = 0;     // of these, waiting for the next batch
  std::int64_t forward_passes = 0;  // batches, trials included; not evaluation
  std::int64_t backward_passes = 0;   // batches
  std::int64_t basis_bytes_read = 0;  // of P
  std::int64_t wire_bytes = 0;        // sent by this rank
};
nlohmann::json to_json(const Totals& totals);
Totals totals_from_json(const nlohmann::json& json);

/// One evaluation: a row of curve.csv. Unset: not measured, an empty field.
struct CurveRow {
  std::string stage;            // stage1 | stage2
  std::string method;           // sgd, or the preset's name
  std::string weights = "raw";  // raw | ema | mean | recalibrated
  double epoch = 0;
  std::int64_t step = 0;
  Totals totals;
  std::optional<double> learning_rate, train_loss, validation_loss, validation_accuracy, test_loss,
      test_accuracy;
};

/// A row as one console line.
std::string describe(const CurveRow& row, double train_accuracy);

/// The beginning of a file that a resume state counts: its length in bytes, and their digest.
struct FilePrefix {
  std::int64_t length = 0;
  std::string digest;  // empty: not known
};
nlohmann::json to_json(const FilePrefix& prefix);
FilePrefix prefix_from_json(const nlohmann::json& json);
/// All that the file holds now.
FilePrefix prefix_of(const std::filesystem::path& path);

/// curve.csv: one row per evaluation, flushed as it happens (a state that counts it syncs it
/// first).
class CurveWriter {
 public:
  /// Opens for appending behind `prefix`; what lies there is cut off (a resume's repeated rows). An
  /// empty prefix starts the file with its header; an empty path writes nothing (ranks other than
  /// 0). Throws std::runtime_error when the file does not begin with the prefix.
  CurveWriter(const LineFile& file, const FilePrefix& prefix);
  void append(const CurveRow& row);
  FilePrefix prefix();  // all so far, part of the resume state

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  EventLog events_;
};

/// A CSV that is appended to and cut on resume; CurveWriter and stage 2's steps.csv are such files.
/// `run_ended` as in LineFile.
std::ofstream open_csv(const std::filesystem::path& path,
                       const std::string& header,
                       const FilePrefix& prefix,
                       bool run_ended = false);

}  // namespace dimred::run
