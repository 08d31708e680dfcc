#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "data/class_names.h"
#include "data/image_files.h"
#include "data/paths.h"
#include "data/read_file.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t most_classes = 1'000'000;

struct Entry {
  std::string_view path, label;
  std::int64_t line;
};

std::vector<Entry> entries_of(std::string_view text, const std::string& file) {
  std::vector<Entry> entries;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto blank = line.find_last_of(" \t");
    const bool two = blank != std::string_view::npos && line.find('\0') == std::string_view::npos;
    const auto label = two ? line.substr(blank + 1) : std::string_view();
    // "im 9.jpg" has no label but a blank in its name.
    require_environment(two && !is_image_name(label),
                        "[list] {}:{}: needs \"path label\", received {}",
                        file,
                        number,
                        printable(line));
    entries.push_back({without_blanks(line.substr(0, blank)), label, number});
  });
  require_environment(
      !entries.empty(), "[list] {}: needs a line for each image, received none", file);
  return entries;
}

bool is_number(std::string_view label) {
  const auto digits = label.substr(label.starts_with('-') ? 1 : 0);
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

[[noreturn]] void refuse(const std::string& file, const Entry& entry, const std::string& rule) {
  throw std::runtime_error(
      formatted("[list] {}:{}: {}, received {}", file, entry.line, rule, printable(entry.label)));
}

/// Throws unless all labels are of the kind of the first.
void require_one_kind(const std::vector<Entry>& entries, const std::string& file) {
  const auto& first = entries.front();
  const bool numbers = is_number(first.label);
  for (const auto& entry : entries) {
    if (is_number(entry.label) != numbers)
      refuse(file,
             entry,
             formatted("needs a {} as line {} has ({})",
                       numbers ? "number" : "name",
                       first.line,
                       printable(first.label)));
  }
}

std::int32_t number_of(const Entry& entry, const std::string& file) {
  if (entry.label.starts_with('-')) refuse(file, entry, "needs a label >= 0");
  std::int32_t value = 0;
  const auto* const end = entry.label.data() + entry.label.size();
  const auto result = std::from_chars(entry.label.data(), end, value);
  if (result.ec != std::errc{} || value >= most_classes)
    refuse(file, entry, formatted("needs labels < {}", most_classes));
  return value;
}

/// Names of numbered classes: those beside the list, which a test set's must equal, else the
/// training set's, else the numbers themselves.
std::vector<std::string> numbered(const fs::path& names_file,
                                  const std::vector<std::int32_t>& labels,
                                  const std::vector<std::string>& expected) {
  if (names_file.empty()) {
    if (!expected.empty()) return expected;
    return numbered_classes(std::int64_t{*std::ranges::max_element(labels)} + 1);
  }
  auto names = read_class_names(names_file);
  if (!expected.empty()) require_same_names(names, expected, names_file);
  return names;
}

void set_numbers(ImageFileList& list,
                 const std::vector<Entry>& entries,
                 const std::string& file,
                 const fs::path& names_file,
                 const std::vector<std::string>& expected) {
  for (const auto& entry : entries) list.labels.push_back(number_of(entry, file));
  list.class_names = numbered(names_file, list.labels, expected);
  const auto count = std::ssize(list.class_names);
  for (const auto& entry : entries) {
    if (number_of(entry, file) >= count)
      refuse(file, entry, formatted("needs one of the {} classes", count));
  }
}

void set_names(ImageFileList& list,
               const std::vector<Entry>& entries,
               const std::string& file,
               const std::vector<std::string>& expected) {
  std::set<std::string> names;
  for (const auto& entry : entries) names.emplace(entry.label);
  list.class_names =
      expected.empty() ? ordered_classes({names.begin(), names.end()}, {}, file) : expected;
  std::map<std::string, std::int32_t, std::less<>> labels;
  for (const auto& name : list.class_names)
    labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  for (const auto& entry : entries) {
    const auto found = labels.find(entry.label);
    if (found == labels.end())
      refuse(file, entry, formatted("needs one of the {} classes", labels.size()));
    list.labels.push_back(found->second);
  }
}

/// The folder that the paths start from: the list's or its `images`, whichever holds the first of
/// the files that are there at all. Cost: two looks for each file that is in neither.
fs::path root_of(const TextList& paths, const fs::path& folder) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (const auto& root : {folder, folder / "images"})
      if (fs::exists(root / paths.at(i))) return root;
  }
  return folder;
}

std::vector<std::uint8_t> content_of(const fs::path& file) {
  require(fs::is_regular_file(file),
          "[list] needs a file of lines \"path label\", received {}",
          path_text(file));
  std::vector<std::uint8_t> bytes;
  read_file(file.string(), "list", bytes);
  return bytes;
}

std::string_view text_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool list_has_numbers(const fs::path& file) {
  const auto bytes = content_of(file);
  return is_number(entries_of(text_of(bytes), path_text(file)).front().label);
}

ImageFileList parse_image_list(std::string_view text,
                               const std::string& name,
                               const fs::path& names_file,
                               const std::vector<std::string>& class_names,
                               std::optional<bool> numbers) {
  const auto entries = entries_of(text, name);
  require_one_kind(entries, name);
  const auto& first = entries.front();
  const bool numbered = is_number(first.label);
  // Another kind of training set has no numbers of its own, unless they are its names.
  const bool expected_numbers =
      numbers.value_or(class_names == numbered_classes(std::ssize(class_names)) ? numbered : false);
  if (!class_names.empty() && numbered != expected_numbers)
    refuse(name,
           first,
           formatted("needs a {} as the training set's labels are ({} is label 0)",
                     expected_numbers ? "number" : "name",
                     printable(class_names.front())));
  ImageFileList list{.kind = "list"};
  for (const auto& entry : entries) list.paths.add(entry.path);
  if (numbered) {
    set_numbers(list, entries, name, names_file, class_names);
  } else {
    set_names(list, entries, name, class_names);
  }
  return list;
}

std::unique_ptr<Dataset> open_image_list(const fs::path& file,
                                         const std::vector<std::string>& class_names,
                                         std::optional<bool> numbers) {
  const auto bytes = content_of(file);
  const auto folder = file.parent_path();
  auto list = parse_image_list(
      text_of(bytes), path_text(file), class_names_file(folder), class_names, numbers);
  list.root = root_of(list.paths, folder);
  return image_files(std::move(list));
}

}  // namespace dimred::data
