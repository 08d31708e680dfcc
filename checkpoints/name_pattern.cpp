#include "checkpoints/name_pattern.h"

#include <algorithm>

#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::checkpoints {
namespace {

/// Returns the first escape of a letter that has no meaning in ECMAScript's syntax, and would stand
/// for the letter itself, as those of Python for the ends of a text; empty if there is none.
std::string_view unknown_escape(std::string_view text) {
  constexpr std::string_view known = "bBdDsSwWfnrtvcxu";
  const auto is_ascii_letter = [](char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  };
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at + 2)) {
    if (at + 1 == text.size()) break;
    if (is_ascii_letter(text[at + 1]) && known.find(text[at + 1]) == known.npos)
      return text.substr(at, 2);
  }
  return {};
}

std::wregex compiled(std::string_view text, std::string_view place) {
  const auto unknown = unknown_escape(text);
  require(
      unknown.empty(),
      "{}: needs a regular expression in ECMAScript syntax, in which {} has no meaning, received "
      "\"{}\"; ^ stands for the beginning of a name, and $ for the end",
      place,
      unknown,
      printable(text));
  try {
    return std::wregex(code_points(text), std::regex::ECMAScript);
  } catch (const std::regex_error&) {
    refuse("{}: needs a regular expression in ECMAScript syntax, received \"{}\"",
           place,
           printable(text));
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char byte) { return byte >= 0x80; });
}

/// An expression that compiled() takes, over bytes; none where it may name letters that are no
/// ASCII: \x and \u are cut to a byte.
std::optional<std::regex> compiled_for_bytes(const std::string& text) {
  if (!is_ascii(text) || text.find("\\x") != text.npos || text.find("\\u") != text.npos) return {};
  return std::regex(text, std::regex::ECMAScript);
}

std::string utf8_of(std::string_view bytes) { return std::string(bytes); }

std::string utf8_of(std::wstring_view points) { return text_of_code_points(points); }

/// A place in a name, which counts the steps of a search: the library backtracks without bound.
template <class Iterator>
class Metered {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = typename Iterator::value_type;
  using difference_type = typename Iterator::difference_type;
  using pointer = typename Iterator::pointer;
  using reference = typename Iterator::reference;

  Metered() = default;
  Metered(Iterator at, std::int64_t* left) : at_(at), left_(left) {}

  reference operator*() const { return *at_; }
  Metered& operator++() {
    if (--*left_ < 0) throw std::regex_error(std::regex_constants::error_complexity);
    ++at_;
    return *this;
  }
  Metered operator++(int) {
    const auto before = *this;
    ++*this;
    return before;
  }
  Metered& operator--() {
    --at_;
    return *this;
  }
  Metered operator--(int) {
    const auto before = *this;
    --*this;
    return before;
  }
  bool operator==(const Metered& other) const { return at_ == other.at_; }
  Iterator base() const { return at_; }

 private:
  Iterator at_ = {};
  std::int64_t* left_ = nullptr;
};

/// Steps of the search of one name: a fifth of a second.
constexpr std::int64_t most_steps = 10'000'000;

template <class Text>
bool searched_in(const Text& name, const std::basic_regex<typename Text::value_type>& expression) {
  auto left = most_steps;
  return std::regex_search(Metered(name.begin(), &left), Metered(name.end(), &left), expression);
}

/// An expression that backtracks too often, or whose search the library gives up.
[[noreturn]] void refuse_search(const NamePattern& pattern, const std::string& name) {
  refuse("{}: \"{}\" takes too long to match the name \"{}\"; give a simpler expression",
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
    : text_(text),
      place_(std::move(place)),
      expression_(compiled(text, place_)),
      bytes_(compiled_for_bytes(text_)) {}

bool NamePattern::searches(const std::string& name) const {
  require_short(*this, name);
  try {
    if (bytes_ && is_ascii(name)) return searched_in(name, *bytes_);
    return searched_in(code_points(name), expression_);
  } catch (const std::regex_error&) {
    refuse_search(*this, name);
  }
}

NameChoice::NameChoice(const std::string& include, const std::string& exclude) {
  if (!include.empty()) include_.emplace(include, "--include");
  if (!exclude.empty()) exclude_.emplace(exclude, "--exclude");
}

bool NameChoice::takes(const std::string& name) {
  if (include_ && !include_->searches(name)) return false;
  const bool excluded = exclude_ && exclude_->searches(name);
  excludes_ = excludes_ || excluded;
  return !excluded;
}

std::string NameChoice::remark() const {
  if (!exclude_ || excludes_) return {};
  return formatted("{}: \"{}\" excludes no tensor", exclude_->place(), printable(exclude_->text()));
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
  require(!rest.empty() && is_digit(rest[0]) && rest[0] != '0',
          "{}: the replacement \"{}\" has backslashes outside \\1 to \\99, \\g<NUMBER> and \\\\",
          pattern_.place(),
          printable(text));
  const std::size_t size = rest.size() > 1 && is_digit(rest[1]) ? 2 : 1;
  add_group(rest.substr(0, size));
  return at + size;
}

void NameReplacement::add_group(std::string_view digits) {
  const auto group = number_in<std::size_t>(digits);
  const auto groups = pattern_.expression_.mark_count();
  require(group && *group <= groups,
          "{}: the replacement needs group numbers from 0 to {}, received \"{}\"",
          pattern_.place(),
          groups,
          printable(digits));
  pieces_.push_back({{}, *group, true});
}

void NameReplacement::add_text(char letter) {
  if (pieces_.empty() || pieces_.back().is_group) pieces_.emplace_back();
  pieces_.back().text += letter;
}

template <class Text>
std::string NameReplacement::replaced_in(
    const Text& name, const std::basic_regex<typename Text::value_type>& expression) const {
  using View = std::basic_string_view<typename Text::value_type>;
  using Matches = std::regex_iterator<Metered<typename Text::const_iterator>>;
  auto left = most_steps;
  const Metered begin(name.begin(), &left), end(name.end(), &left);
  std::string result;
  auto last = name.begin();
  for (Matches match(begin, end, expression); match != Matches(); ++match) {
    result += utf8_of(View(last, (*match)[0].first.base()));
    for (const auto& piece : pieces_)
      result += piece.is_group ? utf8_of(View((*match)[piece.group].str())) : piece.text;
    last = (*match)[0].second.base();
  }
  return result + utf8_of(View(last, name.end()));
}

std::string NameReplacement::replaced(const std::string& name) const {
  require_short(pattern_, name);
  try {
    if (pattern_.bytes_ && is_ascii(name)) return replaced_in(name, *pattern_.bytes_);
    return replaced_in(code_points(name), pattern_.expression_);
  } catch (const std::regex_error&) {
    refuse_search(pattern_, name);
  }
}

}  // namespace dimred::checkpoints
