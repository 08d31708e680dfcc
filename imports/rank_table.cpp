#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "imports/import.h"
#include "imports/json.h"
#include "support/errors.h"
#include "support/option_values.h"

// HCCL's rank table: {"version", "server_count", "server_list": [{"server_id", "device":
// [{"device_id", "device_ip", "rank_id"}]}], "status"}.
namespace dimred::imports {
namespace {

using nlohmann::json;

const json& array_of(const json& object, const char* key, const std::string& file) {
  require(object.is_object() && object.contains(key) && object.at(key).is_array() &&
              !object.at(key).empty(),
          "[imports] {}: needs a rank table with a list {}",
          file,
          key);
  return object.at(key);
}

std::string field(const json& object, const char* key, const std::string& file) {
  require(object.is_object() && object.contains(key),
          "[imports] {}: needs a rank table with {}",
          file,
          key);
  return text_of(object.at(key));
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

/// A field that stands in a command line: a host, an address or a number.
template <class Json>
std::string word(const Json& object, const char* key, const std::string& name) {
  const auto text = field(object, key, name);
  const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == ':' || letter == '-' ||
           letter == '_';
  });
  require(plain,
          "[imports] {}: needs a host or a number as {}, received {}",
          name,
          key,
          printable(text));
  return text;
}

}  // namespace

std::string describe_rank_table(const std::filesystem::path& file) {
  const auto name = file.string();
  const auto table = read_object(file);
  const auto& servers = array_of(table, "server_list", name);
  if (table.contains("server_count")) {
    const auto count = text_of(table.at("server_count"));
    require(count == std::to_string(servers.size()),
            "[imports] {}: needs the server_count of its server_list, {}, received {}",
            name,
            servers.size(),
            printable(count));
  }
  const auto master = word(servers.front(), "server_id", name);
  std::string text = formatted("{}: HCCL rank table\n", name);
  std::size_t ranks = 0, node = 0;
  for (const auto& server : servers) {
    const auto& devices = array_of(server, "device", name);
    std::string ids;
    for (const auto& device : devices) {
      const auto rank = field(device, "rank_id", name);
      require(rank == std::to_string(ranks),
              "[imports] {}: needs rank_id in order, as torchrun counts: {}, received {}",
              name,
              ranks,
              printable(rank));
      ids += formatted("{}{}", ids.empty() ? "" : ",", word(device, "device_id", name));
      ++ranks;
    }
    text += formatted("  on {}: CUDA_VISIBLE_DEVICES={} ", word(server, "server_id", name), ids);
    text += command_of(node++, servers.size(), devices.size(), master) + '\n';
  }
  return formatted(
      "{}  ranks {}; device_ip and status have no effect: NCCL finds its own addresses\n",
      text,
      ranks);
}

Format format_of(const std::filesystem::path& file) {
  std::error_code ignored;
  require(std::filesystem::is_regular_file(file, ignored),
          "[imports] needs a readable file, received {}",
          file.string());
  if (file.extension() != ".json") return Format::fastnn;
  return read_object(file).contains("server_list") ? Format::rank_table : Format::boost;
}

}  // namespace dimred::imports
