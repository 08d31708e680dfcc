#pragma once

#include <cstddef>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Regular expressions over the names of tensors, ECMAScript's, with the meaning that Python's re
// gives them (re.ASCII): searched, and replaced everywhere.
namespace dimred::checkpoints {

/// Splits a line at the last `separator` (" -> ", ": "), whose sides lose outer blanks. Throws
/// std::invalid_argument("PLACE: ...") for a line without one or with nothing before it.
std::pair<std::string, std::string> split_line(std::string_view line,
                                               std::string_view separator,
                                               std::string_view place);

class NamePattern {
 public:
  /// `place` says where the text stands, for messages: "--include", "names.txt:3". Throws
  /// std::invalid_argument for what is no regular expression.
  NamePattern(std::string_view text, std::string place);

  /// Whether the expression matches somewhere in the name.
  bool searches(const std::string& name) const;

  const std::string& text() const { return text_; }
  const std::string& place() const { return place_; }

 private:
  friend class NameReplacement;
  std::string text_;
  std::string place_;
  std::wregex expression_;           // of code points: a match begins and ends between letters
  std::optional<std::regex> bytes_;  // the same for ASCII names, several times as fast
};

/// The names that --include keeps and --exclude does not drop; an empty text does neither.
class NameChoice {
 public:
  NameChoice(const std::string& include, const std::string& exclude);
  bool takes(const std::string& name);
  /// Says that --exclude has matched none of the names so far; else empty.
  std::string remark() const;

 private:
  std::optional<NamePattern> include_, exclude_;
  bool excludes_ = false;
};

/// A pattern and what takes the place of its matches.
class NameReplacement {
 public:
  /// `text`: as re.sub's, with \1 to \99 and \g<1> for groups, \g<0> for the match and \\ for a
  /// backslash. Throws std::invalid_argument for another escape and a group that is not there.
  NameReplacement(NamePattern pattern, std::string_view text);

  const NamePattern& pattern() const { return pattern_; }
  /// Returns the name with all its matches replaced; a group that took no part is empty.
  std::string replaced(const std::string& name) const;

 private:
  struct Piece {
    std::string text;
    std::size_t group = 0;
    bool is_group = false;
  };
  std::size_t read_escape(std::string_view text, std::size_t at);
  void add_group(std::string_view digits);
  void add_text(char letter);
  template <class Text>
  std::string replaced_in(const Text& name,
                          const std::basic_regex<typename Text::value_type>& expression) const;

  NamePattern pattern_;
  std::vector<Piece> pieces_;
};

}  // namespace dimred::checkpoints
