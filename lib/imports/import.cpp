#include "imports/import.h"

#include <algorithm>

#include "options/option_values.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::imports {
namespace {

std::string shown(const ImportedKey& line) {
  return formatted("{}={}", line.key, line.value.empty() ? "" : printable(line.value));
}

std::string settings_text(const ImportedKey& line) {
  return joined(line.settings, ", ", [](const auto& setting) {
    const auto& [name, value] = setting;
    return formatted("{} = {}", name, value.empty() ? "\"\"" : value);
  });
}

std::string answer_text(const ImportedKey& line) {
  const auto with_reason = [&](const std::string& answer) {
    return line.text.empty() ? answer : formatted("{}: {}", answer, line.text);
  };
  switch (line.answer) {
    case Answer::mapped:
      return with_reason(settings_text(line));
    case Answer::no_effect:
      return with_reason("no effect");
    case Answer::refused:
      return formatted("{}{}",
                       with_reason("refused"),
                       line.instead.empty() ? "" : formatted("; instead: --{}", line.instead));
  }
  return {};
}

std::string row(const ImportedKey& line, std::size_t width) {
  const auto key = shown(line);
  return formatted("  {}{}{}\n",
                   key,
                   std::string(std::max(width, key.size() + 2) - key.size(), ' '),
                   answer_text(line));
}

}  // namespace

void ImportedKey::map(std::vector<Setting> to, std::string why) {
  answer = Answer::mapped;
  settings = std::move(to);
  text = std::move(why);
}

void ImportedKey::refuse(std::string why, std::string remedy) {
  answer = Answer::refused;
  text = std::move(why);
  instead = std::move(remedy);
}

std::vector<ConfigEntry> entries_of(const Import& import) {
  std::vector<ConfigEntry> entries;
  for (const auto& line : import.lines) {
    for (const auto& [name, value] : line.settings)
      entries.push_back({.name = name, .text = value, .source = line.source});
  }
  return entries;
}

void require_overridden(const Import& import, const std::function<bool(std::string_view)>& is_set) {
  for (const auto& line : import.lines) {
    if (line.answer != Answer::refused) continue;
    if (!line.instead.empty() && is_set(line.instead)) continue;
    refuse("{}: {}: {}", line.source, shown(line), answer_text(line));
  }
}

std::string describe(const Import& import) {
  constexpr std::size_t widest = 44;
  std::size_t width = 0;
  for (const auto& line : import.lines) width = std::max(width, shown(line).size() + 2);
  width = std::min(width, widest);
  std::string given, defaults;
  for (const auto& line : import.lines) {
    if (line.given) given += row(line, width);
    if (!line.given && line.answer == Answer::mapped) defaults += row(line, width);
  }
  return formatted("{} for dimred {}\n{}{}{}",
                   import.title,
                   import.command,
                   given,
                   defaults.empty() ? "" : "defaults for keys that are not in the file:\n",
                   defaults);
}

std::vector<std::string> remarks(const Import& import) {
  std::vector<std::string> lines;
  for (const auto& line : import.lines) {
    if (line.given && !line.text.empty())
      lines.push_back(formatted("{}: {}", shown(line), answer_text(line)));
  }
  return lines;
}

std::string to_toml(const Import& import) {
  std::string text = formatted("# {}, as options of dimred {}\n", import.title, import.command);
  for (const auto& line : import.lines) {
    for (const auto& [name, value] : line.settings) {
      const bool number = value.find_first_not_of("0123456789.+-e") == std::string::npos &&
                          value.find_first_of("0123456789") != std::string::npos;
      const bool bare = number || value == "true" || value == "false";
      text += formatted("{} = {}\n", name, bare ? value : toml_string(value));
    }
  }
  return text;
}

}  // namespace dimred::imports
