#include "pca/parameter_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "layout/layout.h"
#include "pca/rows.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

/// Columns [begin, begin + size), which the whole has from column `from` on.
struct ChosenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t from = 0;
};

class ChosenSource final : public SnapshotSource {
 public:
  ChosenSource(std::unique_ptr<SnapshotSource> whole,
               SourceInfo info,
               std::vector<ChosenRange> parts)
      : SnapshotSource(std::move(info)), whole_(std::move(whole)), parts_(std::move(parts)) {}

  void require_unchanged(std::int64_t row) const override { whole_->require_unchanged(row); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    read_parts(begin, out, [&](std::int64_t from, std::span<float> part) {
      whole_->read(row, from, part);
    });
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    read_parts(begin, out, [&](std::int64_t from, std::span<double> part) {
      whole_->read_float64(row, from, part);
    });
  }

 private:
  /// read_part(column of the whole, where its values go), for all that `out` has.
  template <class Value, class ReadPart>
  void read_parts(std::int64_t begin, std::span<Value> out, ReadPart read_part) const {
    auto part = std::ranges::upper_bound(parts_, begin, {}, &ChosenRange::begin) - 1;
    for (; !out.empty(); ++part) {
      const auto skipped = begin - part->begin;
      const auto count = std::min(part->size - skipped, std::ssize(out));
      read_part(part->from + skipped, out.first(count));
      out = out.subspan(count);
      begin += count;
    }
  }

  std::unique_ptr<SnapshotSource> whole_;
  std::vector<ChosenRange> parts_;
};

}  // namespace

std::unique_ptr<SnapshotSource> chosen_parameters(std::unique_ptr<SnapshotSource> source,
                                                  const std::vector<std::string>& names) {
  auto info = source->info();
  require(!info.layout_json.empty(),
          "[pca] needs snapshots with parameter names (.h5 or safetensors), received only "
          "snapshots without names");
  std::set<std::string> wanted(names.begin(), names.end());
  std::vector<layout::Parameter> parameters;
  std::vector<ChosenRange> parts;
  info.columns = 0;
  for (const auto& entry : layout::layout_from_json(info.layout_json).entries) {
    if (wanted.erase(entry.name) == 0) continue;
    parameters.push_back({entry.name, entry.shape});
    if (entry.size > 0) parts.push_back({info.columns, entry.size, entry.file_offset});
    info.columns += entry.size;
  }
  require(wanted.empty(),
          "[pca] needs names of parameters in the snapshots, received the unknown name {}",
          wanted.empty() ? "" : *wanted.begin());
  require(
      info.columns > 0,
      "[pca] needs at least one parameter with elements, received {} parameters, all of them empty",
      names.size());
  set_layout(info, parameters);
  return std::make_unique<ChosenSource>(std::move(source), std::move(info), std::move(parts));
}

}  // namespace dimred::pca
