#include "checkpoints/side_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/file_names.h"
#include "checkpoints/lora_config.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/open_file.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// Texts, code, and models and codes of tokenizers.
bool is_side_file(const fs::path& file, bool of_adapter) {
  constexpr std::array<std::string_view, 27> endings{
      ".json", ".jsonl", ".rst", ".xml",   ".html", ".sh",    ".cpp", ".h",    ".cu",
      ".cuh",  ".codes", ".txt", ".model", ".py",   ".jinja", ".md",  ".yaml", ".yml",
      ".toml", ".cfg",   ".ini", ".csv",   ".tsv",  ".vocab", ".bpe", ".spm",  ".tiktoken"};
  constexpr std::array<std::string_view, 7> texts{
      "license", "licence", "notice", "readme", "copying", "vocab", "merges"};
  constexpr std::array<std::string_view, 4> records{// signature.json seals an export's own files
                                                    "trainer_state.json",
                                                    "merge.json",
                                                    "convert.json",
                                                    "signature.json"};
  const auto name = file.filename().string();
  const auto is_name = [&](std::string_view known) { return name == known; };
  if (name.starts_with('.') || name.ends_with(index_ending) ||
      std::ranges::any_of(records, is_name))
    return false;
  if (name == adapter_config_name) return of_adapter;
  const auto ending = lower_case(file.extension().string());
  const auto begins_it = [&](std::string_view text) { return lower_case(name).starts_with(text); };
  const bool tokenizer = name.starts_with("tokenizer.model.v");  // Mistral's, .v3
  return tokenizer || std::ranges::find(endings, ending) != endings.end() ||
         (ending.empty() && std::ranges::any_of(texts, begins_it));
}

std::string_view torch_name(std::string_view dtype) {
  if (dtype == "F32") return "float32";
  return dtype == "F16" ? "float16" : "bfloat16";
}

/// Sets the type that a configuration says, and that of its parts (text_config, vision_config);
/// false: none says any. The types in a quantisation's section stay.
bool set_dtype(nlohmann::ordered_json& config, std::string_view dtype) {
  bool said = false;
  if (!config.is_object()) return said;
  for (auto& [name, value] : config.items()) {
    const bool type = (name == "torch_dtype" || name == "dtype") && value.is_string();
    const bool part = name.ends_with("_config") && name != "quantization_config";
    if (type) value = torch_name(dtype);
    said |= type || (part && set_dtype(value, dtype));
  }
  return said;
}

/// Words that Python's json writes for numbers outside JSON.
constexpr std::array<std::string_view, 3> python_numbers{"-Infinity", "Infinity", "NaN"};

/// The length of the number with which a text begins; 0: it begins with none.
std::size_t number_length(std::string_view text) {
  for (const auto name : python_numbers)
    if (text.starts_with(name)) return name.size();
  std::size_t end = 0;
  const auto skip = [&](std::string_view letters) {
    const bool any = end < text.size() && letters.find(text[end]) != letters.npos;
    end += any ? 1 : 0;
    return any;
  };
  const auto skip_digits = [&] {
    const auto begin = end;
    end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    return end - begin;
  };
  skip("-");
  const bool zero = text.substr(end).starts_with('0');
  const auto digits = skip_digits();
  if (digits == 0 || (zero && digits > 1)) return 0;
  if (skip(".") && skip_digits() == 0) return 0;
  if (!skip("eE")) return end;
  skip("+-");
  return skip_digits() == 0 ? 0 : end;
}

/// The text with its numbers as strings that begin with `mark`: a reader of JSON rounds those
/// beyond 64 bits, and refuses Python's NaN and infinities.
std::string with_marked_numbers(std::string_view text, const std::string& mark) {
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto rest = text.substr(i);
    if (const auto number = in_string ? 0 : number_length(rest); number > 0) {
      result.append("\"").append(mark).append(rest.substr(0, number)).append("\"");
      i += number;
      continue;
    }
    const std::size_t taken = in_string && rest.starts_with('\\') ? 2 : 1;
    in_string ^= rest.starts_with('"');
    result += rest.substr(0, taken);
    i += taken;
  }
  return result;
}

/// The numbers of with_marked_numbers() as they were.
std::string with_plain_numbers(std::string_view text, const std::string& mark) {
  const auto begin = '"' + mark;
  std::string result;
  for (std::size_t at = 0;;) {
    const auto found = text.find(begin, at);
    result += text.substr(at, found - at);
    if (found == text.npos) return result;
    const auto number = found + begin.size(), end = text.find('"', number);
    result += text.substr(number, end - number);
    at = end + 1;
  }
}

/// Says that the head is no longer the embedding, also in the part that has the language model.
bool set_untied(nlohmann::ordered_json& config) {
  if (!config.is_object()) return false;
  if (config.contains("text_config")) set_untied(config["text_config"]);
  config["tie_word_embeddings"] = false;
  return true;
}

/// The value of a text whose numbers are marked.
nlohmann::ordered_json read_marked(const std::string& text,
                                   const std::string& mark,
                                   const std::string& source) {
  try {
    return parse_ordered_json(with_marked_numbers(text, mark), source);
  } catch (const std::runtime_error&) {
    parse_ordered_json(text, source);  // names the place in the text without marks
    throw;
  }
}

/// nullopt: nothing changes.
std::optional<std::string> with_change(const fs::path& config, const ConfigChange& change) {
  const auto text = InputFile(config).text(JsonLimits{}.bytes);
  // No other text can become the mark when it is read: there is one way to write this letter.
  const std::string zero = "\\u0000";
  auto mark = zero;
  while (text.find(mark) != text.npos) mark += zero;
  auto json = read_marked(text, mark, config.string());
  bool changed = !change.dtype.empty() && set_dtype(json, change.dtype);
  changed |= change.unties && set_untied(json);
  if (!changed) return std::nullopt;
  return with_plain_numbers(json.dump(2), mark) + "\n";
}

/// Gives a copy the permissions that `cp` does: the source's, less the process's mask. New files
/// have no execute bits: the mask takes those whose read bits it takes. Some file systems have no
/// permissions to give.
void copy_permissions(const InputFile& from, const AtomicFile& to) {
  struct stat source {
  }, own{};
  require_call(::fstat(from.descriptor(), &source) == 0, "fstat", from.path());
  require_call(::fstat(to.descriptor(), &own) == 0, "fstat", to.temporary_path());
  const auto readable = own.st_mode & 0444U;
  const auto mode = source.st_mode & ((own.st_mode & 0666U) | readable >> 2U);
  if (mode == (own.st_mode & 0777U)) return;
  const bool done = ::fchmod(to.descriptor(), mode) == 0;
  require_call(done || errno == EPERM || errno == EOPNOTSUPP, "fchmod", to.temporary_path());
}

}  // namespace

std::vector<fs::path> side_files(const Checkpoint& checkpoint) {
  std::vector<fs::path> names;
  const bool of_adapter = checkpoint.is_adapter();
  for (const auto& item : fs::directory_iterator(checkpoint.folder()))
    if (item.is_regular_file() && is_side_file(item, of_adapter))
      names.push_back(item.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> left_behind(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  const bool of_adapter = checkpoint.is_adapter();
  for (const auto& item : fs::directory_iterator(checkpoint.folder())) {
    const auto name = item.path().filename().string();
    const bool read = std::ranges::find(checkpoint.files, item.path()) != checkpoint.files.end() ||
                      name.ends_with(index_ending);
    const bool copied = item.is_regular_file() && is_side_file(item, of_adapter);
    if (!read && !copied && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

nlohmann::json read_settings(const fs::path& file) {
  const auto text = InputFile(file).text(table_json_limits.bytes);
  try {
    return parse_json(text, file.string(), table_json_limits);  // a tokenizer's table is large
  } catch (const std::runtime_error&) {
    try {
      return parse_json(with_marked_numbers(text, ""), file.string(), table_json_limits);
    } catch (const std::runtime_error&) {  // the place is that in the text without marks
    }
    throw;
  }
}

void copy_side_file(const fs::path& from, const fs::path& to, const ConfigChange& change) {
  const InputFile source(from);
  AtomicFile copy(to);
  const bool config = from.filename() == "config.json" && (!change.dtype.empty() || change.unties);
  if (const auto text = config ? with_change(from, change) : std::nullopt) {
    copy.append(*text);
  } else {
    source.read(0, [&](ByteView part) { copy.append(part); });
  }
  copy_permissions(source, copy);
  copy.commit();
}

}  // namespace dimred::checkpoints
