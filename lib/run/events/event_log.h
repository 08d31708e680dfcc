#pragma once

#include <filesystem>
#include <fstream>
#include <optional>

#include "run/events/event_rows.h"

namespace dimred::run {

/// A file of a run folder that one process writes a row at a time, and where TensorBoard's events
/// of its rows go.
struct LineFile {
  std::filesystem::path path;          // empty: another rank's
  std::filesystem::path event_folder;  // empty: no events
  std::int64_t event_every = 1;        // of the rows whose step is a multiple of this
  bool run_ended = false;              // no other run can go on from its state

  LineFile(std::filesystem::path line_file) : path(std::move(line_file)) {}
};

/// TensorBoard's events of a CSV's rows: <folder>/events.out.tfevents.<seconds>.dimred, TFRecords
/// of the messages in event_messages.h, one a row, flushed as it happens. Each start begins a file
/// of its own, named after the ones before it, with its first row; a TensorBoard that is looking
/// forgets by its START what a resume does again.
class EventLog {
 public:
  EventLog() = default;  // writes nothing
  /// Makes the event files of `file` say what the CSV says now (a resume has cut it already): the
  /// events that agree with its rows stay, all behind the first that does not (repeated rows, a
  /// torn end, another event_every) are cut off, and rows without one get theirs. Throws
  /// std::runtime_error when it cannot.
  explicit EventLog(const LineFile& file);

  /// The CSV's next row. Throws std::runtime_error when it cannot be written.
  void append(std::string_view row);

 private:
  void write(const EventRow& row);
  void open();

  std::filesystem::path folder_;
  std::optional<EventRows> rows_;
  std::int64_t next_step_ = 0;  // above those of earlier files
  std::ofstream out_;
};

}  // namespace dimred::run
