#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "support/stopwatch.h"

// Everything that a person sees while a command works.
namespace dimred {

/// The figures in the middle of an epoch; fields that are not are left out of the bar.
struct ProgressState {
  std::string label;                              // "epoch 3/18"
  std::int64_t done = 0;                          // images of `total`
  std::int64_t total = 0;                         // 0: unknown, no bar
  std::optional<double> loss = {};                // running mean
  std::optional<double> accuracy = {};            // fraction in [0, 1]
  std::optional<double> images_per_second = {};   // all that the clock saw
  std::optional<double> compute_per_second = {};  // images/s without waiting for data
  std::optional<double> seconds_left = {};        // of the whole run
};

/// Columns of the terminal that `stream` writes to; 0: it is none.
std::size_t terminal_columns(std::FILE* stream);

/// Breaks `text` at blanks into lines of at most `width` columns. A continued line is indented by
/// `indent`; by default it goes on under the line's second column ("name  text"), or two columns
/// behind the line's begin. A longer word stays whole.
std::string wrapped(std::string_view text,
                    std::size_t width,
                    std::optional<std::size_t> indent = {});

/// Writes `text` as a terminal may get it: names and messages of other people's files hold no
/// commands to it, and lines are wrapped. All that a command prints goes through here.
void put_text(std::FILE* stream, std::string_view text);

/// The bar as one line of at most `width` columns; fields that do not fit go, the least important
/// first. Pure ASCII, so that a byte is a column.
std::string progress_line(const ProgressState& state, std::size_t width);

/// Permanent lines on standard output; while standard error is a terminal, a progress bar there
/// that is redrawn in place. Without a terminal, progress() prints a plain line now and then.
/// Quiet: neither. For one thread.
class Console {
 public:
  explicit Console(bool quiet, std::FILE* lines = stdout, std::FILE* bar = stderr);
  ~Console();  // takes the bar away, so that an error message starts on an empty line
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// A permanent line above the bar, which comes back with the next progress().
  void line(std::string_view text);
  /// A line on standard error, also when quiet.
  void warn(std::string_view text);
  /// Cheap to call every step: redraws at most 10 times a second (without a terminal, a line at
  /// most every 30 seconds).
  void progress(const ProgressState& state);
  /// Takes the bar away.
  void clear();

 private:
  std::FILE* lines_;
  std::FILE* bar_;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  std::optional<Stopwatch> since_drawn_;
  Stopwatch since_line_;
};

}  // namespace dimred
