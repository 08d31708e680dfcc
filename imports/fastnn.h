#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "imports/import.h"

// The keys of FastNN's flags.py; shared by the files fastnn*.cpp alone.
namespace dimred::imports::fastnn {

/// The file's values by key, FastNN's defaults where it has none; "" is None.
using Values = std::map<std::string, std::string, std::less<>>;

enum class Type { text, integer, number, boolean };

/// A flag of FastNN's, its default, and what becomes of it. `answer` fills answer, settings, text
/// and instead of the line, whose key and value are set.
struct Key {
  std::string name;
  Type type = Type::text;
  std::string fallback;  // FastNN's default; empty: None
  std::function<void(Line&, const Values&)> answer;
};

using Answerer = std::function<void(Line&, const Values&)>;
Answerer as(std::string name);   // the same thing under this name
Answerer none(std::string why);  // no effect
/// As `as` where the file gives the key; its system's default is for other machines: no effect.
Answerer if_given(std::string name, std::string why);
Answerer only(std::string value, std::string why, std::string instead = {});  // else refused
Answerer unless_empty(std::string why, std::string instead = {});  // refused as soon as given
/// A folder of ours under this name, refused with the remedy where it lies in an object store.
Answerer local_folder(std::string name, std::string remedy);

// The keys of one theme each.
std::vector<Key> machine_keys();
std::vector<Key> data_keys();
std::vector<Key> model_keys();
std::vector<Key> schedule_keys();
std::vector<Key> optimizer_keys();
std::vector<Key> run_keys();

/// True when the hook is in the list of hooks, in any case of letters.
bool has_hook(const Values& values, std::string_view name);

}  // namespace dimred::imports::fastnn
