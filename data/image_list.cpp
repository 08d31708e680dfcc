#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "data/image_files.h"
#include "data/read_file.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr auto place = "list";
constexpr std::int32_t most_classes = 1'000'000;

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Calls take(line, number) for each line that is not empty.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  std::int64_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty()) take(line, number);
  }
}

struct Entry {
  std::string_view path, label;
  std::int64_t line;
};

std::vector<Entry> entries_of(std::string_view text, const std::string& file) {
  std::vector<Entry> entries;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto blank = line.find_last_of(" \t");
    const bool sound = blank != std::string_view::npos && line.find('\0') == std::string_view::npos;
    require_environment(
        sound, place, file, ':', number, ": needs \"path label\", received ", printable(line));
    entries.push_back({without_blanks(line.substr(0, blank)), line.substr(blank + 1), number});
  });
  require_environment(
      !entries.empty(), place, file, ": needs a line for each image, received none");
  return entries;
}

std::optional<std::int32_t> number_of(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// A name a line, or as some tools write it "0: name" or "0 name".
std::vector<std::string> read_class_names(const fs::path& folder) {
  for (const auto* name : {"labels.txt", "classes.txt"}) {
    if (!fs::is_regular_file(folder / name)) continue;
    std::vector<std::uint8_t> bytes;
    read_file((folder / name).string(), place, bytes);
    std::vector<std::string> names;
    for_each_line({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                  [&](std::string_view line, std::int64_t) {
                    const auto colon = line.find(':');
                    if (colon != std::string_view::npos && number_of(line.substr(0, colon)))
                      line = without_blanks(line.substr(colon + 1));
                    names.emplace_back(line);
                  });
    return names;
  }
  return {};
}

/// Class names when all labels are numbers: given, read from a file, or the numbers themselves.
std::vector<std::string> numbered(const fs::path& file,
                                  std::int32_t largest,
                                  const std::vector<std::string>& expected) {
  if (!expected.empty()) return expected;
  auto names = read_class_names(file.parent_path());
  return names.empty() ? numbered_classes(std::int64_t{largest} + 1) : names;
}

void set_labels(ImageFileList& list,
                const std::vector<Entry>& entries,
                const fs::path& file,
                const std::vector<std::string>& expected) {
  const bool numbers = std::all_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return number_of(entry.label).has_value();
  });
  std::map<std::string, std::int32_t, std::less<>> labels;
  if (numbers) {
    std::int32_t largest = 0;
    for (const auto& entry : entries) largest = std::max(largest, number_of(entry.label).value());
    require_environment(largest < most_classes,
                        place,
                        file.string(),
                        ": needs labels < ",
                        most_classes,
                        ", received ",
                        largest);
    list.class_names = numbered(file, largest, expected);
  } else {
    std::set<std::string> names;
    for (const auto& entry : entries) names.emplace(entry.label);
    list.class_names = expected.empty()
                           ? ordered_classes({names.begin(), names.end()}, {}, file.string())
                           : expected;
    for (const auto& name : list.class_names)
      labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  }
  for (const auto& entry : entries) {
    const auto named = labels.find(entry.label);
    const auto label = numbers                 ? number_of(entry.label).value()
                       : named == labels.end() ? -1
                                               : named->second;
    require_environment(label >= 0 && label < static_cast<std::int32_t>(list.class_names.size()),
                        place,
                        file.string(),
                        ':',
                        entry.line,
                        ": needs one of the ",
                        list.class_names.size(),
                        " classes, received ",
                        printable(entry.label));
    list.labels.push_back(label);
  }
}

}  // namespace

std::unique_ptr<Dataset> open_image_list(const fs::path& file,
                                         const std::vector<std::string>& class_names) {
  require(fs::is_regular_file(file),
          place,
          "needs a file of lines \"path label\", received ",
          utf8_text(file.string()));
  std::vector<std::uint8_t> bytes;
  read_file(file.string(), place, bytes);
  const auto entries =
      entries_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  ImageFileList list{.kind = "list", .root = file.parent_path()};
  if (!fs::exists(list.root / entries.front().path)) list.root /= "images";
  for (const auto& entry : entries) list.paths.add(entry.path);
  set_labels(list, entries, file, class_names);
  return image_files(std::move(list));
}

}  // namespace dimred::data
