#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/events/event_messages.h"

namespace dimred::run {

/// The TensorBoard scalars of a row of curve.csv or steps.csv.
struct EventRow {
  std::int64_t step = 0;
  std::vector<Scalar> scalars;
};

/// Turns rows into scalars, given the header: every number of a row but its step, with the tag
/// <weights>/<column> ("raw/test_accuracy", "recalibrated/test_loss") where the file has a column
/// `weights`, else step/<column>; texts and empty fields have none. A file with images and seconds
/// also has images_per_second, since the row before. A pure function of the rows so far.
class EventRows {
 public:
  /// Takes the rows whose step is a multiple of `every` >= 1.
  EventRows(std::string_view header, std::int64_t every);
  /// nullopt for a row that is left out. Throws std::runtime_error for one of another file.
  std::optional<EventRow> next(std::string_view row);

 private:
  std::vector<std::string> columns_;
  std::int64_t every_;
  double images_ = 0, seconds_ = 0;  // of the row before
};

}  // namespace dimred::run
