#include "data/splits.h"

#include <algorithm>
#include <span>

#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

bool is_small(char letter) { return letter >= 'a' && letter <= 'z'; }
bool is_capital(char letter) { return letter >= 'A' && letter <= 'Z'; }

/// In small letters.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  char before = ' ';
  for (const char letter : name) {
    const bool is_letter = is_small(letter) || is_capital(letter);
    const bool was_letter = is_small(before) || is_capital(before);
    if (is_letter && (!was_letter || (is_small(before) && is_capital(letter))))
      words.emplace_back();
    if (is_letter) words.back() += lower_case({&letter, 1});
    before = letter;
  }
  return words;
}

std::string in_capitals(std::string name, std::size_t count) {
  for (auto& letter : std::span(name).first(std::min(count, name.size())))
    if (is_small(letter)) letter = static_cast<char>(letter - 'a' + 'A');
  return name;
}

}  // namespace

const std::vector<std::string>& split_names(bool train) {
  static const std::vector<std::string> of_train = {"train", "training"};
  static const std::vector<std::string> of_test = {
      "test", "testing", "val", "valid", "validation", "validation_preprocess", "eval"};
  return train ? of_train : of_test;
}

NamedSplits splits_named_in(std::string_view name) {
  const auto words = words_of(name);
  const auto says = [&](bool train) {
    return std::ranges::find_first_of(words, split_names(train)) != words.end();
  };
  return {.train = says(true), .test = says(false)};
}

fs::path split_entry(const fs::path& path,
                     bool train,
                     std::string_view ending,
                     bool (*is_there)(const fs::path&)) {
  for (const auto& name : split_names(train)) {
    fs::path found;
    for (const std::size_t capitals : {std::size_t{0}, std::size_t{1}, name.size()}) {
      const auto entry = path / (in_capitals(name, capitals) + std::string(ending));
      if (!is_there(entry)) continue;
      // A file system that does not tell capitals apart shows one entry under both names.
      require(found.empty() || fs::equivalent(found, entry),
              "[data] {} has both {} and {}; give one of them with --{}",
              path,
              found.filename(),
              entry.filename(),
              split_option(train));
      if (found.empty()) found = entry;
    }
    if (!found.empty()) return found;
  }
  return {};
}

fs::path split_folder(const fs::path& path, bool train) {
  return split_entry(
      path, train, "", [](const fs::path& entry) { return fs::is_directory(entry); });
}

fs::path split_file(const fs::path& path, bool train, std::string_view ending) {
  return split_entry(
      path, train, ending, [](const fs::path& entry) { return fs::is_regular_file(entry); });
}

fs::path folder_with(const std::string& name, const fs::path& path, bool train, bool itself) {
  if (itself && fs::is_regular_file(path / name)) return path;
  const auto folder = split_folder(path, train);
  return !folder.empty() && fs::is_regular_file(folder / name) ? folder : fs::path();
}

const char* split_text(bool train) { return train ? "training" : "test"; }

const char* split_option(bool train) { return train ? "data" : "test_data"; }

}  // namespace dimred::data
