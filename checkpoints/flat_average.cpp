#include "checkpoints/flat_average.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "support/text.h"

namespace dimred::checkpoints {
namespace {

/// Words that networks have layers of: pooling has an avg beside a max.
constexpr std::array<std::string_view, 4> layer_words{"avg", "average", "averaged", "shadow"};
constexpr std::array<std::string_view, 3> sure_words{"ema", "swa", "polyak"};

bool is_sure(std::string_view word) {
  return std::ranges::find(sure_words, word) != sure_words.end();
}

/// The first word of a text that says averaged, ema of model_ema, swa of swa1, before that of a
/// layer; empty: none does.
std::string_view word_for_average(std::string_view part) {
  const auto text = lower_case(part);
  const auto is_letter = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  std::string_view word;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_letter);
    const auto end = std::find_if_not(begin, text.end(), is_letter);
    const std::string_view own(begin, end);
    if (const auto sure = std::ranges::find(sure_words, own); sure != sure_words.end())
      return *sure;
    if (const auto layer = std::ranges::find(layer_words, own); layer != layer_words.end())
      word = *layer;
    begin = end;
  }
  return word;
}

bool says_average(std::string_view part) { return !word_for_average(part).empty(); }

bool is_single_number(const StoredTensor& tensor) {
  return std::ranges::all_of(tensor.shape, [](std::int64_t extent) { return extent == 1; });
}

/// A tensor by what its name has behind a beginning, or before an end.
struct NameRest {
  std::string_view name;
  const StoredTensor* tensor = nullptr;
};
using Rests = std::vector<NameRest>;

/// The tensors of a list in the order of their names, which finds those of one beginning.
class SortedNames {
 public:
  explicit SortedNames(const std::vector<StoredTensor>& tensors) {
    for (const auto& tensor : tensors) {
      sorted_.push_back(&tensor);
      if (!is_single_number(tensor) && !says_average(tensor.name)) ++raw_count_;
    }
    std::ranges::sort(sorted_, {}, &StoredTensor::name);
  }

  const std::vector<const StoredTensor*>& all() const { return sorted_; }

  /// How many are more than a number, and say average nowhere.
  std::size_t raw_count() const { return raw_count_; }

  const StoredTensor* find(const std::string& name) const {
    const auto found = place_of(name);
    return found != sorted_.end() && (*found)->name == name ? *found : nullptr;
  }

  /// How many names begin with a text that ends in a dot.
  std::size_t count_behind(const std::string& beginning) const {
    return static_cast<std::size_t>(end_of(beginning) - place_of(beginning));
  }

  Rests behind(const std::string& beginning) const {
    Rests rests;
    for (auto at = place_of(beginning), end = end_of(beginning); at != end; ++at)
      if ((*at)->name.size() > beginning.size())
        rests.push_back({std::string_view((*at)->name).substr(beginning.size()), *at});
    return rests;
  }

  /// The text, and with each next part that does not say average, up to the dot behind the part.
  const std::vector<std::string>& beginnings_below(const std::string& above) {
    auto& found = below_[above];
    if (!found.empty()) return found;
    found.push_back(above);
    for (auto at = place_of(above), end = end_of(above); at != end;) {
      const auto& name = (*at)->name;
      const auto dot = name.find('.', above.size());
      if (dot == name.npos) {
        ++at;
        continue;
      }
      const auto beginning = name.substr(0, dot + 1);
      if (!says_average(std::string_view(beginning).substr(above.size())))
        found.push_back(beginning);
      at = end_of(beginning);
    }
    return found;
  }

 private:
  using Place = std::vector<const StoredTensor*>::const_iterator;

  Place place_of(const std::string& text) const {
    return std::ranges::lower_bound(sorted_, text, {}, &StoredTensor::name);
  }

  /// The place behind all names that begin with a text, which is empty or ends in a dot.
  Place end_of(std::string beginning) const {
    if (beginning.empty()) return sorted_.end();
    ++beginning.back();
    return place_of(beginning);
  }

  std::vector<const StoredTensor*> sorted_;
  std::size_t raw_count_ = 0;
  std::map<std::string, std::vector<std::string>> below_;
};

/// More averages than a program keeps of one network: their names are those of layers.
constexpr std::size_t most_kinds = 64;

/// Returns the text before the last part of a beginning, which ends in a dot.
std::string above_of(const std::string& beginning) {
  const auto dot =
      beginning.size() < 2 ? beginning.npos : beginning.rfind('.', beginning.size() - 2);
  return dot == beginning.npos ? std::string() : beginning.substr(0, dot + 1);
}

/// The beginnings of names, up to the dot behind the first part that says average; parts that may
/// be layers do not end the search.
std::set<std::string> beginnings_of_averages(const SortedNames& names) {
  std::set<std::string> beginnings;
  for (const auto* tensor : names.all()) {
    const std::string_view name = tensor->name;
    for (std::size_t begin = 0, dot = name.find('.'); dot != name.npos;
         begin = dot + 1, dot = name.find('.', begin)) {
      const auto word = word_for_average(name.substr(begin, dot - begin));
      if (!word.empty()) beginnings.emplace(name.substr(0, dot + 1));
      if (is_sure(word)) break;
    }
  }
  std::map<std::string, std::size_t> kinds;
  for (const auto& beginning : beginnings) ++kinds[above_of(beginning)];
  std::erase_if(beginnings, [&](const auto& text) { return kinds[above_of(text)] > most_kinds; });
  return beginnings;
}

/// The tensors whose names end so that they say average, by these ends: _ema of w_ema, .ema of
/// w.ema.
std::map<std::string_view, Rests> ends_of_averages(const SortedNames& names) {
  std::map<std::string_view, Rests> ends;
  for (const auto* tensor : names.all()) {
    const std::string_view name = tensor->name;
    const auto mark = name.find_last_of("._");
    if (mark == name.npos || mark == 0 || !says_average(name.substr(mark + 1))) continue;
    ends[name.substr(mark)].push_back({name.substr(0, mark), tensor});
  }
  if (ends.size() > most_kinds) ends.clear();
  return ends;
}

/// Finds the raw tensor of what an average's name has behind its beginning.
using FindRaw = std::function<const StoredTensor*(std::string_view)>;

/// The averages under a beginning or before an end, each with its raw tensor.
struct Pairs {
  std::map<std::string, std::string> raw_names;  // as in FlatAverage
  std::size_t large = 0;                         // raw ones that are more than a number
};

/// Pairs each average that is more than a number with a raw one of its shape; nullopt where one has
/// none.
std::optional<Pairs> pairs_of(const Rests& averages, const FindRaw& find) {
  Pairs pairs;
  bool any = false;
  for (const auto& [rest, tensor] : averages) {
    const auto* raw = find(rest);
    const bool same = raw != nullptr && raw->shape == tensor->shape;
    if (!same && !is_single_number(*tensor)) return {};
    any = any || same;
    if (same && !is_single_number(*raw) && !says_average(raw->name)) ++pairs.large;
    pairs.raw_names.emplace(tensor->name, raw == nullptr ? std::string() : raw->name);
  }
  return any ? std::optional(std::move(pairs)) : std::nullopt;
}

/// Whether more than half of the file's other tensors have an average.
bool are_of_most(const Pairs& pairs, const SortedNames& names) {
  return 2 * pairs.large > names.raw_count();
}

/// Whether a layer's word means an average here: of most of the file, and not of one tensor beside
/// another one of its kind, as avg.weight and max.weight.
bool is_no_layer(const Pairs& pairs, const std::string& raw, const SortedNames& names) {
  constexpr std::array<std::string_view, 7> networks{
      "", "model", "module", "net", "network", "params", "state_dict"};
  const auto last = raw.substr(above_of(raw).size());
  const auto part = std::string_view(last).substr(0, last.find('.'));
  const bool network = std::ranges::find(networks, part) != networks.end();
  return are_of_most(pairs, names) && (network || pairs.large > 1);
}

// Between a beginning and the names of a network: DataParallel and AveragedModel have a module, and
// programs with a decay beside the averages a shadow.
constexpr std::string_view parallel_wrapper = "module.";
constexpr std::array<std::string_view, 3> inner_wrappers{"", parallel_wrapper, "shadow."};

/// The averages without the wrapper, which all but numbers have; else none.
Rests unwrapped(const Rests& averages, std::string_view wrapper) {
  Rests rests;
  for (const auto& [rest, tensor] : averages) {
    const bool wrapped = rest.size() > wrapper.size() && rest.starts_with(wrapper);
    if (!wrapped && !is_single_number(*tensor)) return {};
    rests.push_back({wrapped ? rest.substr(wrapper.size()) : rest, tensor});
  }
  return rests;
}

/// Averages under a beginning, and how they are called in a message.
struct Averages {
  std::string_view beginning;
  std::string_view wrapper;
  Rests rests;
};

/// The averages with their raw tensors under the one beginning beside theirs that has all; nullopt
/// where none or several have. `finder` gives for a beginning what finds its raw tensors.
template <class Finder>
std::optional<FlatAverage> averages_beside(const Averages& averages,
                                           const std::vector<std::string>& beginnings,
                                           const SortedNames& names,
                                           Finder finder) {
  const bool sure = is_sure(word_for_average(averages.beginning));
  std::optional<FlatAverage> found;
  for (const auto& raw : beginnings) {
    auto pairs = pairs_of(averages.rests, finder(raw));
    if (!pairs || (!sure && !is_no_layer(*pairs, raw, names))) continue;
    if (found) return {};
    found = FlatAverage{.averaged = std::string(averages.beginning).append(averages.wrapper) + '*',
                        .raw = raw + '*',
                        .raw_names = std::move(pairs->raw_names)};
  }
  return found;
}

/// Averages whose names have lost their dots, as LitEma of Stable Diffusion writes them:
/// model_ema.l0weight beside model.l.0.weight.
std::optional<FlatAverage> dotless_averages(const std::string& beginning,
                                            const Rests& averages,
                                            SortedNames& names) {
  const auto is_dotless = [](const NameRest& rest) {
    return rest.name.find('.') == rest.name.npos;
  };
  if (!std::ranges::all_of(averages, is_dotless)) return {};
  const auto finder = [&](const std::string& raw) -> FindRaw {
    // A network has fewer buffers, which no average is of, than weights.
    if (names.count_behind(raw) > 2 * averages.size()) return [](auto) { return nullptr; };
    std::unordered_map<std::string, const StoredTensor*> bare;
    for (const auto& [rest, tensor] : names.behind(raw)) {
      std::string name(rest);
      std::erase(name, '.');
      const auto [place, fresh] = bare.emplace(std::move(name), tensor);
      if (!fresh) place->second = nullptr;
    }
    return [bare = std::move(bare)](std::string_view rest) -> const StoredTensor* {
      const auto place = bare.find(std::string(rest));
      return place == bare.end() ? nullptr : place->second;
    };
  };
  const auto& beginnings = names.beginnings_below(above_of(beginning));
  return averages_beside({beginning, "", averages}, beginnings, names, finder);
}

std::optional<FlatAverage> averages_behind(const std::string& beginning, SortedNames& names) {
  const auto all = names.behind(beginning);
  std::vector<std::string> raws;
  for (const auto& raw : names.beginnings_below(above_of(beginning))) {
    raws.push_back(raw);
    auto parallel = raw + std::string(parallel_wrapper);
    if (raw != above_of(beginning) && names.count_behind(parallel) > 0)
      raws.push_back(std::move(parallel));
  }
  const auto finder = [&](const std::string& raw) -> FindRaw {
    return [&names, raw](std::string_view rest) { return names.find(raw + std::string(rest)); };
  };
  for (const auto wrapper : inner_wrappers) {
    const Averages averages{beginning, wrapper, unwrapped(all, wrapper)};
    if (averages.rests.empty()) continue;
    if (auto found = averages_beside(averages, raws, names, finder)) return found;
  }
  return is_sure(word_for_average(beginning)) ? dotless_averages(beginning, all, names)
                                              : std::nullopt;
}

}  // namespace

std::vector<FlatAverage> flat_averages(const std::vector<StoredTensor>& tensors) {
  std::vector<FlatAverage> found;
  SortedNames names(tensors);
  for (const auto& beginning : beginnings_of_averages(names))
    if (auto both = averages_behind(beginning, names)) found.push_back(std::move(*both));
  const auto find = [&](std::string_view rest) { return names.find(std::string(rest)); };
  for (const auto& [end, averages] : ends_of_averages(names))
    if (auto pairs = pairs_of(averages, find); pairs && are_of_most(*pairs, names))
      found.push_back({.averaged = '*' + std::string(end),
                       .raw = "*",
                       .raw_names = std::move(pairs->raw_names)});
  return found;
}

std::vector<std::string> unpaired_averages(const std::vector<StoredTensor>& tensors) {
  constexpr std::size_t least_share = 4;  // a layer called ema has less of a network
  std::vector<std::string> found;
  const SortedNames names(tensors);
  for (const auto& beginning : beginnings_of_averages(names))
    if (is_sure(word_for_average(beginning)) &&
        least_share * names.count_behind(beginning) >= tensors.size())
      found.push_back(beginning + '*');
  for (const auto& [end, averages] : ends_of_averages(names))
    if (is_sure(word_for_average(end)) && least_share * averages.size() >= tensors.size())
      found.push_back('*' + std::string(end));
  // MMCV's EMAHook: ema_backbone_conv_weight beside backbone.conv.weight.
  for (const std::string beginning : {"ema_", "swa_"}) {
    const auto is_dotless = [&](const StoredTensor& tensor) {
      return tensor.name.starts_with(beginning) && tensor.name.find('.') == std::string::npos;
    };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(tensors, is_dotless));
    if (count > 0 && least_share * count >= tensors.size()) found.push_back(beginning + '*');
  }
  return found;
}

void keep_one_kind(std::vector<StoredTensor>& tensors, const FlatAverage& both, bool averaged) {
  std::set<std::string_view> replaced;
  for (const auto& [average, raw] : both.raw_names) replaced.insert(raw);
  std::erase_if(tensors, [&](const StoredTensor& tensor) {
    const auto average = both.raw_names.find(tensor.name);
    if (average != both.raw_names.end()) return !averaged || average->second.empty();
    return averaged && replaced.contains(tensor.name);
  });
  for (auto& tensor : tensors) {
    const auto average = both.raw_names.find(tensor.name);
    if (average != both.raw_names.end()) tensor.name = average->second;
  }
}

}  // namespace dimred::checkpoints
