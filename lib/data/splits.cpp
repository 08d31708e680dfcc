#include "data/splits.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <system_error>

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

/// path/NAME`ending` for the first of split_names that `is_there` holds for, in one of its forms.
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

}  // namespace

const std::vector<std::string>& split_names(bool train) {
  static const std::vector<std::string> of_train = {"train", "training"};
  static const std::vector<std::string> of_test = {
      "test", "testing", "val", "valid", "validation", "validation_preprocess", "eval"};
  return train ? of_train : of_test;
}

NamedSplits splits_named_in(std::string_view name) {
  const auto words = words_of(name);
  const auto said = [&](bool train) {
    return std::ranges::find_first_of(split_names(train), words) - split_names(train).begin();
  };
  const auto test_name = said(false);
  return {.train = said(true) < std::ssize(split_names(true)),
          .test = test_name < std::ssize(split_names(false)),
          .test_name = static_cast<std::size_t>(test_name)};
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

std::vector<fs::path> first_files(const fs::directory_iterator& folder) {
  constexpr std::size_t most = 16;
  std::map<std::string, std::set<fs::path>> kinds;
  std::error_code none;
  for (const auto& item : folder) {
    if (!item.is_regular_file(none)) continue;
    auto kind = lower_case(item.path().extension().string());
    std::erase_if(kind, is_digit);
    auto& files = kinds[std::move(kind)];
    if (files.size() == most && *files.rbegin() < item.path()) continue;
    files.insert(item.path());
    if (files.size() > most) files.erase(std::prev(files.end()));
  }
  std::vector<fs::path> all;
  for (const auto& [kind, files] : kinds) all.insert(all.end(), files.begin(), files.end());
  return all;
}

bool holds_a_file(const fs::path& path, bool (*is)(const fs::path&)) {
  return std::ranges::any_of(std::array{path, split_folder(path, true), split_folder(path, false)},
                             [&](const auto& folder) {
                               return fs::is_directory(folder) &&
                                      std::ranges::any_of(
                                          first_files(fs::directory_iterator(folder)), is);
                             });
}

const char* split_text(bool train) { return train ? "training" : "test"; }

const char* split_option(bool train) { return train ? "data" : "test_data"; }

}  // namespace dimred::data
