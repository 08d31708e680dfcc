#include "checkpoints/name_pattern.h"

#include <algorithm>
#include <charconv>

#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

std::regex compiled(std::string_view text, std::string_view place) {
  try {
    return std::regex(text.begin(), text.end(), std::regex::ECMAScript);
  } catch (const std::regex_error&) {
    refuse("{}: needs a regular expression of ECMAScript, received \"{}\"", place, printable(text));
  }
}

bool is_decimal(char letter) { return letter >= '0' && letter <= '9'; }

/// A pathological expression, which the library gives up.
[[noreturn]] void refuse_search(const NamePattern& pattern, const std::string& name) {
  refuse("{}: \"{}\" takes too long to match the name \"{}\"",
         pattern.place(),
         printable(pattern.text()),
         printable(name));
}

/// The library searches by recursion, whose depth grows with the name.
void require_short(const NamePattern& pattern, const std::string& name) {
  constexpr std::size_t longest = 4096;
  require(name.size() <= longest,
          "{}: needs names of at most {} bytes, received {} bytes: \"{}...\"",
          pattern.place(),
          longest,
          name.size(),
          printable(name.substr(0, 40)));
}

}  // namespace

std::pair<std::string, std::string> split_line(std::string_view line,
                                               std::string_view separator,
                                               std::string_view place) {
  const auto whole = std::string(line) + ' ';  // an editor may have cut it: nothing follows
  const auto at = whole.rfind(separator);
  const auto before = at == whole.npos ? std::string() : std::string(trimmed(whole.substr(0, at)));
  require(
      !before.empty(), "{}: needs REGEX{}..., received \"{}\"", place, separator, printable(line));
  return {before, std::string(trimmed(whole.substr(at + separator.size())))};
}

NamePattern::NamePattern(std::string_view text, std::string place)
    : text_(text), place_(std::move(place)), expression_(compiled(text, place_)) {}

bool NamePattern::searches(const std::string& name) const {
  require_short(*this, name);
  try {
    return std::regex_search(name, expression_);
  } catch (const std::regex_error&) {
    refuse_search(*this, name);
  }
}

NameChoice::NameChoice(const std::string& include, const std::string& exclude) {
  if (!include.empty()) include_.emplace(include, "--include");
  if (!exclude.empty()) exclude_.emplace(exclude, "--exclude");
}

bool NameChoice::takes(const std::string& name) const {
  return (!include_ || include_->searches(name)) && !(exclude_ && exclude_->searches(name));
}

NameReplacement::NameReplacement(NamePattern pattern, std::string_view text)
    : pattern_(std::move(pattern)) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      at = read_escape(text, at + 1);
    } else {
      add_text(text[at]);
      ++at;
    }
  }
}

/// Returns the place behind an escape whose backslash stands before `at`.
std::size_t NameReplacement::read_escape(std::string_view text, std::size_t at) {
  const auto rest = text.substr(at);
  if (rest.starts_with('\\')) {
    add_text('\\');
    return at + 1;
  }
  if (const auto close = rest.find('>'); rest.starts_with("g<") && close != rest.npos) {
    add_group(rest.substr(2, close - 2));
    return at + close + 1;
  }
  require(!rest.empty() && is_decimal(rest[0]) && rest[0] != '0',
          "{}: needs \\1 to \\99, \\g<NUMBER> or \\\\ in the replacement, received \"{}\"",
          pattern_.place(),
          printable(text));
  const std::size_t size = rest.size() > 1 && is_decimal(rest[1]) ? 2 : 1;
  add_group(rest.substr(0, size));
  return at + size;
}

void NameReplacement::add_group(std::string_view digits) {
  std::size_t group = 0;
  const std::string text(digits);
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, group);
  const auto groups = pattern_.expression_.mark_count();
  require(read.ec == std::errc() && read.ptr == end && group <= groups,
          "{}: the text needs a group from 0 to {}, received \"{}\"",
          pattern_.place(),
          groups,
          printable(digits));
  pieces_.push_back({{}, group, true});
}

void NameReplacement::add_text(char letter) {
  if (pieces_.empty() || pieces_.back().is_group) pieces_.emplace_back();
  pieces_.back().text += letter;
}

std::string NameReplacement::replaced(const std::string& name) const {
  require_short(pattern_, name);
  std::string result;
  auto last = name.begin();
  try {
    const std::sregex_iterator begin(name.begin(), name.end(), pattern_.expression_);
    for (auto match = begin; match != std::sregex_iterator(); ++match) {
      result.append(last, (*match)[0].first);
      for (const auto& piece : pieces_)
        result += piece.is_group ? (*match)[piece.group].str() : piece.text;
      last = (*match)[0].second;
    }
  } catch (const std::regex_error&) {
    refuse_search(pattern_, name);
  }
  return result.append(last, name.end());
}

}  // namespace dimred::checkpoints
