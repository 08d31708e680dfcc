#include "checkpoints/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <ranges>

#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"

namespace dimred::checkpoints {
namespace {

using Step = std::int64_t StoredBox::Dimension::*;

/// Returns the place, by these steps, of the box's element `at` in its own order.
std::int64_t place_of(const StoredBox& box, Step step, std::int64_t at) {
  std::int64_t place = 0;
  for (const auto& dimension : box.dimensions | std::views::reverse) {
    place += at % dimension.count * dimension.*step;
    at /= dimension.count;
  }
  return place;
}

/// Whether elements that follow each other in the box do so by these steps, too.
bool in_order(const StoredBox& box, Step step) {
  std::int64_t own = 1;
  for (const auto& dimension : box.dimensions | std::views::reverse) {
    if (dimension.count != 1 && dimension.*step != own) return false;
    own *= dimension.count;
  }
  return true;
}

/// The number of the box's elements that come before element `place` of the tensor: those are its
/// first ones.
std::int64_t elements_before(const StoredBox& box, std::int64_t place) {
  auto rest = place - box.begin;
  if (rest <= 0) return 0;
  std::int64_t each = 1;  // elements of the box at one index of the dimension
  for (const auto& dimension : box.dimensions) each *= dimension.count;
  std::int64_t before = 0;
  for (const auto& dimension : box.dimensions) {
    if (each == 0) return 0;
    each /= dimension.count;
    const auto index = rest / dimension.step;
    if (index >= dimension.count) return before + dimension.count * each;
    before += index * each;
    rest -= index * dimension.step;
  }
  return before + (rest > 0 ? 1 : 0);  // 1: of the one element of no dimensions
}

/// The box's elements from `low` on, which its file has in another order.
void gather(const ReadFile& read,
            const StoredBox& box,
            std::int64_t unit,
            std::int64_t low,
            std::span<std::byte> out) {
  // What lies nearer than this is read along; a longer gap costs more than another call.
  const auto widest = 64 / unit;
  const auto longest = (std::int64_t{1} << 20) / unit;  // of what is read at once
  std::vector<std::int64_t> places(out.size() / unit);
  for (std::int64_t i = 0; i < std::ssize(places); ++i)
    places[i] = place_of(box, &StoredBox::Dimension::stored, low + i);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return places[i]; });
  std::vector<std::byte> stored;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const auto nearest = places[order[begin]];
    for (end = begin + 1; end < order.size(); ++end) {
      const auto next = places[order[end]];
      if (next - places[order[end - 1]] > widest || next - nearest >= longest) break;
    }
    stored.resize((places[order[end - 1]] - nearest + 1) * unit);
    read(box.file, box.offset + nearest * unit, stored);
    for (std::size_t i = begin; i < end; ++i)
      std::memcpy(
          out.data() + order[i] * unit, stored.data() + (places[order[i]] - nearest) * unit, unit);
  }
}

/// The box's elements from `low` on, in its own order.
void read_box(const ReadFile& read,
              const StoredBox& box,
              std::int64_t unit,
              std::int64_t low,
              std::span<std::byte> out) {
  if (!in_order(box, &StoredBox::Dimension::stored)) return gather(read, box, unit, low, out);
  read(box.file, box.offset + low * unit, out);
}

/// Puts the box's elements from `low` on where the tensor has them; `out` begins at its element
/// `first`.
void scatter(const StoredBox& box,
             std::int64_t unit,
             std::int64_t low,
             std::span<const std::byte> stored,
             std::int64_t first,
             std::span<std::byte> out) {
  const auto& last = box.dimensions.back();
  const auto line = last.step == 1 ? last.count : 1;  // elements that follow each other
  while (!stored.empty()) {
    const auto left = (line - low % line) * unit;
    const auto bytes = std::min<std::int64_t>(left, std::ssize(stored));
    const auto place = box.begin + place_of(box, &StoredBox::Dimension::step, low) - first;
    std::memcpy(out.data() + place * unit, stored.data(), bytes);
    stored = stored.subspan(bytes);
    low += bytes / unit;
  }
}

}  // namespace

std::int64_t StoredTensor::elements() const { return product(shape).value(); }

std::int64_t StoredTensor::bytes() const { return elements() * bits_of(dtype) / 8; }

std::int64_t StoredTensor::unit() const { return std::max<std::int64_t>(1, bits_of(dtype) / 8); }

void decide_roles(std::span<StoredTensor> tensors) {
  std::vector<TypedName> names;
  std::vector<Role*> places;
  for (auto& tensor : tensors) {
    if (tensor.role == Role::beside) continue;
    names.push_back({tensor.name, tensor.dtype, tensor.shape.empty()});
    places.push_back(&tensor.role);
  }
  const auto roles = roles_of(names);
  for (std::size_t i = 0; i < roles.size(); ++i) *places[i] = roles[i];
}

void decide_roles_without_state(std::span<StoredTensor> tensors) {
  std::vector<TypedName> names;
  std::vector<Role> roles;
  for (const auto& tensor : tensors) {
    names.push_back({tensor.name, tensor.dtype, tensor.shape.empty()});
    roles.push_back(role_of(names.back()));
  }
  settle_adapters(names, roles);
  for (std::size_t i = 0; i < roles.size(); ++i) tensors[i].role = roles[i];
}

StoredBox box_of(const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& first,
                 const std::vector<std::int64_t>& sizes,
                 const std::vector<std::int64_t>& stride) {
  StoredBox box{.dimensions = std::vector<StoredBox::Dimension>(shape.size())};
  std::int64_t step = 1;
  std::int64_t stored = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    box.dimensions[axis] = {sizes[axis], step, stride.empty() ? stored : stride[axis]};
    box.begin += first[axis] * step;
    step *= shape[axis];
    stored *= sizes[axis];
  }
  return box;
}

void read_stored(const ReadFile& read,
                 std::span<const StoredBox> boxes,
                 std::int64_t unit,
                 std::int64_t first,
                 std::span<std::byte> out) {
  const auto end = first + std::ssize(out) / unit;
  std::vector<std::byte> stored;
  for (const auto& box : boxes) {
    const auto low = elements_before(box, first);
    const auto bytes = (elements_before(box, end) - low) * unit;
    if (bytes == 0) continue;
    if (in_order(box, &StoredBox::Dimension::step)) {
      const auto place = box.begin + low - first;
      read_box(read, box, unit, low, out.subspan(place * unit, bytes));
      continue;
    }
    stored.resize(bytes);
    read_box(read, box, unit, low, stored);
    scatter(box, unit, low, stored, first, out);
  }
}

}  // namespace dimred::checkpoints
