#include "data/class_names.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include "data/read_file.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/utf8.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array class_names_files{"labels.txt", "classes.txt"};

/// The name of a line; `number` is how many stand before it.
std::string_view name_in(std::string_view line, std::size_t number, const std::string& where) {
  const auto digits = line.find_first_not_of("0123456789");
  if (digits == std::string_view::npos || digits == 0 || line[digits] != ':') return line;
  require_environment(line.substr(0, digits) == std::to_string(number),
                      "[labels] {}: needs {}:name, received {}",
                      where,
                      number,
                      printable(line));
  return trimmed(line.substr(digits + 1));
}

/// The name in Unicode's NFC, which is the same for names that look the same; `option` of utf8proc
/// beside that, such as to fold letters of either case.
std::string composed(std::string_view name, utf8proc_option_t option = UTF8PROC_STABLE) {
  utf8proc_uint8_t* text = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(name.data()),
                   std::ssize(name),
                   &text,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | option));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(text, &std::free);
  check(size >= 0, "a class name that is not UTF-8");
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)};
}

/// Returns a remark on two names that differ only in how their accents are written.
std::string accents_remark(const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;
  for (const auto& name : names) {
    const auto [other, is_new] = seen.emplace(composed(name), name);
    if (!is_new && other->second != name)
      return formatted(
          " (names with accents as letters of their own, Unicode's NFD, and in one letter, NFC, "
          "look the same and are different: rename {})",
          other->first == name ? other->second : name);
  }
  return {};
}

}  // namespace

void require_class_name(std::string_view name, const char* scope, std::string_view where) {
  require_environment(utf8_text(name) == name,
                      "[{}] {}: needs class names in UTF-8, received {}",
                      scope,
                      where,
                      printable(utf8_text(name)));
  const bool plain =
      std::ranges::none_of(name, [](unsigned char code) { return code < 32 || code == 127; });
  require_environment(plain && !name.empty(),
                      "[{}] {}: needs class names without control characters, received {}",
                      scope,
                      where,
                      printable(name));
}

std::vector<std::string> ordered_classes(std::vector<std::string> names,
                                         const std::vector<std::string>& expected,
                                         std::string_view parent) {
  std::ranges::sort(names);
  std::map<std::string, std::string> seen;
  for (const auto& name : names) {
    require_class_name(name, "image_files", parent);
    const auto [other, is_new] = seen.emplace(composed(name, UTF8PROC_CASEFOLD), name);
    require(
        is_new,
        "[image_files] {}: needs class names that differ by more than case, received {} and {}{}",
        parent,
        other->second,
        name,
        is_new ? "" : accents_remark({other->second, name}));
  }
  if (expected.empty()) return names;
  auto sorted = expected;
  std::ranges::sort(sorted);
  std::vector<std::string> odd;
  std::ranges::set_symmetric_difference(names, sorted, std::back_inserter(odd));
  require(odd.empty(),
          "[image_files] {}: needs the training set's {} classes, received {} classes; only one of "
          "the two sets has {}{}",
          parent,
          expected.size(),
          names.size(),
          odd.empty() ? "" : odd.front(),
          accents_remark(odd));
  return expected;
}

bool has_other_digits_alone(std::string_view text) {
  bool digits = false;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = std::ssize(text); left > 0;) {
    utf8proc_int32_t letter = 0;
    const auto size = utf8proc_iterate(at, left, &letter);
    if (size <= 0) return false;  // no UTF-8, which is refused where names are read
    const auto category = utf8proc_category(letter);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return false;
    digits = digits || (category == UTF8PROC_CATEGORY_ND && letter > '9');
    at += size;
    left -= size;
  }
  return digits;
}

fs::path class_names_file(const fs::path& folder) {
  for (const auto* name : class_names_files) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return {};
}

std::vector<std::string> parse_class_names(std::string_view text, const std::string& file) {
  std::vector<std::string> names;
  std::map<std::string, std::string> seen;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto where = formatted("{}:{}", file, number);
    const auto name = name_in(line, names.size(), where);
    require_class_name(name, "labels", where);
    const auto [other, is_new] = seen.emplace(composed(name), name);
    require_environment(is_new,
                        "[labels] {}: needs a different name for each class, received {} twice{}",
                        where,
                        name,
                        is_new ? "" : accents_remark({other->second, std::string(name)}));
    names.emplace_back(name);
  });
  return names;
}

std::vector<std::string> read_class_names(const fs::path& file) {
  return parse_class_names(read_text(file, "labels"), path_text(file));
}

std::map<std::string, std::int32_t, std::less<>> labels_of(const std::vector<std::string>& names) {
  std::map<std::string, std::int32_t, std::less<>> labels;
  for (const auto& name : names) labels.emplace(name, labels.size());
  return labels;
}

void require_one_naming(const fs::path& file, const std::vector<std::string>& names) {
  for (const auto* name : class_names_files) {
    const auto other = file.parent_path() / name;
    if (other == file || !fs::is_regular_file(other)) continue;
    const auto others = read_class_names(other);
    const auto at = std::ranges::mismatch(names, others).in1 - names.begin();
    const auto text = [&](const auto& list) {
      return at < std::ssize(list) ? list[at] : "no more";
    };
    require(names == others,
            "[labels] {} and {} name different classes: label {} is {} in the first, {} in the "
            "second; keep one of the files",
            file,
            other,
            at,
            text(names),
            text(others));
  }
}

void require_same_names(const std::vector<std::string>& names,
                        const std::vector<std::string>& expected,
                        const fs::path& file) {
  const auto [own, theirs] = std::ranges::mismatch(names, expected);
  const auto text = [](const auto& list, auto at) { return at == list.end() ? "no more" : *at; };
  require(names == expected,
          "[labels] {}: needs the training set's {} class names in their order, received {}; label "
          "{} is {} there, {} here",
          file,
          expected.size(),
          names.size(),
          own - names.begin(),
          text(expected, theirs),
          text(names, own));
}

}  // namespace dimred::data
