#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "options/options_file.h"

// Other systems' configuration files, read line by line: each key becomes options of ours, or is
// said to have no effect here, or is refused, always by name and with the reason.
namespace dimred::imports {

enum class Answer { mapped, no_effect, refused };

/// An option of ours and its value as a flag would give it.
struct Setting {
  std::string name;
  std::string value;
};

/// One key of a foreign file, or (`given` false) one that it leaves at its system's default.
struct ImportedKey {
  std::string source;  // "file:3:1"; of a default the file's name
  std::string key;
  std::string value;
  bool given = true;
  Answer answer = Answer::no_effect;
  std::vector<Setting> settings = {};  // when mapped
  std::string text = {};               // why, or what to do instead; may be empty when mapped
  std::string instead =
      {};  // when refused: our option that overrides it where it is given as a flag

  void map(std::vector<Setting> to, std::string why = {});
  void refuse(std::string why, std::string remedy = {});
};

struct Import {
  std::string title;    // "FastNN hyper-parameters"
  std::string command;  // the subcommand that the settings belong to
  std::vector<ImportedKey> lines;
};

/// The settings of all lines, in order, as a file of ours would hold them.
std::vector<ConfigEntry> entries_of(const Import& import);

/// Throws std::invalid_argument("place: key=value: why; instead ...") for the first refused line
/// whose `instead` is not among the options that `is_set` knows.
void require_overridden(const Import& import, const std::function<bool(std::string_view)>& is_set);

/// A line each: key=value, and what becomes of it; then the defaults that were added.
std::string describe(const Import& import);

/// The lines of `describe` that a run should show: what has no effect, and remarks.
std::vector<std::string> remarks(const Import& import);

/// The settings as a key = value file that --config reads.
std::string to_toml(const Import& import);

}  // namespace dimred::imports
