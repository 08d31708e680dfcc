#include "merge/inputs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoints/artifact.h"
#include "checkpoints/file_names.h"
#include "checkpoints/side_files.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_state.h"
#include "support/json.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;

/// So that the last part is a name, which may say a step: of "checkpoint-5/" and of ".", too.
fs::path with_name(const fs::path& source) {
  auto path = fs::absolute(source);
  while (path.has_relative_path() && (!path.has_filename() || path.filename() == "."))
    path = path.parent_path();
  return path;
}

void require_all_different(const std::vector<Input>& inputs,
                           const std::vector<std::vector<fs::path>>& files) {
  if (const auto same = same_files(files))
    refuse("[merge] needs each checkpoint once, but '{}' and '{}' are the same files",
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
    const bool is_index = input.weights.string().ends_with(checkpoints::index_ending);
    files.push_back(is_index ? std::vector<fs::path>() : std::vector{input.weights});
  }
  require_all_different(inputs, files);
}

std::string shape_text(const checkpoints::StoredTensor& tensor) {
  return formatted("{} [{}]", tensor.dtype, joined(tensor.shape, ", ", [](std::int64_t extent) {
                     return std::to_string(extent);
                   }));
}

/// Compares configurations without the entries that say who wrote them.
bool same_settings(const fs::path& a, const fs::path& b) {
  if (file_digest(a) == file_digest(b)) return true;
  if (a.extension() != ".json") return false;
  const auto settings = [](const fs::path& file) {
    auto json = checkpoints::read_settings(file);
    if (json.is_object())
      for (const auto* name : {"_name_or_path", "transformers_version"}) json.erase(name);
    return json;
  };
  return settings(a) == settings(b);
}

}  // namespace

bool is_quantised(const checkpoints::StoredTensor& tensor) {
  const bool bytes = tensor.dtype == "U8" || tensor.dtype == "I8";
  return tensor.role == checkpoints::Role::quantised ||
         (tensor.role == checkpoints::Role::buffer && bytes);
}

FoundInputs find_inputs(const std::vector<fs::path>& sources) {
  require(!sources.empty(), "[merge] needs checkpoints, received none");
  std::vector<fs::path> named;
  for (const auto& source : sources) named.push_back(with_name(source));
  FoundInputs found{.series = checkpoints::members(named, "merge"), .inputs = {}};
  if (!found.series.counted) checkpoints::sort_by_step(found.series);
  for (const auto& [path, weights, step, kind] : found.series.members) {
    require(weights.extension() != ".npy",
            "[merge] needs checkpoints with named tensors, received '{}'",
            weights);
    found.inputs.push_back({{.path = path, .weights = weights}, step, kind});
  }
  require_different(found.inputs);
  return found;
}

std::vector<std::size_t> chosen(const std::vector<Input>& inputs, const Window& window) {
  require(window.to == 0 || window.from <= window.to,
          "[merge] needs from <= to, received from = {} and to = {}",
          window.from,
          window.to);
  std::vector<std::size_t> places;
  for (std::size_t i = inputs.size(); i-- > 0;)
    if (inputs[i].step >= window.from && (window.to == 0 || inputs[i].step <= window.to))
      places.push_back(i);
  require(!places.empty(),
          "[merge] needs checkpoints with steps {} {}, received steps {} to {}",
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

void read_tensors(Input& input, const std::string& take) {
  const auto path = input.path;
  static_cast<checkpoints::Checkpoint&>(input) =
      checkpoints::read_checkpoint(input.weights, input.kind, {.scope = "merge", .take = take});
  input.path = path;
  checkpoints::require_readable(input, "merge");
  require(!input.tensors.empty(), "[merge] '{}' holds no tensors to merge", input.path);
}

void require_different_files(const std::vector<Input>& inputs) {
  std::vector<std::vector<fs::path>> files;
  for (const auto& input : inputs) files.push_back(input.files);
  require_all_different(inputs, files);
}

std::vector<std::size_t> places_in(
    const Input& expected,
    const Input& received,
    const std::function<void(const checkpoints::StoredTensor& tensor,
                             const checkpoints::StoredTensor& other)>& require_same) {
  std::map<std::string_view, std::size_t> named;
  for (std::size_t i = 0; i < received.tensors.size(); ++i) named[received.tensors[i].name] = i;
  std::vector<std::size_t> places;
  for (const auto& tensor : expected.tensors) {
    const auto found = named.find(tensor.name);
    require(found != named.end(),
            "[merge] '{}' has no tensor \"{}\", but '{}' has this tensor",
            received.path,
            printable(tensor.name),
            expected.path);
    places.push_back(found->second);
    require_same(tensor, received.tensors[found->second]);
    named.erase(found);
  }
  require(named.empty(),
          "[merge] '{}' has the tensor \"{}\", but '{}' lacks this tensor",
          received.path,
          named.empty() ? "" : printable(named.begin()->first),
          expected.path);
  return places;
}

void require_same_tensors(const Input& expected, const Input& received) {
  places_in(expected, received, [&](const auto& tensor, const auto& other) {
    require(other.dtype == tensor.dtype && other.shape == tensor.shape,
            "[merge] '{}' has \"{}\" as {}, but '{}' has this tensor as {}",
            received.path,
            printable(tensor.name),
            shape_text(other),
            expected.path,
            shape_text(tensor));
  });
}

void require_one_frozen_part(const std::vector<Input>& inputs) {
  const auto digest_of = [](const Input& input) {
    return input.frozen ? input.frozen->digest : std::string();
  };
  std::set<fs::path> verified;
  for (const auto& input : inputs) {
    require(digest_of(input) == digest_of(inputs.front()),
            "[merge] '{}' and '{}' were trained with different frozen parameters; merge only "
            "checkpoints with the same frozen parameters",
            inputs.front().path,
            input.path);
    if (input.frozen && verified.insert(input.frozen->file).second) input.frozen->verify();
  }
}

void require_same_configuration(const Input& expected, const Input& received) {
  if (expected.folder().empty() || received.folder().empty()) return;
  for (const auto* name : {"config.json",
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
        "[merge] '{}' and '{}' differ; give --allow_different_config to merge the weights anyway",
        a,
        b);
  }
}

}  // namespace dimred::merge
