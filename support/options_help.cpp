#include <sstream>

#include "support/errors.h"
#include "support/options.h"

namespace dimred {
namespace {

constexpr std::size_t page_width = 100;
constexpr std::size_t help_column = 34;

std::string_view metavar(const Option& row) {
  switch (row.kind) {
    case OptionKind::integer:
      return " N";
    case OptionKind::number:
      return " X";
    case OptionKind::numbers:
      return " X,X,...";
    case OptionKind::boolean:
      return "";
    case OptionKind::path:
      return " PATH";
    case OptionKind::choice:
      return " NAME";
    case OptionKind::text:
      return " TEXT";
  }
  return "";
}

/// The default without TOML's trappings: 1 for 1.0, name for "name"; empty when there is none.
std::string plain_default(const Option& row) {
  auto text = row.default_value;
  if (text.empty()) return row.optional ? "unset" : "";
  if (text.front() == '"' || text.front() == '[') text = text.substr(1, text.size() - 2);
  if (row.kind == OptionKind::number && text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string suffix(const Option& row) {
  const auto value = plain_default(row);
  std::string text = row.limits;
  if (!value.empty()) text += (text.empty() ? "default " : "; default ") + value;
  return text.empty() ? text : " (" + text + ")";
}

/// The words of `text` from `column` on, wrapped before page_width; later lines start at `column`.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string out;
  std::size_t at = column;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (at != column && at + 1 + word.size() > page_width) {
      out += '\n';
      out.append(column, ' ');
      at = column;
    } else if (at != column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out;
}

/// `label`, then `text` at help_column: beside it where there is room, else below it.
std::string hanging(const std::string& label, const std::string& text) {
  std::string out = "  " + label;
  const bool beside = out.size() + 2 <= help_column;
  if (!beside) out += '\n';
  out.append(help_column - (beside ? out.size() : 0), ' ');
  return out + wrapped(text, help_column) + '\n';
}

std::string upper(std::string name) {
  for (auto& letter : name) letter = letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter;
  return name;
}

}  // namespace

std::string OptionTable::help() const {
  std::string out =
      formatted("{}\n\nusage: {}", wrapped(formatted("{}: {}", command_, summary_), 0), command_);
  for (const auto& row : rows_) {
    if (row.positional) out += ' ' + upper(row.name);
  }
  out += " [options]\n";
  const std::string* group = nullptr;
  for (const auto& row : rows_) {
    if (group == nullptr || *group != row.group) out += formatted("\n{}:\n", row.group);
    group = &row.group;
    out += hanging(formatted("--{}{}", row.name, metavar(row)), row.help + suffix(row));
  }
  out += "\nAlways:\n";
  out += hanging("--config PATH", config_.help);
  return out + hanging("--help", "this text");
}

std::string OptionTable::to_toml() const {
  std::string out =
      formatted("# Every option of this run; {} --config FILE repeats it.\n", command_);
  const std::string* group = nullptr;
  for (const auto& row : rows_) {
    const auto value = row.show();
    if (value.empty()) continue;
    if (group == nullptr || *group != row.group) out += formatted("\n# {}\n", row.group);
    group = &row.group;
    out += formatted("{} = {}\n", row.name, value);
  }
  return out;
}

std::map<std::string, std::string> OptionTable::defaults() const {
  std::map<std::string, std::string> result;
  for (const auto& row : rows_) result[row.name] = row.default_value;
  return result;
}

}  // namespace dimred
