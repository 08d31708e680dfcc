#include "imports/mindspore.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "options/options.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/printable.h"
#include "support/suggestion.h"

namespace dimred::imports {
namespace {

using nlohmann::json;

/// The file's JSON object. Throws std::invalid_argument for a file that is missing, larger than a
/// mebibyte, not JSON (with line and column), not an object or with a name twice in one object.
nlohmann::json read_object(const std::filesystem::path& file) {
  constexpr std::int64_t largest = 1 << 20;
  try {
    auto json = parse_json(InputFile(file).text(largest), file.string());
    if (json.is_object()) return json;
  } catch (const std::runtime_error& unusable) {
    throw std::invalid_argument(unusable.what());
  }
  refuse("{}: needs a JSON object", file);
}

/// A JSON value as the text of one of our options: true, 0.55, plain text.
std::string option_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.is_null() ? "" : value.dump();
}

// MindSpore's AutoBoost dictionary (mindspore/boost/boost.py): parts of keys, of which stage 2 is
// the part dim_reduce.

/// A key of the dictionary: the option of ours, or what else becomes of it.
struct Key {
  std::string_view part;
  std::string_view name;
  std::string_view ours;  // an option of stage2; empty: see text
  std::string_view text;
};

constexpr std::string_view no_device_num =
    "MindSpore ignores this key, because the right name is device_number; torchrun sets the number "
    "of ranks";

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
     "collective_timeout",
     "MindSpore's ranks wait this time for the matrix file; dimred's ranks compute the matrix "
     "together"},
    {"dim_reduce",
     "n_component",
     "n_component",
     "MindSpore ignores this spelling of the tutorial and takes n_components"},
    {"dim_reduce", "device_num", "", no_device_num},
    {"common", "device_num", "", no_device_num},
    {"common", "device_number", "", "torchrun sets the number of ranks"},
    {"common",
     "gradient_split_groups",
     "",
     "the option of stage1 is allreduce_split; in stage 2, the ranks exchange columns"},
    {"boost", "mode", "", ""},
    {"boost", "dim_reduce", "", ""},
    {"boost", "less_bn", "", "MindSpore turns this key off when dim_reduce is on"},
    {"boost", "grad_freeze", "", "MindSpore turns this key off when dim_reduce is on"},
    {"boost", "adasum", "", "MindSpore turns this key off when dim_reduce is on"},
    {"boost", "grad_accumulation", "", "give gradient_accumulation = N"},
    {"boost",
     "loss_scale_group",
     "",
     "dimred has no scale by layer; loss_scale and use_dynamic_loss_scaling scale the whole loss"},
};

/// Keeps one of two spellings of the number of components. Throws std::invalid_argument if they
/// differ.
void take_one_spelling(const std::string& file,
                       const json& reduction,
                       std::vector<ImportedKey>& lines) {
  const auto one = reduction.value("n_component", json());
  const auto other = reduction.value("n_components", json());
  if (one.is_null() || other.is_null()) return;
  require(one == other,
          "[imports] {}: dim_reduce.n_component = {} and dim_reduce.n_components = {} contradict "
          "each other; leave one out",
          file,
          printable(option_text(one)),
          printable(option_text(other)));
  const auto line = std::ranges::find(lines, "dim_reduce.n_component", &ImportedKey::key);
  check(line != lines.end(), "a component count without its line");
  line->answer = Answer::no_effect;
  line->settings.clear();
}

/// Whether a part is of a function that dim_reduce excludes.
bool is_other_part(std::string_view name) {
  return name == "less_bn" || name == "grad_freeze" || name == "grad_accumulation" ||
         name == "adasum";
}

void answer_mode(ImportedKey& line) {
  if (line.value == "disable_all") {
    line.refuse(
        "this mode turns off dim_reduce, so the run has no stage 2; train with dimred stage1");
  } else if (line.value != "manual" && line.value != "auto" && line.value != "enable_all") {
    line.refuse("needs auto, manual, enable_all or disable_all");
  } else {
    line.text = "stage 2 is dim_reduce alone";
  }
}

void answer_dim_reduce(ImportedKey& line) {
  line.text = "stage 2 is dim_reduce";
  if (line.value != "true")
    line.refuse("stage 2 needs dim_reduce = true; without dim_reduce, train with dimred stage1");
}

[[noreturn]] void unknown(const std::string& file,
                          const std::string& part,
                          const std::string& name) {
  std::vector<std::string> names;
  for (const auto& key : keys) {
    if (key.part == part) names.emplace_back(key.name);
  }
  refuse("{}: {}.{} is not a key of MindSpore's boost dictionary{}",
         file,
         part,
         printable(name),
         suggestion(name, names));
}

ImportedKey answer(const std::string& file,
                   const std::string& part,
                   const std::string& name,
                   const json& value) {
  const auto* key = std::find_if(std::begin(keys), std::end(keys), [&](const Key& known) {
    return known.part == part && known.name == name;
  });
  if (key == std::end(keys)) unknown(file, part, name);
  ImportedKey line{
      .source = file, .key = formatted("{}.{}", part, name), .value = option_text(value)};
  line.text = key->text;
  if (name == "mode") answer_mode(line);
  if (name == "dim_reduce") answer_dim_reduce(line);
  if (!key->ours.empty() && !value.is_null()) {
    line.map({{std::string(key->ours), line.value}}, line.text);
  }
  return line;
}

bool is_part(const std::string& name) {
  return name == "boost" || name == "common" || name == "dim_reduce" || is_other_part(name);
}

// HCCL's rank table: {"version", "server_count", "server_list": [{"server_id", "device":
// [{"device_id", "device_ip", "rank_id"}]}], "status"}.

const json& array_of(const json& object, const char* key, const std::string& file) {
  require(object.is_object() && object.contains(key) && object.at(key).is_array() &&
              !object.at(key).empty(),
          "[imports] {}: needs a rank table with a non-empty list \"{}\"",
          file,
          key);
  return object.at(key);
}

std::string field(const json& object, const char* key, const std::string& file) {
  require(object.is_object() && object.contains(key),
          "[imports] {}: needs a rank table with the key \"{}\"",
          file,
          key);
  return option_text(object.at(key));
}

std::string command_of(std::size_t node,
                       std::size_t nodes,
                       std::size_t devices,
                       const std::string& master) {
  auto text = formatted("torchrun --no-python --nproc_per_node={}", devices);
  if (nodes > 1)
    text += formatted(
        " --nnodes={} --node_rank={} --master_addr={} --master_port=29500", nodes, node, master);
  return text + " dimred stage1 --device cuda ...";
}

/// A field that stands in a command line: a host, an address or a number; `others` may be in it,
/// too.
std::string word(const json& object,
                 const char* key,
                 const std::string& name,
                 std::string_view others = "") {
  const auto text = field(object, key, name);
  const bool plain = !text.empty() && std::ranges::all_of(text, [others](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == ':' || letter == '-' ||
           letter == '_' || others.find(static_cast<char>(letter)) != others.npos;
  });
  require(plain,
          "[imports] {}: needs a host or a number as {}, received {}",
          name,
          key,
          printable(text));
  return text;
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
  ImportedKey preset{.source = name, .key = "dim_reduce", .value = "true", .given = false};
  preset.map({{"preset", "mindspore-latest"}},
             "the preset has MindSpore's semantics, and MindSpore's constants for missing keys");
  import.lines.push_back(std::move(preset));
  for (const auto& [part, values] : dictionary.items()) {
    require(is_part(part),
            "[imports] {}: MindSpore's boost dictionary has no part {}",
            name,
            printable(part));
    require(values.is_object(), "[imports] {}: {} needs to be a JSON object", name, part);
    for (const auto& [key, value] : values.items()) {
      if (is_other_part(part)) {
        import.lines.push_back({.source = name,
                                .key = formatted("{}.{}", part, key),
                                .value = option_text(value),
                                .text = "MindSpore turns " + part + " off when dim_reduce is on"});
      } else {
        import.lines.push_back(answer(name, part, key, value));
      }
    }
    if (part == "dim_reduce") take_one_spelling(name, values, import.lines);
  }
  return import;
}

std::string describe_rank_table(const std::filesystem::path& file) {
  const auto name = file.string();
  const auto table = read_object(file);
  const auto& servers = array_of(table, "server_list", name);
  if (table.contains("server_count")) {
    const auto count = option_text(table.at("server_count"));
    require(count == std::to_string(servers.size()),
            "[imports] {}: needs server_count = {} (the length of server_list), received {}",
            name,
            servers.size(),
            printable(count));
  }
  // One server needs no address in a command: the tutorial's own table masks it, "10.*.*.*".
  const auto host = [&, others = servers.size() > 1 ? "" : "*"](const json& server) {
    return word(server, "server_id", name, others);
  };
  const auto master = host(servers.front());
  std::string text = formatted("{}: HCCL rank table\n", name);
  std::size_t ranks = 0, node = 0;
  for (const auto& server : servers) {
    const auto& devices = array_of(server, "device", name);
    std::string ids;
    for (const auto& device : devices) {
      const auto rank = field(device, "rank_id", name);
      require(rank == std::to_string(ranks),
              "[imports] {}: needs ascending ranks, as torchrun numbers them: the next rank_id "
              "must be {}, received {}",
              name,
              ranks,
              printable(rank));
      ids += formatted("{}{}", ids.empty() ? "" : ",", word(device, "device_id", name));
      ++ranks;
    }
    text += formatted("  on {}: CUDA_VISIBLE_DEVICES={} ", host(server), ids);
    text += command_of(node++, servers.size(), devices.size(), master) + '\n';
  }
  return formatted(
      "{}  ranks {}; device_ip and status have no effect: NCCL finds its own addresses\n",
      text,
      ranks);
}

ForeignFormat format_of(const std::filesystem::path& file) {
  std::error_code ignored;
  require(std::filesystem::is_regular_file(file, ignored),
          "[imports] needs a readable file, received {}",
          file);
  if (file.extension() != ".json") return ForeignFormat::fastnn;
  return read_object(file).contains("server_list") ? ForeignFormat::rank_table
                                                   : ForeignFormat::boost;
}

}  // namespace dimred::imports
