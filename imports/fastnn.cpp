#include "imports/fastnn.h"

#include <algorithm>
#include <optional>
#include <set>

#include "support/errors.h"
#include "support/option_values.h"
#include "support/options.h"

namespace dimred::imports {
namespace fastnn {

Answerer as(std::string name) {
  return [name = std::move(name)](Line& line, const Values&) {
    line.answer = Answer::mapped;
    line.settings = {{name, line.value}};
  };
}

Answerer none(std::string why) {
  return [why = std::move(why)](Line& line, const Values&) {
    line.answer = Answer::no_effect;
    line.text = why;
  };
}

Answerer if_given(std::string name, std::string why) {
  return [name = std::move(name), why = std::move(why)](Line& line, const Values& values) {
    (line.given ? as(name) : none(why))(line, values);
  };
}

Answerer only(std::string value, std::string why, std::string instead) {
  return [value = std::move(value), why = std::move(why), instead = std::move(instead)](
             Line& line, const Values&) {
    line.answer = line.value == value ? Answer::no_effect : Answer::refused;
    if (line.answer == Answer::refused) line.text = why;
    if (line.answer == Answer::refused) line.instead = instead;
  };
}

Answerer unless_empty(std::string why, std::string instead) {
  return only("", std::move(why), std::move(instead));
}

namespace {

/// Of the places that options of ours may name by a URL (docs/reference/stores.md).
bool is_store(std::string_view scheme) {
  constexpr std::string_view stores[] = {"hdfs", "s3", "gs", "http", "https", "file"};
  return std::ranges::find(stores, scheme) != std::end(stores);
}

}  // namespace

Answerer local_folder(std::string name, std::string remedy) {
  return [name = std::move(name), remedy = std::move(remedy)](Line& line, const Values&) {
    if (line.value.empty()) return;
    const auto scheme_end = line.value.find("://");
    const bool remote =
        scheme_end != std::string::npos && !is_store(line.value.substr(0, scheme_end));
    line.answer = remote ? Answer::refused : Answer::mapped;
    if (!remote) line.settings = {{name, line.value}};
    if (remote) line.text = remedy;
    if (remote) line.instead = name;
  };
}

namespace {

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  for (const auto& part :
       {machine_keys(), data_keys(), model_keys(), schedule_keys(), optimizer_keys(), run_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

/// Alibaba's documentation spells enable_paisoar so.
constexpr std::string_view misspelt = "enable_paisora";

const Key* find(const std::vector<Key>& keys, std::string_view name) {
  const auto found =
      std::ranges::find(keys, name == misspelt ? "enable_paisoar" : name, &Key::name);
  return found == keys.end() ? nullptr : &*found;
}

const Key& known(const std::vector<Key>& keys, const ConfigEntry& entry) {
  if (const auto* key = find(keys, entry.name)) return *key;
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const auto& key : keys) names.push_back(key.name);
  const auto near = nearest(entry.name, names);
  throw std::invalid_argument(formatted("{}: {}: not a flag of FastNN's{}",
                                        entry.source,
                                        printable(entry.name),
                                        near ? formatted("; did you mean {}?", *near) : ""));
}

/// The value in our spelling: true / false, and a number that our options will read.
std::string checked(const Key& key, const ConfigEntry& entry) {
  try {
    switch (key.type) {
      case Type::integer:
        return std::to_string(parse_integer(entry.text, {}));
      case Type::number:
        return number_text(parse_number(entry.text, {}));
      case Type::boolean:
        return parse_boolean(entry.text) ? "true" : "false";
      case Type::text:
        return parse_text(entry.text);
    }
  } catch (const std::invalid_argument& rule) {
    throw std::invalid_argument(formatted(
        "{}: {}: {}, received {}", entry.source, entry.name, rule.what(), printable(entry.text)));
  }
  return {};
}

struct Given {
  const Key* key;
  ConfigEntry entry;
  std::string value;
};

/// The file's lines, checked; None is as if the key were not there.
std::vector<Given> read_given(const std::vector<Key>& keys, const std::filesystem::path& file) {
  std::vector<Given> given;
  std::set<std::string> seen;
  for (auto& entry : read_config_file(file)) {
    const auto& key = known(keys, entry);
    require(seen.insert(key.name).second, "[fastnn] {}: {}: given twice", entry.source, key.name);
    auto value = entry.text == "None" ? key.fallback : checked(key, entry);
    given.push_back({&key, std::move(entry), std::move(value)});
  }
  return given;
}

}  // namespace
}  // namespace fastnn

Import read_fastnn(const std::filesystem::path& file) {
  const auto keys = fastnn::all_keys();
  const auto given = fastnn::read_given(keys, file);
  fastnn::Values values;
  for (const auto& key : keys) values[key.name] = key.fallback;
  for (const auto& [key, entry, value] : given) values[key->name] = value;

  Import import{.title = formatted("{}: FastNN hyper-parameters", file.string()),
                .command = "stage1"};
  std::set<std::string> reported;
  for (const auto& [key, entry, value] : given) {
    Line line{.source = entry.source, .key = entry.name, .value = value};
    key->answer(line, values);
    if (entry.name == fastnn::misspelt)
      line.text = formatted("read as enable_paisoar, which FastNN's documentation misspells so; {}",
                            line.text);
    line.value = entry.text;  // as the file has it
    if (entry.text == "None" && line.text.empty()) line.text = "as if not given";
    reported.insert(key->name);
    import.lines.push_back(std::move(line));
  }
  for (const auto& key : keys) {
    if (reported.contains(key.name)) continue;
    Line line{.source = file.string(), .key = key.name, .value = key.fallback, .given = false};
    key.answer(line, values);
    import.lines.push_back(std::move(line));
  }
  return import;
}

}  // namespace dimred::imports
