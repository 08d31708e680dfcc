#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "data/class_names.h"
#include "data/image_files.h"
#include "data/open.h"
#include "data/read_file.h"
#include "data/splits.h"
#include "data/unread_files.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t most_classes = 1'000'000;

struct ListedImage {
  std::string_view path, label;
  std::int64_t line;
};

[[noreturn]] void refuse_label(const std::string& file,
                               const ListedImage& entry,
                               const std::string& rule) {
  fail_environment("[list] {}:{}: {}, received {}", file, entry.line, rule, printable(entry.label));
}

/// Returns whether a number that no double holds is too small for one, not too large.
bool is_tiny(std::string_view text) {
  const auto exponent = text.find_first_of("eEpP");
  if (exponent != std::string_view::npos && exponent + 1 < text.size())
    return text[exponent + 1] == '-';
  return text.find_first_not_of("-0.") > text.find('.');
}

/// The number that all of the text is; one that no double holds is infinite, or a tiny fraction.
std::optional<double> number_of_text(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const auto digits = text.substr(hexadecimal ? 2 : 0);
  // Not "inf", "nan".
  if (!hexadecimal && text.find_first_of("0123456789.") != (text.starts_with('-') ? 1 : 0))
    return std::nullopt;
  double number = is_tiny(text) ? std::numeric_limits<double>::denorm_min()
                                : std::numeric_limits<double>::infinity();
  const auto* const end = text.data() + text.size();
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, format);
  return read.ptr == end && !digits.empty() ? std::optional(number) : std::nullopt;
}

/// The number of a label, in any spelling of tables: 2, 2.0, +2, "2", b'2', 2e0, 0x2. NaN for 2,0,
/// which may be 2 or 20; nullopt for a name.
std::optional<double> number_in_label(std::string_view label) {
  auto inner = without_quotes(label);
  const bool has_mark =
      inner.size() > 2 && std::string_view("bBuU").find(inner.front()) != std::string_view::npos;
  if (has_mark && (inner[1] == '\'' || inner[1] == '"')) inner = without_quotes(inner.substr(1));
  std::string text(inner);
  if (text.starts_with('+')) text.erase(0, 1);
  const auto comma = text.find(',');
  if (comma == std::string::npos) return number_of_text(text);
  text[comma] = '.';
  return number_of_text(text) ? std::optional(std::numeric_limits<double>::quiet_NaN())
                              : std::nullopt;
}

bool is_number(const ListedImage& entry) { return number_in_label(entry.label).has_value(); }

bool is_plain_number(std::string_view label) {
  return label.find_first_not_of("-0123456789") == std::string_view::npos;
}

/// Returns whether a label is a number as a program writes it: np.int64(2), tensor(2.), 0b10.
bool is_number_of_a_program(std::string_view label) {
  constexpr std::array types{
      "array", "asarray", "bfloat", "byte", "bytes", "decimal", "double", "float",   "fraction",
      "half",  "int",     "intc",   "intp", "long",  "ndarray", "number", "scalar",  "short",
      "str",   "tensor",  "ubyte",  "uint", "uintc", "ulong",   "ushort", "variable"};
  const auto text = lower_case(without_quotes(label));
  if (text.starts_with("0b") || text.starts_with("0o"))
    return text.size() > 2 && text.find_first_not_of("01234567", 2) == std::string::npos;
  const auto open = text.find('(');
  if (open == std::string::npos || !number_in_label(text.substr(open))) return false;
  auto type = text.substr(0, open);
  type.erase(0, type.rfind('.') + 1);
  type.erase(type.find_last_not_of("0123456789_") + 1);
  return std::ranges::find(types, type) != types.end();
}

/// Returns what stands around the one number of a label, where this may be a spelling of numbers
/// alone: signs (#2, 2%), or letters that end numbers in programs (2L, 2.0f). Else nothing.
std::optional<std::string> frame_of(std::string_view label) {
  const auto text = without_quotes(label);
  const auto first = text.find_first_of("0123456789");
  if (first == std::string_view::npos) return std::nullopt;
  const auto rest = text.substr(first);
  const bool hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
  const auto digits = rest.substr(hexadecimal ? 2 : 0);
  double number = 0;
  const auto* const begin = digits.data();
  const auto* const end = begin + digits.size();
  const auto read = std::from_chars(
      begin, end, number, hexadecimal ? std::chars_format::hex : std::chars_format::general);
  const std::string_view before = text.substr(0, first), behind(read.ptr, end);
  const bool is_literal =
      before.empty() && behind.find_first_not_of("lLfFuU") == std::string_view::npos;
  const bool is_sign = !has_letter(before) && !has_letter(behind) &&
                       behind.find_first_of("0123456789") == std::string_view::npos;
  if (!is_literal && !is_sign) return std::nullopt;
  return formatted("{} {}", before, behind);
}

/// Refuses words that are numbers in another spelling: their order would be 0, 1, 10, 2. A word
/// with a frame counts as a number where most words have the same frame; 2L may be a name among
/// others.
void refuse_other_spellings(const std::vector<ListedImage>& entries,
                            const std::set<std::string>& names,
                            const std::string& list) {
  std::map<std::string, std::size_t> frames;
  for (const auto& name : names)
    if (const auto frame = frame_of(name)) ++frames[*frame];
  const auto most = std::ranges::find_if(
      frames, [&](const auto& item) { return 2 * item.second > names.size(); });
  const auto is_odd = [&](std::string_view label) {
    return is_number_of_a_program(label) ||
           (most != frames.end() && frame_of(label) == most->first);
  };
  if (std::ranges::any_of(names, is_odd))
    refuse_label(list,
                 *std::ranges::find_if(entries, is_odd, &ListedImage::label),
                 "needs a plain number (2, 2.0 or \"2\") or a name as label, not a number in "
                 "another notation");
}

/// The place of the separator between path and label: the last tab behind an image's name, so that
/// a label may hold blanks, else the last blank of any kind.
std::size_t separator_in(std::string_view line) {
  const auto tab = line.rfind('\t');
  if (tab != std::string_view::npos && is_image_name(trimmed(line.substr(0, tab)))) return tab;
  return line.find_last_of(" \t");
}

const char* kind_of_labels(bool numbers) { return numbers ? "number" : "name"; }

/// Labels are all numbers or all names, as the first is.
std::vector<ListedImage> entries_of(std::string_view text, const std::string& file) {
  std::vector<ListedImage> entries;
  require_environment(!is_image_name(file),
                      "[list] {} is one image; give a folder with one subfolder for each class, or "
                      "a list of images",
                      file);
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto seen = without_blanks(line);
    if (seen.empty()) return;
    line = line.substr(0, static_cast<std::size_t>(seen.data() + seen.size() - line.data()));
    const auto blank = separator_in(line);
    const bool two = blank != std::string_view::npos && line.find('\0') == std::string_view::npos;
    const auto label = two ? trimmed(line.substr(blank + 1)) : std::string_view();
    // "im 9.jpg" has no label but a blank in its name.
    require_environment(two && !is_image_name(label),
                        "[list] {}:{}: needs a line \"path label\", received {}{}",
                        file,
                        number,
                        printable(line),
                        placeholder_remark(line));
    entries.push_back({trimmed(line.substr(0, blank)), label, number});
    const auto& first = entries.front();
    if (is_number(entries.back()) != is_number(first))
      refuse_label(file,
                   entries.back(),
                   formatted("needs a {} as label, as in line {} ({})",
                             kind_of_labels(is_number(first)),
                             first.line,
                             printable(first.label)));
  });
  require_environment(!entries.empty(),
                      "[list] {}: needs a line \"path label\" for each image, received no line",
                      file);
  return entries;
}

std::int32_t number_of(const ListedImage& entry, const std::string& file) {
  const auto value = number_in_label(entry.label).value();
  if (value < 0) refuse_label(file, entry, "needs a label >= 0");
  if (value >= most_classes)
    refuse_label(file, entry, formatted("needs a label < {}", most_classes));
  if (value != std::floor(value))  // NaN, too
    refuse_label(file, entry, "needs a whole number as label, or a name with a letter");
  return static_cast<std::int32_t>(value);
}

/// Names of numbered classes: those beside the list, which a test set's must equal, else the
/// training set's, else the numbers themselves.
std::vector<std::string> names_of_numbers(const std::vector<fs::path>& names_files,
                                          const std::vector<std::int32_t>& labels,
                                          const std::vector<std::string>& expected) {
  if (names_files.empty()) {
    if (!expected.empty()) return expected;
    return numbered_classes(std::ranges::max(labels) + 1);
  }
  auto names = read_class_names(names_files.front());
  require_one_naming(names_files, names);
  if (!expected.empty()) require_same_names(names, expected, names_files.front());
  return names;
}

/// Names of the classes of a training list without numbers: those of a file beside the list that
/// names them all, in its order, else the words by their bytes. A file that names none of them is
/// of another naming, as the titles of the classes are.
std::vector<std::string> names_of_words(const std::vector<fs::path>& names_files,
                                        const std::vector<ListedImage>& entries,
                                        const std::set<std::string>& names,
                                        const std::string& file,
                                        std::vector<std::string>& remarks) {
  refuse_other_spellings(entries, names, file);
  auto words = ordered_classes({names.begin(), names.end()}, {}, file);
  std::vector<fs::path> complete, partial;
  for (const auto& names_file : names_files) {
    const auto listed = read_class_names(names_file);
    const auto known = std::ranges::count_if(
        listed, [&](const std::string& name) { return names.contains(name); });
    if (known == std::ssize(names)) complete.push_back(names_file);
    if (known > 0) partial.push_back(names_file);
  }
  if (!complete.empty()) {
    auto listed = read_class_names(complete.front());
    require_one_naming(complete, listed);
    return listed;
  }
  if (!partial.empty()) {
    const auto listed = read_class_names(partial.front());
    const std::set<std::string_view> named(listed.begin(), listed.end());
    const auto missing = std::ranges::find_if_not(
        entries, [&](const ListedImage& entry) { return named.contains(entry.label); });
    refuse_label(file, *missing, formatted("needs a class that {} names", partial.front()));
  }
  if (!names_files.empty())
    remarks.push_back(
        formatted("{}: {} names none of the classes in this list and is not used; the classes are "
                  "in the order of their bytes",
                  file,
                  names_files.front()));
  return words;
}

/// A remark on images that the list names with several labels; empty where there are none.
std::vector<std::string> remarks_on(const std::vector<ListedImage>& entries,
                                    const std::vector<std::int32_t>& labels,
                                    const std::string& file) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return entries[i].path; });
  std::int64_t images = 0;
  std::pair<std::size_t, std::size_t> example;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const auto first = order[begin];
    auto other = first;
    for (; end < order.size() && entries[order[end]].path == entries[first].path; ++end)
      if (other == first && labels[order[end]] != labels[first]) other = order[end];
    if (other == first) continue;
    if (++images == 1 || first < example.first) example = {first, other};
  }
  if (images == 0) return {};
  const auto& [first, other] = std::pair(entries[example.first], entries[example.second]);
  return {formatted("{}: {} have two or more labels; the first is {} (line {}: {}, line {}: {})",
                    file,
                    counted(images, "image"),
                    printable(first.path),
                    first.line,
                    printable(first.label),
                    other.line,
                    printable(other.label))};
}

/// A training set has no empty class, as with class folders. Labels beyond the classes are refused
/// where their lines are read.
void require_no_empty_class(const ImageFileList& list, bool numbered, const std::string& file) {
  const std::set<std::int32_t> used(list.labels.begin(), list.labels.end());
  std::int32_t empty = 0;
  while (used.contains(empty)) ++empty;
  if (!numbered && empty < std::ssize(list.class_names))
    refuse(
        "[list] {}: labels.txt or classes.txt names the label {}, but no image has this label; "
        "name only classes with images",
        file,
        printable(list.class_names[empty]));
  require(empty >= std::ssize(list.class_names),
          "[list] {}: no image has the label {} ({} classes, labels {} to {}); number the labels "
          "0, 1, 2, ... without a gap, and list only these classes in labels.txt",
          file,
          empty,
          list.class_names.size(),
          *used.begin(),
          *used.rbegin());
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

std::string content_of(const fs::path& file) {
  require(
      fs::is_regular_file(file), "[list] needs a file of lines \"path label\", received {}", file);
  for (const auto* end : {".tar", ".gz", ".tgz", ".zip", ".xz", ".bz2", ".7z"})
    require(file.extension() != end,
            "[list] {} is an archive; unpack the archive and give the unpacked folder",
            file);
  auto text = read_text(file, "list");
  const auto remark = remark_on(file);
  require(remark.empty() && text.find('\0') == std::string::npos,
          "[list] {}: needs a text file with lines \"path label\", received {} bytes of other "
          "data{}; give a folder or a pattern of images",
          file,
          text.size(),
          remark);
  return text;
}

/// Whether the labels of a list are numbers, by its first line.
bool has_numbers(const fs::path& file) {
  const auto text = content_of(file);
  return is_number(entries_of(text, path_text(file)).front());
}

/// The file of a list data set, or an empty path.
fs::path list_file(const fs::path& path, bool train) {
  if (fs::is_regular_file(path)) return train ? path : fs::path();
  for (const auto* ending : {".txt", "/label.txt"})
    if (auto file = split_file(path, train, ending); !file.empty()) return file;
  return train && fs::is_regular_file(path / "label.txt") ? path / "label.txt" : fs::path();
}

bool holds_list(const fs::path& path) { return !list_file(path, /*train=*/true).empty(); }

/// Returns whether the list's first line names an image that is there; a train.txt or label.txt
/// beside other data may be any text.
bool lists_an_image(const fs::path& path) {
  const auto file = list_file(path, /*train=*/true);
  if (file.empty()) return false;
  std::string image;
  try {
    for_each_line(content_of(file), [&](std::string_view line, std::int64_t) {
      if (image.empty()) image = trimmed(line.substr(0, separator_in(line)));
    });
  } catch (const std::exception&) {
    return false;  // no list
  }
  const auto folder = file.parent_path();
  return is_image_name(image) &&
         (fs::exists(folder / image) || fs::exists(folder / "images" / image));
}

std::unique_ptr<Dataset> open_list(const DatasetRequest& request) {
  auto file = list_file(request.path, request.train);
  if (file.empty() && request.named) file = list_file(request.path, /*train=*/true);
  if (file.empty()) return nullptr;
  const auto& options = request.options;
  const auto is_list = [&] {
    return options.kind == "list" || (!options.path.empty() && kind_of(options.path) == "list");
  };
  std::optional<bool> numbers;
  if (!request.train && is_list() && holds_list(options.path))
    numbers = has_numbers(list_file(options.path, /*train=*/true));
  return open_image_list(file, request.class_names, numbers);
}

/// Refuses a label of digits beyond 0 to 9, which is neither a number nor a name, but for a known
/// one.
void require_name(const ListedImage& entry,
                  const std::string& list,
                  const std::vector<std::string>& class_names) {
  if (has_other_digits_alone(entry.label) && !std::ranges::count(class_names, entry.label))
    refuse_label(list, entry, "needs numbers in the digits 0 to 9, or names with a letter");
}

}  // namespace

ImageFileList parse_image_list(std::string_view text,
                               const std::string& name,
                               const std::vector<fs::path>& names_files,
                               const std::vector<std::string>& class_names,
                               std::optional<bool> numbers) {
  const auto entries = entries_of(text, name);
  const auto& first = entries.front();
  // A folder of the training set may be named 2.0.
  const bool numbered = is_number(first) && (is_plain_number(first.label) ||
                                             !std::ranges::count(class_names, first.label));
  // Another kind of training set has no numbers of its own, unless they are its names.
  const bool expected_numbers =
      numbers.value_or(class_names == numbered_classes(std::ssize(class_names)) ? numbered : false);
  if (!class_names.empty() && numbered != expected_numbers)
    refuse_label(name,
                 first,
                 formatted("needs a {} as label, as in the training set ({} is label 0)",
                           kind_of_labels(expected_numbers),
                           printable(class_names.front())));
  ImageFileList list{.kind = "list"};
  std::set<std::string> names;
  for (const auto& entry : entries) {
    list.paths.add(entry.path);
    if (numbered) {
      list.labels.push_back(number_of(entry, name));
    } else {
      require_name(entry, name, class_names);
      names.emplace(entry.label);
    }
  }
  if (numbered) {
    list.class_names = names_of_numbers(names_files, list.labels, class_names);
  } else {
    list.class_names = class_names.empty()
                           ? names_of_words(names_files, entries, names, name, list.remarks)
                           : class_names;
    const auto labels = labels_of(list.class_names);
    for (const auto& entry : entries) {
      const auto found = labels.find(entry.label);
      list.labels.push_back(found == labels.end() ? labels.size() : found->second);
    }
  }
  const auto bad = std::ranges::find_if(
      list.labels, [&](auto label) { return label >= std::ssize(list.class_names); });
  if (bad != list.labels.end())
    refuse_label(name,
                 entries[bad - list.labels.begin()],
                 formatted("needs one of the {} classes", list.class_names.size()));
  if (class_names.empty()) require_no_empty_class(list, numbered, name);
  for (auto& remark : remarks_on(entries, list.labels, name))
    list.remarks.push_back(std::move(remark));
  return list;
}

std::unique_ptr<Dataset> open_image_list(const fs::path& file,
                                         const std::vector<std::string>& class_names,
                                         std::optional<bool> numbers) {
  const auto folder = file.parent_path();
  auto list = parse_image_list(
      content_of(file), path_text(file), class_names_files(file), class_names, numbers);
  list.root = root_of(list.paths, folder);
  list.file = file;
  return image_files(std::move(list));
}

namespace formats {
DatasetFormat list() {
  return {.holds = holds_list,
          .open = open_list,
          .train_files = "train.txt or label.txt",
          .test_files = "test.txt, val.txt or validation.txt",
          .lies_beside = lists_an_image};
}
}  // namespace formats

}  // namespace dimred::data
