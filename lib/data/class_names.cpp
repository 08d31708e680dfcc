#include "data/class_names.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <ranges>
#include <string_view>

#include "data/read_file.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/utf8.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array class_names_file_names{"labels.txt", "classes.txt"};

/// The name of a line; `number` is how many stand before it.
std::string_view name_in(std::string_view line, std::size_t number, const std::string& where) {
  const auto digits = line.find_first_not_of("0123456789");
  if (digits == std::string_view::npos || digits == 0 || line[digits] != ':') return line;
  require_environment(line.substr(0, digits) == std::to_string(number),
                      "[labels] {}: needs the line \"{}:NAME\", received {}",
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

struct Letter {
  utf8proc_int32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8, which is refused where names are read
};

Letter first_letter(std::string_view text) {
  Letter letter;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = utf8proc_iterate(at, std::ssize(text), &letter.code);
  if (size > 0) letter.bytes = static_cast<std::size_t>(size);
  return letter;
}

Letter last_letter(std::string_view text) {
  auto begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const auto letter = first_letter(text.substr(begin));
  return begin + letter.bytes == text.size() ? letter : Letter{};
}

template <class Is>
std::string_view without_ends(std::string_view text, const Is& is) {
  while (!text.empty()) {
    const auto first = first_letter(text);
    if (first.bytes == 0 || !is(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (!text.empty()) {
    const auto last = last_letter(text);
    if (last.bytes == 0 || !is(last.code)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

bool is_blank(utf8proc_int32_t code) {
  constexpr std::u32string_view unseen =
      U"\t\v\f\u061C\u180E\u200B\u200E\u200F\u202A\u202B\u202C"
      U"\u202D\u202E\u2060\u2066\u2067\u2068\u2069\uFEFF";
  const auto category = utf8proc_category(code);
  return (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP) ||
         unseen.find(static_cast<char32_t>(code)) != unseen.npos;
}

bool is_quote(utf8proc_int32_t code) {
  constexpr std::u32string_view others =
      U"\"'`\u00B4\u02B9\u02BA\u2032\u2033\u301D\u301E\u301F"
      U"\uFF02\uFF07,;()[]{}";
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_PI || category == UTF8PROC_CATEGORY_PF ||
         (category == UTF8PROC_CATEGORY_PS && code > 0x7F) ||
         (category == UTF8PROC_CATEGORY_PE && code > 0x7F) ||
         others.find(static_cast<char32_t>(code)) != others.npos;
}

/// Returns a remark on two names that differ only in how their accents are written.
std::string accents_remark(const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;
  for (const auto& name : names) {
    const auto [other, is_new] = seen.emplace(composed(name), name);
    if (!is_new && other->second != name)
      return formatted(
          " (the two names look the same, but one is in Unicode NFD and the other in NFC; rename "
          "{})",
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
    require(is_new,
            "[image_files] {}: needs class names that differ in more than upper and lower case, "
            "received {} and {}{}",
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
          "[image_files] {}: needs the same {} classes as the training set, received {} classes; "
          "only one of the two sets has {}{}",
          parent,
          expected.size(),
          names.size(),
          odd.empty() ? "" : odd.front(),
          accents_remark(odd));
  return expected;
}

bool has_letter(std::string_view text) {
  while (!text.empty()) {
    const auto letter = first_letter(text);
    if (letter.bytes == 0) return true;
    const auto category = utf8proc_category(letter.code);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return true;
    text.remove_prefix(letter.bytes);
  }
  return false;
}

bool has_other_digits_alone(std::string_view text) {
  if (has_letter(text)) return false;
  bool digits = false;
  while (!text.empty() && !digits) {
    const auto letter = first_letter(text);
    const auto category = utf8proc_category(letter.code);
    digits =
        category == UTF8PROC_CATEGORY_NO || (category == UTF8PROC_CATEGORY_ND && letter.code > '9');
    text.remove_prefix(letter.bytes);
  }
  return digits;
}

std::string_view without_blanks(std::string_view text) { return without_ends(text, is_blank); }

std::string_view without_quotes(std::string_view text) {
  return without_ends(text, [](auto code) { return is_blank(code) || is_quote(code); });
}

std::vector<fs::path> class_names_files(const fs::path& list) {
  std::vector<fs::path> files;
  for (const auto* name : class_names_file_names) {
    auto file = list.parent_path() / name;
    if (file != list && fs::is_regular_file(file)) files.push_back(std::move(file));
  }
  return files;
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

void require_one_naming(const std::vector<fs::path>& files, const std::vector<std::string>& names) {
  for (const auto& other : files | std::views::drop(1)) {
    const auto others = read_class_names(other);
    const auto at = std::ranges::mismatch(names, others).in1 - names.begin();
    const auto text = [&](const auto& list) {
      return at < std::ssize(list) ? list[at] : "missing";
    };
    require(names == others,
            "[labels] {} and {} name different classes: label {} is {} in the first file and {} in "
            "the second; keep one of the files",
            files.front(),
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
  const auto text = [](const auto& list, auto at) { return at == list.end() ? "missing" : *at; };
  require(names == expected,
          "[labels] {}: needs the same {} class names in the same order as the training set, "
          "received {} names; label {} is {} in the training set and {} in this file",
          file,
          expected.size(),
          names.size(),
          own - names.begin(),
          text(expected, theirs),
          text(names, own));
}

}  // namespace dimred::data
