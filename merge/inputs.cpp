#include "merge/inputs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/weight_names.h"
#include "pca/source.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_state.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/open_file.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;

using checkpoints::weights_in;
using Json = nlohmann::json;

/// Weights that a folder's own checkpoint has, with the folder as what a person calls it.
fs::path name_of(const fs::path& weights) {
  return weights_in(weights.parent_path()) == weights ? weights.parent_path() : weights;
}

/// Shards mean little without the index, which says whether all are there.
void require_index(const fs::path& file) {
  static const std::regex shard("(.+)-[0-9]{5}-of-[0-9]{5}(\\.[a-z]+)");
  const auto name = file.filename().string();
  std::smatch match;
  if (!std::regex_match(name, match, shard)) return;
  refuse("[merge] '{}' is a shard; name its folder, which needs {}{}{}",
         file,
         match[1].str(),
         match[2].str(),
         checkpoints::index_ending);
}

/// So that the last part is a name, which may say a step: of "checkpoint-5/" and of ".", too.
fs::path with_name(const fs::path& source) {
  auto path = fs::absolute(source);
  while (path.has_relative_path() && (!path.has_filename() || path.filename() == "."))
    path = path.parent_path();
  return path;
}

std::vector<fs::path> checkpoints_at(const fs::path& source) {
  require(!is_unfinished(source), "[merge] '{}' is unfinished, as its name says", source);
  if (fs::is_directory(source) && !weights_in(source).empty()) {
    checkpoints::require_one_meaning(source, "merge");
    return {source};
  }
  auto files = pca::snapshot_files(checkpoints::snapshots_of(source), "merge");
  for (auto& file : files) {
    require(file.extension() != ".npy",
            "[merge] needs checkpoints whose tensors have names, received '{}'",
            file);
    file = with_name(name_of(file));
  }
  std::ranges::for_each(files, require_index);
  return files;
}

/// What a name says of the step, and the name without it.
struct NamedStep {
  std::int64_t step = 0;
  std::string rest;
};
using Step = std::optional<NamedStep>;

std::string stem_of(const fs::path& checkpoint) {
  auto path = name_of(checkpoint);
  const auto has_digit = [](const fs::path& name) {
    return name.string().find_first_of("0123456789") != std::string::npos;
  };
  if (!has_digit(path.filename()) && has_digit(path.parent_path().filename()))
    path = path.parent_path();  // step1000/model_and_optim
  return lower_case(fs::is_directory(path) ? path.filename().string() : path.stem().string());
}

/// nullopt beyond 2^63.
Step step_of_digits(const std::string& digits, std::string rest) {
  const auto step = number_in<std::int64_t>(digits);
  return step ? Step({*step, std::move(rest)}) : Step();
}

/// The number behind the word that training programs put before it; no part of another number, such
/// as 0.5 or 1e5.
Step step_by_word(const fs::path& checkpoint) {
  const auto name = stem_of(checkpoint);
  for (const auto* word : {"steps?", "iter(?:ation)?s?", "checkpoint", "ckpt", "epochs?"}) {
    std::smatch match;
    const std::regex numbered(std::string(word) + "[-_=]?([0-9]+)(?!\\.?[0-9]|e[0-9])");
    if (std::regex_search(name, match, numbered)) return step_of_digits(match[1].str(), "");
  }
  return {};
}

/// The last number of the name.
Step step_by_number(const fs::path& checkpoint) {
  const auto name = stem_of(checkpoint);
  static const std::regex last("(|.*[^0-9])([0-9]+)([^0-9]*)");
  static const std::regex fraction(".*[0-9]\\.");
  std::smatch match;
  if (!std::regex_match(name, match, last)) return {};
  const auto before = match[1].str();
  if (std::regex_match(before, fraction)) return {};
  return step_of_digits(match[2].str(), before + "#" + match[3].str());
}

/// The steps of all names, or none: names that differ elsewhere, too, as by a loss or a hash, have
/// numbers that are no steps.
std::vector<std::int64_t> steps_by(Step (*step_of)(const fs::path&),
                                   const std::vector<fs::path>& checkpoints) {
  std::vector<std::int64_t> steps;
  std::optional<std::string> rest;
  for (const auto& checkpoint : checkpoints) {
    const auto found = step_of(checkpoint);
    if (!found || (rest && *rest != found->rest)) return {};
    steps.push_back(found->step);
    rest = found->rest;
  }
  return steps;
}

bool all_differ(const std::vector<std::int64_t>& steps) {
  return std::set(steps.begin(), steps.end()).size() == steps.size();
}

fs::path weights_of(const Input& input) {
  if (!input.in_folder) return input.path;
  const auto weights = weights_in(input.path);
  require(!weights.empty(), "[merge] '{}' holds no weights", input.path);
  return weights;
}

void require_all_different(const std::vector<Input>& inputs,
                           const std::vector<std::vector<fs::path>>& files) {
  if (const auto same = same_files(files))
    refuse("[merge] needs each checkpoint once, received '{}' and '{}', which are the same files",
           inputs[same->first].path,
           inputs[same->second].path);
}

void require_different(const std::vector<Input>& inputs) {
  std::set<fs::path> seen;
  for (const auto& input : inputs)
    require(seen.insert(input.path).second,
            "[merge] needs each checkpoint once, received '{}' twice",
            input.path);
  // A link would change what the names say of steps. One index may be several checkpoints'.
  std::vector<std::vector<fs::path>> files;
  for (const auto& input : inputs) {
    const auto weights = weights_of(input);
    const bool is_index = weights.string().ends_with(checkpoints::index_ending);
    files.push_back(is_index ? std::vector<fs::path>() : std::vector{weights});
  }
  require_all_different(inputs, files);
}

void require_different_steps(const std::vector<Input>& inputs) {
  for (std::size_t i = 1; i < inputs.size(); ++i)
    require(inputs[i - 1].step < inputs[i].step,
            "[merge] needs one checkpoint of a step, received '{}' and '{}' of step {}",
            inputs[i - 1].path,
            inputs[i].path,
            inputs[i].step);
}

struct Extent {
  std::int64_t offset = 0;  // bytes from the start of the file
  std::int64_t count = 0;   // elements
};

/// The tensors of a table's rows, which lie one behind the other.
void append(Input& input, const Json& rows, const std::string& dtype, const Extent& extent) {
  const std::int64_t unit = checkpoints::bits_of(dtype) / 8;
  std::int64_t begin = 0;
  for (const auto& row : rows) {
    Tensor tensor{{.name = row.at("name"), .dtype = dtype, .shape = row.at("shape")}};
    const auto elements = checkpoints::product(tensor.shape);
    require_environment(elements && *elements <= extent.count - begin,
                        "[merge] '{}' is damaged: its layout has \"{}\" with more values than {}",
                        input.path,
                        printable(tensor.name),
                        extent.count);
    tensor.boxes = {checkpoints::run_of(0, *elements, extent.offset + begin * unit)};
    input.tensors.push_back(std::move(tensor));
    begin += *elements;
  }
  require_environment(begin == extent.count,
                      "[merge] '{}' has {} values for tensors of {}: it is damaged, or no run of "
                      "ours wrote it",
                      input.path,
                      extent.count,
                      begin);
}

Input snapshot_input(Input input) {
  input.guard.add(input.path);
  if (const auto frozen = checkpoints::frozen_file_of(input.path); !frozen.empty())
    input.guard.add(frozen);
  const auto info = checkpoints::verify_snapshot(input.path);
  const auto table = parse_json(info.layout_json, "[merge] the layout of a snapshot");
  input.files = {input.path};
  try {
    append(input, table.at("parameters"), "F32", {info.weights_offset, info.parameters});
    append(input, table.value("buffers", Json()), "F32", {info.buffers_offset, info.buffer_count});
    append(
        input, table.value("counters", Json()), "I64", {info.counters_offset, info.counter_count});
  } catch (const Json::exception& error) {
    fail_environment("[merge] '{}' is damaged: its layout is no table of tensors ({})",
                     input.path,
                     error.what());
  }
  input.frozen = checkpoints::frozen_part_of(input.path, info.layout_json);
  if (!input.frozen) return input;
  input.files.push_back(input.frozen->file);
  for (const auto& stored : input.frozen->tensors) input.tensors.push_back({{stored}, 1, true});
  return input;
}

void take_tensors(Input& input, const checkpoints::Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const auto& tensors : checkpoint.tensors)
    for (const auto& tensor : tensors) names.insert(tensor.name);
  input.files = checkpoint.files;
  input.guard = checkpoint.guard;
  for (std::size_t file = 0; file < checkpoint.tensors.size(); ++file) {
    for (const auto& stored : checkpoint.tensors[file]) {
      if (checkpoints::is_training_state(stored.name, names))
        input.left_out.push_back(stored.name);
      else
        input.tensors.push_back({{stored}, file});
    }
  }
}

std::string shape_text(const Tensor& tensor) {
  return formatted("{} [{}]", tensor.dtype, joined(tensor.shape, ", ", [](std::int64_t extent) {
                     return std::to_string(extent);
                   }));
}

/// The same but for what says who wrote it.
bool same_settings(const fs::path& a, const fs::path& b) {
  if (file_digest(a) == file_digest(b)) return true;
  if (a.extension() != ".json") return false;
  const auto settings = [](const fs::path& file) {
    auto json = parse_json(InputFile(file).text(JsonLimits{}.bytes), file.string());
    if (json.is_object())
      for (const auto* name : {"_name_or_path", "transformers_version"}) json.erase(name);
    return json;
  };
  return settings(a) == settings(b);
}

}  // namespace

bool Tensor::is_summed() const {
  return checkpoints::is_float_type(dtype) && !checkpoints::is_statistic(name);
}

bool Tensor::is_quantised() const {
  if (is_summed() || checkpoints::is_statistic(name)) return false;
  return checkpoints::holds_quantised_weights(name, dtype) || dtype == "U8" || dtype == "I8";
}

fs::path Input::folder() const { return in_folder ? path : fs::path(); }

Steps steps_of(const std::vector<fs::path>& checkpoints) {
  if (auto steps = steps_by(step_by_word, checkpoints); !steps.empty()) return {std::move(steps)};
  auto steps = steps_by(step_by_number, checkpoints);
  if (!steps.empty() && all_differ(steps)) return {std::move(steps)};
  steps.resize(checkpoints.size());
  std::iota(steps.begin(), steps.end(), 1);
  return {std::move(steps), true};
}

Found find_inputs(const std::vector<fs::path>& sources) {
  Found found;
  for (const auto& source : sources)
    for (auto& path : checkpoints_at(with_name(source)))
      found.inputs.push_back({.path = path, .in_folder = fs::is_directory(path)});
  require(!found.inputs.empty(), "[merge] needs checkpoints, received none");
  require_different(found.inputs);
  std::vector<fs::path> paths;
  for (const auto& input : found.inputs) paths.push_back(input.path);
  const auto steps = steps_of(paths);
  found.counted = steps.counted;
  for (std::size_t i = 0; i < paths.size(); ++i) found.inputs[i].step = steps.of[i];
  std::ranges::stable_sort(found.inputs, {}, &Input::step);
  require_different_steps(found.inputs);
  return found;
}

std::vector<std::size_t> chosen(const std::vector<Input>& inputs, const Window& window) {
  require(window.to == 0 || window.from <= window.to,
          "[merge] needs from <= to, received {} and {}",
          window.from,
          window.to);
  std::vector<std::size_t> places;
  for (std::size_t i = inputs.size(); i-- > 0;)
    if (inputs[i].step >= window.from && (window.to == 0 || inputs[i].step <= window.to))
      places.push_back(i);
  require(!places.empty(),
          "[merge] needs checkpoints of steps {} {}, received steps {} to {}",
          window.from,
          window.to == 0 ? "and later" : formatted("to {}", window.to),
          inputs.front().step,
          inputs.back().step);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < places.size(); i += window.stride) kept.push_back(places[i]);
  if (window.last > 0 && std::cmp_less(window.last, kept.size())) kept.resize(window.last);
  std::ranges::reverse(kept);
  return kept;
}

void read_tensors(Input& input) {
  const auto weights = weights_of(input);
  if (weights.extension() == ".h5") {
    input = snapshot_input(std::move(input));
  } else {
    take_tensors(input, checkpoints::read_checkpoint(weights));
  }
  std::set<std::string_view> names;
  for (auto& tensor : input.tensors) {
    require(names.insert(tensor.name).second,
            "[merge] '{}' has the tensor \"{}\" twice",
            input.path,
            printable(tensor.name));
    const auto bits = checkpoints::bits_of(tensor.dtype);
    require(bits > 0,
            "[merge] '{}': \"{}\" has the type {}, which no safetensors file can have",
            input.path,
            tensor.name,
            tensor.dtype);
    tensor.elements = checkpoints::product(tensor.shape).value();
    tensor.bytes = tensor.elements * bits / 8;
  }
  require(!input.tensors.empty(), "[merge] '{}' holds no tensors to merge", input.path);
}

void require_different_files(const std::vector<Input>& inputs) {
  std::vector<std::vector<fs::path>> files;
  for (const auto& input : inputs) files.push_back(input.files);
  require_all_different(inputs, files);
}

void require_same_tensors(const Input& expected, const Input& received) {
  std::map<std::string_view, const Tensor*> theirs;
  for (const auto& tensor : received.tensors) theirs[tensor.name] = &tensor;
  for (const auto& tensor : expected.tensors) {
    const auto found = theirs.find(tensor.name);
    require(found != theirs.end(),
            "[merge] '{}' has no tensor \"{}\", which '{}' has",
            received.path,
            printable(tensor.name),
            expected.path);
    require(found->second->dtype == tensor.dtype && found->second->shape == tensor.shape,
            "[merge] '{}' has \"{}\" as {}, '{}' as {}",
            received.path,
            printable(tensor.name),
            shape_text(*found->second),
            expected.path,
            shape_text(tensor));
    theirs.erase(found);
  }
  require(theirs.empty(),
          "[merge] '{}' has the tensor \"{}\", which '{}' has not",
          received.path,
          theirs.empty() ? "" : printable(theirs.begin()->first),
          expected.path);
}

void require_one_frozen_part(const std::vector<Input>& inputs) {
  const auto digest_of = [](const Input& input) {
    return input.frozen ? input.frozen->digest : std::string();
  };
  std::set<fs::path> verified;
  for (const auto& input : inputs) {
    require(digest_of(input) == digest_of(inputs.front()),
            "[merge] '{}' and '{}' were trained with different frozen parts",
            inputs.front().path,
            input.path);
    if (input.frozen && verified.insert(input.frozen->file).second) input.frozen->verify();
  }
}

void require_same_configuration(const Input& expected, const Input& received) {
  if (expected.folder().empty() || received.folder().empty()) return;
  for (const auto* name : {"config.json",
                           "adapter_config.json",
                           "tokenizer.json",
                           "tokenizer_config.json",
                           "tokenizer.model",
                           "special_tokens_map.json",
                           "added_tokens.json",
                           "vocab.json",
                           "vocab.txt",
                           "merges.txt"}) {
    const auto a = expected.folder() / name;
    const auto b = received.folder() / name;
    require(
        !fs::exists(a) || !fs::exists(b) || same_settings(a, b),
        "[merge] '{}' and '{}' differ; --allow_different_config merges the weights all the same",
        a,
        b);
  }
}

}  // namespace dimred::merge
