#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/text.h"

namespace dimred::data {

/// The class names in their order: `expected` when given, else by bytes. Throws
/// std::invalid_argument for names that differ in case or in how their accents are written (NFC or
/// NFD) alone, or others than expected;
/// std::runtime_error for names that are not UTF-8 or hold control characters. `parent` names the
/// folder or list in messages.
std::vector<std::string> ordered_classes(std::vector<std::string> names,
                                         const std::vector<std::string>& expected,
                                         std::string_view parent);

/// The names in labels.txt, in order: a name a line, or "7:name", blanks around either left out.
/// Throws std::runtime_error("[labels] file:line: rule") when a number is not its line's, or a name
/// stands there twice (in NFC), is not UTF-8 or holds control characters.
std::vector<std::string> read_class_names(const std::filesystem::path& file);

/// Parses such a file's text; `file` names it in messages.
std::vector<std::string> parse_class_names(std::string_view text, const std::string& file);

/// Returns whether a text has digits other than 0 to 9 (full-width ones, raised ones, halves) and
/// no letter: it looks like a number and would be read as a name.
bool has_other_digits_alone(std::string_view text);

/// Returns the text without what surrounds it unseen: blanks of any kind, zero-width ones and marks
/// of the writing direction.
std::string_view without_blanks(std::string_view text);

/// Returns the text without what surrounds it: unseen as above, quotes of any kind, brackets, and
/// the comma or semicolon of a table.
std::string_view without_quotes(std::string_view text);

/// Returns whether the text has a letter of any script.
bool has_letter(std::string_view text);

/// Returns labels.txt and classes.txt beside `list`, where they exist; the list itself is neither.
std::vector<std::filesystem::path> class_names_files(const std::filesystem::path& list);

/// The label of each class.
std::map<std::string, std::int32_t, std::less<>> labels_of(const std::vector<std::string>& names);

/// Throws std::invalid_argument where one of `files` names other classes than `names`, those of the
/// first file.
void require_one_naming(const std::vector<std::filesystem::path>& files,
                        const std::vector<std::string>& names);

/// Throws std::invalid_argument naming the first difference unless a test set's own names, read
/// from `file`, are those of the training set, in their order.
void require_same_names(const std::vector<std::string>& names,
                        const std::vector<std::string>& expected,
                        const std::filesystem::path& file);

/// Throws std::runtime_error("[scope] where: ...") unless the name is UTF-8 without control
/// characters: what else could not be told apart in a list, or would reach a terminal.
void require_class_name(std::string_view name, const char* scope, std::string_view where);

/// Calls take(line, number) for each line of the text (ended by LF, CR LF or CR) that holds more
/// than blanks, without those around it.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  std::int64_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of("\r\n"), text.size());
    const auto line = trimmed(text.substr(0, end));
    const std::size_t ending = text.substr(end).starts_with("\r\n") ? 2 : 1;
    text.remove_prefix(std::min(end + ending, text.size()));
    ++number;
    if (!line.empty()) take(line, number);
  }
}

}  // namespace dimred::data
