#include "checkpoints/shard_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/json.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

/// One shard a group; or filled up to `shard_size` bytes, a larger tensor alone.
std::vector<Shard> divided(std::vector<PlannedTensor> tensors, std::int64_t shard_size) {
  std::vector<Shard> shards;
  std::int64_t filled = 0;
  std::size_t group = 0;
  for (auto& tensor : tensors) {
    const bool next =
        shard_size > 0 ? filled + tensor.bytes > shard_size && filled > 0 : tensor.group != group;
    if (shards.empty() || next) {
      shards.emplace_back();
      filled = 0;
    }
    filled += tensor.bytes;
    group = tensor.group;
    shards.back().tensors.push_back(std::move(tensor));
  }
  return shards;
}

/// Gives the tensors their places. Larger elements go first if a tensor would not begin at a
/// multiple of its element's size.
void lay_out(Shard& shard, const std::map<std::string, std::string>& metadata) {
  const auto size_of = [](const PlannedTensor& t) { return bits_of(t.dtype) / 8; };
  std::int64_t end = 0;
  bool aligned = true;
  for (const auto& tensor : shard.tensors) {
    aligned &= end % std::max<std::int64_t>(1, size_of(tensor)) == 0;
    end += tensor.bytes;
  }
  if (!aligned) std::ranges::stable_sort(shard.tensors, std::ranges::greater(), size_of);
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  for (const auto& [name, text] : metadata)
    if (name != "format") append_value(header["__metadata__"], name, text);
  end = 0;
  for (auto& tensor : shard.tensors) {
    require_tensor_name(tensor.name);
    tensor.offset = end;
    end += tensor.bytes;
    append_value(
        header,
        tensor.name,
        {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset, end}}});
  }
  shard.head = safetensors_head(header);
  for (auto& tensor : shard.tensors) tensor.offset += std::ssize(shard.head);
  shard.bytes = std::ssize(shard.head) + end;
}

/// "model" or "adapter_model", as transformers and PEFT look for them.
std::string output_stem(const Checkpoint& like) {
  const auto name = like.files.front().filename().string();
  return like.in_folder() && name.starts_with("adapter_model") ? "adapter_model" : "model";
}

/// Hidden ones get another name, as what an output notes for itself in its folder is hidden.
bool keeps_names(const Checkpoint& like, std::int64_t shard_size) {
  const auto own = std::span(like.files).first(like.files.size() - like.lent);
  return like.in_folder() && shard_size == 0 && std::ranges::all_of(own, [](const auto& file) {
           return file.extension() == ".safetensors" && !file.filename().string().starts_with('.');
         });
}

void name_shards(std::vector<Shard>& shards, const Checkpoint& like, std::int64_t shard_size) {
  constexpr std::size_t digits = 5;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (keeps_names(like, shard_size))
      shards[i].name = like.files[shards[i].tensors[0].group].filename();
    else if (shards.size() == 1)
      shards[i].name = output_stem(like) + ".safetensors";
    else
      shards[i].name = formatted("{}-{}-of-{}.safetensors",
                                 output_stem(like),
                                 padded(static_cast<std::int64_t>(i) + 1, digits),
                                 padded(std::ssize(shards), digits));
  }
}

/// Returns the metadata of the checkpoint's index, such as total_parameters.
nlohmann::ordered_json metadata_of(const Checkpoint& like) {
  const auto& index = like.weights;
  if (!like.in_folder() || index.extension() != ".json") return nlohmann::ordered_json::object();
  const auto text = InputFile(index).text(table_json_limits.bytes);
  const auto json = parse_json(text, index.string(), table_json_limits);
  const auto found = json.find("metadata");
  return found != json.end() && found->is_object() ? nlohmann::ordered_json(*found)
                                                   : nlohmann::ordered_json::object();
}

std::string index_text(const std::vector<Shard>& shards, const Checkpoint& like) {
  std::int64_t total = 0;
  std::size_t tensors = 0;
  nlohmann::json places;  // by name, as transformers sorts them
  for (const auto& shard : shards) {
    tensors += shard.tensors.size();
    for (const auto& tensor : shard.tensors) {
      total += tensor.bytes;
      places[tensor.name] = shard.name;
    }
  }
  nlohmann::ordered_json index{{"metadata", metadata_of(like)}, {"weight_map", places}};
  index["metadata"]["total_size"] = total;
  // The number that the source counted holds for its own tensors alone.
  if (tensors != like.tensors.size() || like.lent > 0) index["metadata"].erase("total_parameters");
  return index.dump(2) + "\n";
}

/// The file of a tensor that lies in one; frozen and lent tensors go with those before them.
std::size_t group_of(const Checkpoint& like, const StoredTensor& tensor, std::size_t before) {
  if (like.across_files) return 0;
  const bool follows = tensor.shared || tensor.boxes.empty() || !like.owns(tensor);
  return follows ? before : tensor.boxes.front().file;
}

}  // namespace

bool is_summed(const StoredTensor& tensor) {
  return is_weight(tensor.role) && is_float_type(tensor.dtype);
}

std::int64_t bytes_of(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  return product(shape).value() * bits_of(dtype) / 8;
}

void require_unquantised(const StoredTensor& tensor, std::string_view dtype) {
  require(dtype.empty() || dtype == "F32" || tensor.role != Role::quantised,
          "[checkpoint] needs unquantised weights for --dtype {}, received the codes \"{}\", whose "
          "scales would be rounded; leave out --dtype",
          dtype,
          printable(tensor.name));
}

std::vector<PlannedTensor> planned_tensors(const Checkpoint& like, std::string_view dtype) {
  for (const auto& tensor : like.tensors) require_unquantised(tensor, dtype);
  std::vector<PlannedTensor> planned;
  std::size_t group = 0;
  for (std::size_t i = 0; i < like.tensors.size(); ++i) {
    const auto& tensor = like.tensors[i];
    const bool other = !dtype.empty() && is_summed(tensor);
    group = group_of(like, tensor, group);
    planned.push_back({.index = i,
                       .name = tensor.name,
                       .dtype = other ? std::string(dtype) : tensor.dtype,
                       .shape = tensor.shape,
                       .group = group});
    planned.back().bytes = bytes_of(planned.back().dtype, tensor.shape);
  }
  return planned;
}

ShardPlan plan_shards(std::vector<PlannedTensor> tensors,
                      const Checkpoint& like,
                      std::int64_t shard_size,
                      const std::map<std::string, std::string>& metadata) {
  ShardPlan plan{.shards = divided(std::move(tensors), shard_size)};
  for (auto& shard : plan.shards) lay_out(shard, metadata);
  name_shards(plan.shards, like, shard_size);
  if (plan.shards.size() == 1 && plan.shards[0].name == output_stem(like) + ".safetensors")
    return plan;
  plan.index_name = output_stem(like) + ".safetensors.index.json";
  plan.index = index_text(plan.shards, like);
  return plan;
}

}  // namespace dimred::checkpoints
