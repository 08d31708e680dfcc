#include "serving/pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "checkpoints/pickle.h"
#include "data/class_names.h"
#include "data/read_file.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;
using checkpoints::PickleValue;
using Kind = PickleValue::Kind;

constexpr auto place = "pairs";
constexpr std::int64_t most_bytes = std::int64_t{8} << 30;

bool all_of(const PickleValue& list, bool (*holds)(const PickleValue&)) {
  return list.kind == Kind::sequence &&
         std::ranges::all_of(list.items, [&](const auto* item) { return holds(*item); });
}

bool is_text(const PickleValue& value) { return value.kind == Kind::text; }

bool is_truth(const PickleValue& value) {
  return value.kind == Kind::boolean ||
         (value.kind == Kind::integer && (value.integer == 0 || value.integer == 1));
}

PairList read_bin(const fs::path& file) {
  std::vector<std::uint8_t> bytes;
  data::read_file(file.string(), place, bytes, most_bytes);
  std::shared_ptr<const checkpoints::Pickle> pickle;
  try {
    pickle = checkpoints::read_pickle(bytes, checkpoints::PickleContent::values);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        concat('[',
               place,
               "] ",
               file.string(),
               ": needs a pickle of (images as bytes, booleans), protocol 2 of "
               "Python 2 or 3 to 5: ",
               error.what()));
  }
  const auto& top = *pickle->top;
  const bool fits = top.kind == Kind::sequence && top.items.size() == 2 &&
                    all_of(*top.items[0], is_text) && all_of(*top.items[1], is_truth);
  require_environment(
      fits, place, file.string(), ": needs a pickle of two lists, images as bytes and booleans");
  const auto& images = top.items[0]->items;
  const auto& same = top.items[1]->items;
  require_environment(images.size() == 2 * same.size(),
                      place,
                      file.string(),
                      ": needs two images for each pair, received ",
                      images.size(),
                      " and ",
                      same.size(),
                      " pairs");
  PairList list{.memory = pickle};
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto& text = images[i]->text;
    require_environment(!text.empty(), place, file.string(), ": image ", i, " is empty");
    list.images.push_back({concat(file.string(), ", image ", i),
                           {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
  }
  for (std::size_t i = 0; i < same.size(); ++i) {
    const auto first = static_cast<std::int64_t>(2 * i);
    list.pairs.push_back({first, first + 1, same[i]->integer != 0});
  }
  return list;
}

/// The three fields of a line; nullopt for more or fewer.
std::optional<std::array<std::string_view, 3>> fields_of(std::string_view line) {
  const auto* const between = line.find('\t') != std::string_view::npos ? "\t" : " ";
  std::array<std::string_view, 3> fields;
  std::size_t count = 0;
  while (!line.empty()) {
    const auto end = std::min(line.find_first_of(between), line.size());
    const auto field = data::without_blanks(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
    if (field.empty()) continue;  // several blanks
    if (count == fields.size()) return std::nullopt;
    fields[count++] = field;
  }
  if (count != fields.size() || (fields[2] != "0" && fields[2] != "1")) return std::nullopt;
  return fields;
}

PairList read_list(const fs::path& file) {
  std::vector<std::uint8_t> bytes;
  data::read_file(file.string(), place, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PairList list;
  std::map<std::string, std::int64_t, std::less<>> known;
  data::for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto fields = fields_of(line);
    require_environment(fields.has_value(),
                        place,
                        file.string(),
                        ':',
                        number,
                        ": needs \"path_a path_b 0\" or 1, received ",
                        printable(line));
    const auto index_of = [&](std::string_view path) {
      const auto [found, is_new] = known.emplace(path, std::ssize(list.images));
      if (is_new) {
        list.images.push_back({file.parent_path() / path});
        require_environment(fs::is_regular_file(list.images.back().file),
                            place,
                            file.string(),
                            ':',
                            number,
                            ": no such file: ",
                            printable(list.images.back().file.string()));
      }
      return found->second;
    };
    const auto first = index_of((*fields)[0]);
    list.pairs.push_back({first, index_of((*fields)[1]), (*fields)[2] == "1"});
  });
  return list;
}

}  // namespace

PairList read_pairs(const fs::path& file) {
  return file.extension() == ".bin" ? read_bin(file) : read_list(file);
}

}  // namespace dimred::serving
