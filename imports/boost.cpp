#include <algorithm>
#include <nlohmann/json.hpp>

#include "imports/import.h"
#include "imports/json.h"
#include "support/errors.h"
#include "support/option_values.h"
#include "support/options.h"

// MindSpore's AutoBoost dictionary (mindspore/boost/boost.py): parts of keys, of which stage 2 is
// the part dim_reduce.
namespace dimred::imports {
namespace {

using nlohmann::json;

/// A key of the dictionary: the option of ours, or what else becomes of it.
struct Key {
  std::string_view part;
  std::string_view name;
  std::string_view ours;  // an option of stage2; empty: see text
  std::string_view text;
};

constexpr std::string_view no_device_num =
    "MindSpore does not know this key and ignores it (its name is device_number); torchrun says "
    "how many ranks there are";

constexpr Key keys[] = {
    {"dim_reduce", "rho", "rho", ""},
    {"dim_reduce", "gamma", "gamma", ""},
    {"dim_reduce", "alpha", "alpha", ""},
    {"dim_reduce", "sigma", "sigma", ""},
    {"dim_reduce", "n_components", "n_component", ""},
    {"dim_reduce", "pca_mat_path", "pca_mat", ""},
    {"dim_reduce", "weight_load_dir", "snapshots", ""},
    {"dim_reduce",
     "timeout",
     "",
     "how long MindSpore's ranks wait for the file with the matrix; ours compute it together, and "
     "a "
     "dead rank ends all within 10 s"},
    {"dim_reduce",
     "n_component",
     "",
     "MindSpore does not know this key and ignores it (its name is n_components); so it is here"},
    {"dim_reduce", "device_num", "", no_device_num},
    {"common", "device_num", "", no_device_num},
    {"common", "device_number", "", "torchrun says how many ranks there are"},
    {"common",
     "gradient_split_groups",
     "",
     "of stage1: allreduce_split; in stage 2 ranks exchange columns"},
    {"boost", "mode", "", ""},
    {"boost", "dim_reduce", "", ""},
    {"boost", "less_bn", "", "with dim_reduce MindSpore turns it off"},
    {"boost", "grad_freeze", "", "with dim_reduce MindSpore turns it off"},
    {"boost", "adasum", "", "with dim_reduce MindSpore turns it off"},
    {"boost", "grad_accumulation", "", "gradient_accumulation = N does it"},
    {"boost",
     "loss_scale_group",
     "",
     "there is no scale by layer; loss_scale and use_dynamic_loss_scaling scale the whole loss"},
};

/// Parts of functions that dim_reduce excludes.
constexpr std::string_view other_parts[] = {
    "less_bn", "grad_freeze", "grad_accumulation", "adasum"};

void answer_mode(Line& line) {
  if (line.value == "disable_all") {
    line.answer = Answer::refused;
    line.text = "it turns dim_reduce off, which stage 2 is; train with dimred stage1";
  } else if (line.value != "manual" && line.value != "auto" && line.value != "enable_all") {
    line.answer = Answer::refused;
    line.text = "needs auto, manual, enable_all or disable_all";
  } else {
    line.text = "stage 2 is dim_reduce alone";
  }
}

void answer_dim_reduce(Line& line) {
  line.answer = line.value == "true" ? Answer::no_effect : Answer::refused;
  line.text = line.value == "true" ? "stage 2 is dim_reduce"
                                   : "stage 2 is dim_reduce; train with dimred stage1";
}

[[noreturn]] void unknown(const std::string& file,
                          const std::string& part,
                          const std::string& name) {
  std::vector<std::string> names;
  for (const auto& key : keys) {
    if (key.part == part) names.emplace_back(key.name);
  }
  const auto near = nearest(name, names);
  throw std::invalid_argument(formatted("{}: {}.{}: not a key of MindSpore's boost dictionary{}",
                                        file,
                                        part,
                                        printable(name),
                                        near ? formatted("; did you mean {}?", *near) : ""));
}

Line answer(const std::string& file,
            const std::string& part,
            const std::string& name,
            const json& value) {
  const auto* key = std::find_if(std::begin(keys), std::end(keys), [&](const Key& known) {
    return known.part == part && known.name == name;
  });
  if (key == std::end(keys)) unknown(file, part, name);
  Line line{.source = file, .key = formatted("{}.{}", part, name), .value = text_of(value)};
  line.text = key->text;
  if (name == "mode") answer_mode(line);
  if (name == "dim_reduce") answer_dim_reduce(line);
  if (!key->ours.empty() && !value.is_null()) {
    line.answer = Answer::mapped;
    line.settings = {{std::string(key->ours), line.value}};
  }
  return line;
}

bool is_part(const std::string& name) {
  return name == "boost" || name == "common" || name == "dim_reduce" ||
         std::find(std::begin(other_parts), std::end(other_parts), name) != std::end(other_parts);
}

}  // namespace

Import read_boost(const std::filesystem::path& file) {
  auto dictionary = read_object(file);
  const auto name = file.string();
  const bool whole =
      std::any_of(dictionary.items().begin(), dictionary.items().end(), [](const auto& item) {
        return is_part(item.key()) && item.value().is_object();
      });
  if (!whole) dictionary = {{"dim_reduce", dictionary}};
  Import import{.title = formatted("{}: MindSpore's boost dictionary", name), .command = "stage2"};
  import.lines.push_back(
      {.source = name,
       .key = "dim_reduce",
       .value = "true",
       .given = false,
       .answer = Answer::mapped,
       .settings = {{
         "preset",
         "mindspore-latest"
       }},
       .text = "its semantics, and its constants where the dictionary has none"});
  for (const auto& [part, values] : dictionary.items()) {
    require(is_part(part), "[imports] {}: {}: not a part of the dictionary", name, printable(part));
    require(values.is_object(), "[imports] {}: {}: needs an object", name, part);
    const bool other =
        std::find(std::begin(other_parts), std::end(other_parts), part) != std::end(other_parts);
    for (const auto& [key, value] : values.items()) {
      if (other) {
        import.lines.push_back({.source = name,
                                .key = formatted("{}.{}", part, key),
                                .value = text_of(value),
                                .text = "with dim_reduce MindSpore turns " + part + " off"});
      } else {
        import.lines.push_back(answer(name, part, key, value));
      }
    }
  }
  return import;
}

}  // namespace dimred::imports
