#include "pca/memory_source.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "checkpoints/float_formats.h"
#include "checkpoints/shape.h"
#include "checkpoints/weight_names.h"
#include "pca/rows.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::pca {
namespace {

/// Elements of one type, `stride` elements apart.
template <class Stored, class Value, class Convert>
void convert(const std::byte* from, std::int64_t stride, std::span<Value> out, Convert converted) {
  for (Value& value : out) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));  // nothing says that it is aligned
    value = static_cast<Value>(converted(stored));
    from += stride * static_cast<std::int64_t>(sizeof(Stored));
  }
}

std::int64_t item_bytes(const std::string& dtype) {
  if (dtype == "F32") return 4;
  if (dtype == "F64") return 8;
  require(dtype == "F16" || dtype == "BF16",
          "[pca] needs values of float32, float64, float16 or bfloat16, received {}",
          dtype);
  return 2;
}

template <class Value>
void read_tensor(const MemoryTensor& tensor, std::int64_t first, std::span<Value> out) {
  const std::byte* from = tensor.data + first * tensor.stride * item_bytes(tensor.dtype);
  if (tensor.stride == 1 && tensor.dtype == (std::is_same_v<Value, float> ? "F32" : "F64")) {
    std::memcpy(out.data(), from, out.size_bytes());
  } else if (tensor.dtype == "F32") {
    convert<float>(from, tensor.stride, out, std::identity());
  } else if (tensor.dtype == "F64") {
    convert<double>(from, tensor.stride, out, std::identity());
  } else {
    convert<std::uint16_t>(
        from,
        tensor.stride,
        out,
        tensor.dtype == "F16" ? checkpoints::from_half : checkpoints::from_bfloat);
  }
}

class MemorySource final : public SnapshotSource {
 public:
  MemorySource(SourceInfo info, std::vector<MemoryRow> rows, std::vector<std::int64_t> ends)
      : SnapshotSource(std::move(info)), rows_(std::move(rows)), ends_(std::move(ends)) {}

  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    read_row(row, begin, out);
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    read_row(row, begin, out);
  }

 private:
  template <class Value>
  void read_row(std::int64_t row, std::int64_t begin, std::span<Value> out) const {
    auto tensor = std::ranges::upper_bound(ends_, begin) - ends_.begin();
    while (!out.empty()) {
      const std::int64_t start = tensor == 0 ? 0 : ends_[tensor - 1];
      const auto count = std::min(static_cast<std::size_t>(ends_[tensor] - begin), out.size());
      read_tensor(rows_[row].tensors[tensor], begin - start, out.first(count));
      out = out.subspan(count);
      begin = ends_[tensor++];
    }
  }

  std::vector<MemoryRow> rows_;
  std::vector<std::int64_t> ends_;  // of each tensor of a row, in columns
};

/// Throws for complex values, which no row of real numbers can hold.
void require_real(const MemoryRow& row, const MemoryTensor& tensor) {
  if (!tensor.dtype.starts_with("C")) return;
  require(!tensor.name.empty(),
          "[pca] '{}' holds complex values ({}); give the real and the imaginary part as two "
          "vectors",
          row.name,
          tensor.dtype);
  refuse(
      "[pca] '{}': \"{}\" holds complex weights ({}); save the real and the imaginary part as "
      "two tensors",
      row.name,
      tensor.name,
      tensor.dtype);
}

void keep_weights(MemoryRow& row, std::vector<std::string>& left_out) {
  if (row.tensors.empty() || row.tensors.front().name.empty()) return;  // a plain vector
  std::vector<checkpoints::TypedName> typed;
  for (const auto& tensor : row.tensors)
    typed.push_back({tensor.name, tensor.dtype, tensor.shape.empty()});
  const auto roles = checkpoints::roles_of(typed);
  std::vector<MemoryTensor> weights;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (checkpoints::is_left_out(roles[i])) left_out.push_back(row.tensors[i].name);
    if (checkpoints::is_weight(roles[i])) weights.push_back(row.tensors[i]);
  }
  const auto names = checkpoints::network_names(texts_of(weights, &MemoryTensor::name));
  for (std::size_t i = 0; i < names.size(); ++i) weights[i].name = names[i];
  row.tensors = std::move(weights);
}

/// The row as those of files are described.
SnapshotRow described(const MemoryRow& from) {
  SourceInfo info{.names = {from.name}};
  std::vector<layout::Parameter> parameters;
  for (const MemoryTensor& tensor : from.tensors) {
    require_real(from, tensor);
    info.columns += checkpoints::product(tensor.shape).value();
    info.float64 |= item_bytes(tensor.dtype) == 8;
    layout::Parameter& parameter = parameters.emplace_back();
    parameter.name = tensor.name;
    parameter.shape = tensor.shape;
  }
  require(info.columns > 0, "[pca] '{}' holds no float values", from.name);
  if (!parameters.front().name.empty()) set_layout(info, parameters);
  return {std::move(info), {}};
}

}  // namespace

std::unique_ptr<SnapshotSource> memory_source(std::vector<MemoryRow> rows) {
  require(!rows.empty(), "[pca] needs at least one snapshot, received none");
  std::vector<SnapshotRow> descriptions;
  for (MemoryRow& row : rows) {
    std::vector<std::string> left_out;
    keep_weights(row, left_out);
    descriptions.push_back(described(row));
    descriptions.back().info.left_out = std::move(left_out);
  }
  SourceInfo info = info_of(descriptions);
  std::vector<std::int64_t> ends;
  for (const MemoryTensor& tensor : rows.front().tensors) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + checkpoints::product(tensor.shape).value());
  }
  return std::make_unique<MemorySource>(std::move(info), std::move(rows), std::move(ends));
}

}  // namespace dimred::pca
