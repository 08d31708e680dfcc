#include "checkpoints/pickle_torch.h"

#include <algorithm>
#include <array>

namespace dimred::checkpoints {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t most_dimensions = 64;

struct Storage {
  std::string_view name;
  ElementType element;
};
constexpr std::array storages{Storage{"torch.FloatStorage", ElementType::f32},
                              Storage{"torch.DoubleStorage", ElementType::f64},
                              Storage{"torch.HalfStorage", ElementType::f16},
                              Storage{"torch.BFloat16Storage", ElementType::bf16},
                              Storage{"torch.BoolStorage", ElementType::boolean},
                              Storage{"torch.ByteStorage", ElementType::u8},
                              Storage{"torch.CharStorage", ElementType::i8},
                              Storage{"torch.ShortStorage", ElementType::i16},
                              Storage{"torch.IntStorage", ElementType::i32},
                              Storage{"torch.LongStorage", ElementType::i64}};
constexpr std::string_view ordered_dict = "collections.OrderedDict";
constexpr std::string_view rebuild_tensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view rebuild_parameter = "torch._utils._rebuild_parameter";

}  // namespace

bool is_known_global(std::string_view global) {
  return global == ordered_dict || global == rebuild_tensor || global == rebuild_parameter ||
         std::ranges::find(storages, global, &Storage::name) != storages.end();
}

namespace {

bool are_integers(const PickleValue& value) {
  return value.kind == Kind::sequence && value.items.size() <= most_dimensions &&
         std::ranges::all_of(value.items,
                             [](const auto* item) { return item->kind == Kind::integer; });
}

bool is_text(const PickleValue& value) { return value.kind == Kind::text; }

/// Of a tensor that stands for the negative or the conjugate of its storage there is something.
bool is_nothing(const PickleValue& metadata) {
  return metadata.kind == Kind::none ||
         (metadata.kind == Kind::dictionary && metadata.entries.empty());
}

/// (storage, offset, shape, stride, requires_grad, hooks[, metadata])
bool are_of_a_tensor(const std::vector<const PickleValue*>& items) {
  return (items.size() == 6 || items.size() == 7) && items[0]->kind == Kind::storage &&
         items[1]->kind == Kind::integer && are_integers(*items[2]) && are_integers(*items[3]) &&
         items[2]->items.size() == items[3]->items.size() &&
         (items.size() == 6 || is_nothing(*items[6]));
}

}  // namespace

std::optional<PickleValue> storage_from(const std::vector<const PickleValue*>& items) {
  if (items.size() != 5 || !is_text(*items[0]) || items[0]->text != "storage") return std::nullopt;
  if (items[1]->kind != Kind::global || !is_text(*items[2])) return std::nullopt;
  const auto* const type = std::ranges::find(storages, items[1]->text, &Storage::name);
  if (type == storages.end() || items[4]->kind != Kind::integer || items[4]->integer < 0)
    return std::nullopt;
  return PickleValue{.kind = Kind::storage,
                     .integer = items[4]->integer,
                     .text = items[2]->text,
                     .element = type->element};
}

std::optional<PickleValue> called(std::string_view global,
                                  const std::vector<const PickleValue*>& arguments) {
  if (global == ordered_dict && arguments.empty()) return PickleValue{.kind = Kind::dictionary};
  PickleValue tensor{.kind = Kind::tensor};
  if (global == rebuild_tensor && are_of_a_tensor(arguments)) {
    tensor.items.assign(arguments.begin(), arguments.begin() + 4);
    return tensor;
  }
  const bool parameter = global == rebuild_parameter && arguments.size() == 3;
  if (!parameter || arguments[0]->kind != Kind::tensor) return std::nullopt;
  tensor.items = arguments[0]->items;
  return tensor;
}

}  // namespace dimred::checkpoints
