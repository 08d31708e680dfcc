#include "run/curve.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/state.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/open_file.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

constexpr auto header =
    "stage,method,weights,epoch,step,images,seconds,data_wait_seconds,forward_passes,backward_"
    "passes,"
    "learning_rate,train_loss,validation_loss,validation_accuracy,test_loss,test_accuracy,"
    "basis_bytes_read,wire_bytes\n";

std::string field(const std::optional<double>& value) {
  return value ? significant_text(*value, 9) : "";
}

/// Cuts the file down to its prefix, which must be as the state counted it.
void keep_prefix(const fs::path& path, const FilePrefix& prefix, bool run_ended) {
  const bool there = fs::exists(path);
  const std::int64_t size = there ? fs::file_size(path) : 0;
  const auto remedy =
      run_ended ? std::string("; restore the file")
                : formatted(
                      "; restore the file, or continue in another --output (for stage1 with "
                      "--resume_from {})",
                      path.parent_path());
  require_environment(size >= prefix.length,
                      "[curve.csv] {} is shorter than when the resume state was saved: needs at "
                      "least {} bytes, received {}{}",
                      path,
                      prefix.length,
                      size,
                      remedy);
  require_environment(
      prefix.digest.empty() || digest(InputFile(path).part(0, prefix.length)) == prefix.digest,
      "[curve.csv] {} is damaged: the first {} bytes do not match the digest in the resume state{}",
      path,
      prefix.length,
      remedy);
  if (size > prefix.length) truncate_file(path, prefix.length);
}

/// Whole epochs as they are; a budget's end lies between two.
std::string epoch_text(double epoch) {
  const auto text = significant_text(epoch, 3);
  return std::string(3 - std::min<std::size_t>(text.size(), 3), ' ') + text;
}

}  // namespace

nlohmann::json to_json(const Totals& t) {
  return {{"images", t.images},
          {"seconds", t.seconds},
          {"data_wait_seconds", t.data_wait_seconds},
          {"forward_passes", t.forward_passes},
          {"backward_passes", t.backward_passes},
          {"basis_bytes_read", t.basis_bytes_read},
          {"wire_bytes", t.wire_bytes}};
}

Totals totals_from_json(const nlohmann::json& json) {
  using checkpoints::count_of;
  return {.images = count_of(json, "images"),
          .seconds = json.at("seconds"),
          .data_wait_seconds = json.at("data_wait_seconds"),
          .forward_passes = count_of(json, "forward_passes"),
          .backward_passes = count_of(json, "backward_passes"),
          .basis_bytes_read = count_of(json, "basis_bytes_read"),
          .wire_bytes = count_of(json, "wire_bytes")};
}

nlohmann::json to_json(const FilePrefix& prefix) {
  return {{"length", prefix.length}, {"digest", prefix.digest}};
}

FilePrefix prefix_from_json(const nlohmann::json& json) {
  return {.length = checkpoints::count_of(json, "length"), .digest = json.at("digest")};
}

FilePrefix prefix_of(const fs::path& path) {
  const InputFile file(path);
  return {.length = file.size(), .digest = digest(file.part(0, file.size()))};
}

std::ofstream open_csv(const fs::path& path,
                       const std::string& header_line,
                       const FilePrefix& prefix,
                       bool run_ended) {
  if (path.empty()) return {};
  const bool fresh = prefix.length == 0;
  if (!fresh) keep_prefix(path, prefix, run_ended);
  auto out = open_output(path, fresh ? std::ios::trunc : std::ios::app);
  if (fresh) out << header_line << std::flush;
  require_environment(out.good(), "[curve.csv] cannot write {}", path);
  return out;
}

CurveWriter::CurveWriter(const LineFile& file, const FilePrefix& prefix)
    : path_(file.path), out_(open_csv(file.path, header, prefix, file.run_ended)), events_(file) {}

void CurveWriter::append(const CurveRow& row) {
  if (path_.empty()) return;
  const auto& t = row.totals;
  const auto line = formatted("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                              row.stage,
                              row.method,
                              row.weights,
                              field(row.epoch),
                              row.step,
                              t.images,
                              decimal_text(t.seconds, 3),
                              decimal_text(t.data_wait_seconds, 3),
                              t.forward_passes,
                              t.backward_passes,
                              field(row.learning_rate),
                              field(row.train_loss),
                              field(row.validation_loss),
                              field(row.validation_accuracy),
                              field(row.test_loss),
                              field(row.test_accuracy),
                              t.basis_bytes_read,
                              t.wire_bytes);
  out_ << line << std::flush;
  require_environment(out_.good(), "[curve.csv] cannot write {}; is the disk full?", path_);
  events_.append(line);
}

FilePrefix CurveWriter::prefix() { return path_.empty() ? FilePrefix{} : prefix_of(path_); }

std::string describe(const CurveRow& row, double train_accuracy) {
  const auto percent = [](double part) { return decimal_text(100 * part, 2) + " %"; };
  auto text = "epoch " + epoch_text(row.epoch);
  if (row.weights != "raw") text += formatted(" ({})", row.weights);
  if (row.train_loss)
    text += formatted("  train {} / {}", decimal_text(*row.train_loss, 4), percent(train_accuracy));
  if (row.validation_accuracy) text += "  validation " + percent(*row.validation_accuracy);
  if (row.test_accuracy)
    text +=
        formatted("  test {} / {}", decimal_text(*row.test_loss, 4), percent(*row.test_accuracy));
  if (row.learning_rate) text += "  rate " + significant_text(*row.learning_rate, 4);
  const auto& totals = row.totals;
  if (totals.seconds > 0)
    text += formatted("  {} s  {} images/s ({} compute)",
                      decimal_text(totals.seconds, 1),
                      decimal_text(totals.images / totals.seconds, 0),
                      decimal_text(totals.images / (totals.seconds - totals.data_wait_seconds), 0));
  return text;
}

}  // namespace dimred::run
