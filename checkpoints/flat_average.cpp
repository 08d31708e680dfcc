#include "checkpoints/flat_average.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "support/text.h"

namespace dimred::checkpoints {
namespace {

using Shape = std::vector<std::int64_t>;

/// Whether a part of a name says that what follows is averaged: ema, model_ema, swa1.
bool says_average(std::string_view part) {
  constexpr std::array<std::string_view, 6> averages{
      "ema", "swa", "avg", "average", "averaged", "polyak"};
  const auto text = lower_case(part);
  const auto is_letter = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_letter);
    const auto end = std::find_if_not(begin, text.end(), is_letter);
    if (std::ranges::find(averages, std::string_view(begin, end)) != averages.end()) return true;
    begin = end;
  }
  return false;
}

/// The beginnings of names, up to the dot behind the first part that says average.
std::set<std::string> beginnings_of_averages(const std::vector<StoredTensor>& tensors) {
  std::set<std::string> beginnings;
  for (const auto& tensor : tensors) {
    const std::string_view name = tensor.name;
    for (std::size_t begin = 0, dot = name.find('.'); dot != name.npos;
         begin = dot + 1, dot = name.find('.', begin)) {
      if (!says_average(name.substr(begin, dot - begin))) continue;
      beginnings.emplace(name.substr(0, dot + 1));
      break;
    }
  }
  return beginnings;
}

/// The shapes of tensors by what their names have behind a beginning.
using Rests = std::map<std::string, Shape, std::less<>>;

Rests rests_behind(std::string_view beginning, const std::vector<StoredTensor>& tensors) {
  Rests rests;
  for (const auto& tensor : tensors)
    if (tensor.name.starts_with(beginning) && tensor.name.size() > beginning.size())
      rests.emplace(tensor.name.substr(beginning.size()), tensor.shape);
  return rests;
}

/// Whether each tensor that is more than a number has one of its shape among the others.
bool have_all(const Rests& averages, const Rests& others) {
  const auto is_number = [](const Shape& shape) {
    return std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
  };
  bool any = false;
  for (const auto& [rest, shape] : averages) {
    const auto other = others.find(rest);
    const bool same = other != others.end() && other->second == shape;
    if (!same && !is_number(shape)) return false;
    any = any || same;
  }
  return any;
}

/// The beginnings that stand in the place of an average's: its own without the last part, and with
/// another one.
std::set<std::string> other_beginnings(std::string_view average,
                                       const std::vector<StoredTensor>& tensors) {
  const auto end = average.substr(0, average.size() - 1).rfind('.');
  const std::string above(average.substr(0, end == average.npos ? 0 : end + 1));
  std::set<std::string> others{above};
  for (const auto& tensor : tensors) {
    if (!tensor.name.starts_with(above)) continue;
    const auto dot = tensor.name.find('.', above.size());
    if (dot == tensor.name.npos) continue;
    if (!says_average(std::string_view(tensor.name).substr(above.size(), dot - above.size())))
      others.insert(tensor.name.substr(0, dot + 1));
  }
  return others;
}

}  // namespace

std::vector<FlatAverage> flat_averages(const std::vector<StoredTensor>& tensors) {
  std::vector<FlatAverage> found;
  for (const auto& average : beginnings_of_averages(tensors)) {
    const auto rests = rests_behind(average, tensors);
    std::vector<std::string> raw;
    for (const auto& other : other_beginnings(average, tensors))
      if (have_all(rests, rests_behind(other, tensors))) raw.push_back(other);
    if (raw.size() == 1) found.push_back({average, raw.front()});
  }
  return found;
}

void keep_one_kind(std::vector<StoredTensor>& tensors, const FlatAverage& both, bool averaged) {
  const auto averages = rests_behind(both.averaged, tensors);
  const auto raw = rests_behind(both.raw, tensors);
  const auto is_average = [&](const StoredTensor& tensor) {
    return tensor.name.starts_with(both.averaged);
  };
  std::erase_if(tensors, [&](const StoredTensor& tensor) {
    if (is_average(tensor))
      return !averaged || !raw.contains(tensor.name.substr(both.averaged.size()));
    return averaged && tensor.name.starts_with(both.raw) &&
           averages.contains(tensor.name.substr(both.raw.size()));
  });
  for (auto& tensor : tensors)
    if (is_average(tensor)) tensor.name = both.raw + tensor.name.substr(both.averaged.size());
}

}  // namespace dimred::checkpoints
