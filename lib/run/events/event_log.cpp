#include "run/events/event_log.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "data/tfrecord.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/text.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_start = "events.out.tfevents.";
constexpr std::string_view name_end = ".dimred";
constexpr int heads = 2;  // records in front of a file's first row: the version and the start

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Ours, oldest first.
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto name = item.path().filename().string();
    if (name.starts_with(name_start) && name.ends_with(name_end)) files.push_back(item.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Readers take files by their names: a later start has a later one, whatever the clock says.
fs::path new_file(const fs::path& folder) {
  std::int64_t seconds = seconds_now();
  if (const auto files = event_files(folder); !files.empty()) {
    const auto name = files.back().filename().string();
    std::int64_t latest = 0;
    std::from_chars(name.data() + name_start.size(), name.data() + name.size(), latest);
    seconds = std::max(seconds, latest + 1);
  }
  return folder / formatted("{}{}{}", name_start, padded(seconds, 10), name_end);
}

/// The rows' records of earlier starts, one after another.
class EarlierEvents {
 public:
  explicit EarlierEvents(const fs::path& folder) : files_(event_files(folder)) {}

  /// True, and the record is left behind, when the next one is this row's.
  bool take(const EventRow& row) {
    while (file_ < files_.size()) {
      if (bytes_.empty() && !open()) return false;
      std::optional<data::TfRecord> record;
      try {
        record = data::first_tfrecord(std::span(bytes_).subspan(position_));
      } catch (const std::runtime_error&) {  // what a power failure left
        return false;
      }
      if (!record && position_ < bytes_.size()) return false;
      if (!record) {
        ++file_;
        bytes_.clear();
        continue;
      }
      const std::string_view payload(reinterpret_cast<const char*>(record->payload.data()),
                                     record->payload.size());
      if (records_ >= heads &&
          !equal_apart_from_time(payload, scalars_event(0, row.step, row.scalars)))
        return false;
      position_ += record->size;
      if (++records_ > heads) return true;
    }
    return false;
  }

  /// Removes all that was not taken.
  void cut() {
    if (records_ > heads && file_ < files_.size()) {
      if (position_ < bytes_.size()) truncate_file(files_[file_], position_);
      ++file_;
    }
    for (; file_ < files_.size(); ++file_) fs::remove(files_[file_]);
  }

 private:
  bool open() {
    const InputFile file(files_[file_]);
    bytes_.resize(file.size());
    file.read(0, bytes_);
    position_ = 0;
    records_ = 0;
    return !bytes_.empty();
  }

  std::vector<fs::path> files_;
  std::size_t file_ = 0;
  std::vector<std::byte> bytes_;  // of files_[file_]
  std::size_t position_ = 0;
  int records_ = 0;  // of it, taken
};

}  // namespace

EventLog::EventLog(const LineFile& file) {
  if (file.path.empty() || file.event_folder.empty()) return;
  folder_ = file.event_folder;
  create_folders_inside(file.path.parent_path(), folder_);
  std::ifstream csv(file.path);
  std::string line;
  std::getline(csv, line);
  require_environment(csv.good(), "[tensorboard] cannot read {}", file.path);
  rows_.emplace(line, file.event_every);
  EarlierEvents earlier(folder_);
  bool agree = true;
  while (std::getline(csv, line)) {
    const auto row = rows_->next(line);
    if (!row) continue;
    if (agree && earlier.take(*row)) {
      next_step_ = row->step + 1;
      continue;
    }
    if (agree) earlier.cut();
    agree = false;
    write(*row);
  }
  if (agree) earlier.cut();
}

void EventLog::append(std::string_view row) {
  if (!rows_) return;
  if (const auto event = rows_->next(row)) write(*event);
}

void EventLog::open() {
  out_ = open_output(new_file(folder_), std::ios::binary | std::ios::trunc);
  out_ << data::to_tfrecord(version_event(seconds_now()))
       << data::to_tfrecord(start_event(seconds_now(), next_step_));
}

void EventLog::write(const EventRow& row) {
  if (!out_.is_open()) open();
  out_ << data::to_tfrecord(scalars_event(seconds_now(), row.step, row.scalars)) << std::flush;
  require_environment(out_.good(), "[tensorboard] cannot write to {}; is the disk full?", folder_);
}

}  // namespace dimred::run
