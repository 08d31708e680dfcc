#include "training/curve.h"

#include <iomanip>
#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace dimred::training {
namespace {

constexpr auto header =
    "stage,method,weights,epoch,step,images,seconds,data_wait_seconds,forward_passes,backward_"
    "passes,"
    "learning_rate,train_loss,validation_loss,validation_accuracy,test_loss,test_accuracy,"
    "basis_bytes_read,wire_bytes\n";

std::string field(const std::optional<double>& value) {
  if (!value) return "";
  std::ostringstream out;
  out << std::setprecision(9) << *value;
  return out.str();
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
  return {.images = json.at("images"),
          .seconds = json.at("seconds"),
          .data_wait_seconds = json.at("data_wait_seconds"),
          .forward_passes = json.at("forward_passes"),
          .backward_passes = json.at("backward_passes"),
          .basis_bytes_read = json.at("basis_bytes_read"),
          .wire_bytes = json.at("wire_bytes")};
}

std::ofstream open_csv(const std::filesystem::path& path,
                       const std::string& header_line,
                       std::int64_t length) {
  if (path.empty()) return {};
  if (length > 0) {
    const auto size = std::filesystem::exists(path)
                          ? static_cast<std::int64_t>(std::filesystem::file_size(path))
                          : 0;
    require_environment(size >= length,
                        "training::curve",
                        path.string(),
                        " needs the ",
                        length,
                        " bytes that the resume state counts, received ",
                        size);
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(length));
  }
  std::ofstream out(path, length > 0 ? std::ios::app : std::ios::trunc);
  if (length == 0) out << header_line << std::flush;
  require_environment(out.good(), "training::curve", "cannot write ", path.string());
  return out;
}

CurveWriter::CurveWriter(const std::filesystem::path& path, std::int64_t length)
    : path_(path), out_(open_csv(path, header, length)) {}

void CurveWriter::append(const CurveRow& row) {
  if (path_.empty()) return;
  const auto& t = row.totals;
  out_ << row.stage << ',' << row.method << ',' << row.weights << ',' << field(row.epoch) << ','
       << row.step << ',' << t.images << ',' << std::fixed << std::setprecision(3) << t.seconds
       << ',' << t.data_wait_seconds << std::defaultfloat << ',' << t.forward_passes << ','
       << t.backward_passes << ',' << field(row.learning_rate) << ',' << field(row.train_loss)
       << ',' << field(row.validation_loss) << ',' << field(row.validation_accuracy) << ','
       << field(row.test_loss) << ',' << field(row.test_accuracy) << ',' << t.basis_bytes_read
       << ',' << t.wire_bytes << '\n'
       << std::flush;
  require_environment(
      out_.good(), "training::curve", "cannot write ", path_.string(), ": disk full?");
}

std::int64_t CurveWriter::length() {
  if (path_.empty()) return 0;
  return static_cast<std::int64_t>(std::filesystem::file_size(path_));
}

}  // namespace dimred::training
