#include "serving/pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "checkpoints/read_pickle.h"
#include "data/class_names.h"
#include "data/read_file.h"
#include "options/option_values.h"
#include "support/binary.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::serving {
namespace {

namespace fs = std::filesystem;

PairList read_bin(const fs::path& file) {
  const auto bytes = std::make_shared<std::vector<std::uint8_t>>();
  bytes->reserve(fs::file_size(file));
  checkpoints::read_pickle("pairs", "pairs", file, [&](std::span<const std::byte> part) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(part.data());
    bytes->insert(bytes->end(), first, first + part.size());
  });
  ByteReader rest(*bytes, "pairs");

  PairList list{.memory = bytes};
  const auto pairs = rest.number<std::int64_t>();
  std::vector<std::int64_t> sizes(2 * pairs);
  for (auto& size : sizes) rest.read(size);
  for (std::int64_t i = 0; i < pairs; ++i)
    list.pairs.push_back({2 * i, 2 * i + 1, rest.number<std::uint8_t>() != 0});
  for (const auto size : sizes)
    list.images.push_back({formatted("{}, image {}", file, list.images.size()), rest.take(size)});
  return list;
}

/// The three fields of a line; nullopt for more or fewer.
std::optional<std::array<std::string_view, 3>> fields_of(std::string_view line) {
  const auto* const between = line.find('\t') != std::string_view::npos ? "\t" : " ";
  std::array<std::string_view, 3> fields;
  std::size_t count = 0;
  while (!line.empty()) {
    const auto end = std::min(line.find_first_of(between), line.size());
    const auto field = trimmed(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
    if (field.empty()) continue;  // several blanks
    if (count == fields.size()) return std::nullopt;
    fields[count++] = field;
  }
  if (count != fields.size() || (fields[2] != "0" && fields[2] != "1")) return std::nullopt;
  return fields;
}

PairList read_list(const fs::path& file) {
  const auto text = data::read_text(file, "pairs");
  PairList list;
  std::map<std::string, std::int64_t, std::less<>> known;
  data::for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto fields = fields_of(line);
    require_environment(
        fields.has_value(),
        "[pairs] {}:{}: needs a line \"path_a path_b 0\" or \"path_a path_b 1\", received {}",
        file,
        number,
        printable(line));
    const auto index_of = [&](std::string_view path) {
      const auto [found, is_new] = known.emplace(path, std::ssize(list.images));
      if (is_new) {
        list.images.push_back({file.parent_path() / path});
        require_environment(fs::is_regular_file(list.images.back().file),
                            "[pairs] {}:{}: no such file: {}",
                            file,
                            number,
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
