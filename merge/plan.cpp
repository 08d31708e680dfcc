#include "merge/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/checkpoint.h"
#include "checkpoints/safetensors.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/text.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;

PlannedTensor planned(const Input& like, std::size_t index, std::string_view dtype) {
  const auto& tensor = like.tensors[index];
  PlannedTensor result{.index = index, .dtype = tensor.dtype};
  if (!dtype.empty() && tensor.is_summed()) result.dtype = dtype;
  result.bytes = tensor.elements * checkpoints::bits_of(result.dtype) / 8;
  return result;
}

/// The input's shards; or filled up to `shard_size` bytes, a larger tensor alone.
std::vector<Shard> shards_of(const Input& like, std::string_view dtype, std::int64_t shard_size) {
  std::vector<Shard> shards;
  std::int64_t filled = 0;
  std::size_t file = 0;
  for (std::size_t i = 0; i < like.tensors.size(); ++i) {
    auto tensor = planned(like, i, dtype);
    const bool next = shard_size > 0 ? filled + tensor.bytes > shard_size && filled > 0
                                     : like.tensors[i].file != file && !like.tensors[i].shared;
    if (shards.empty() || next) {
      shards.emplace_back();
      filled = 0;
    }
    filled += tensor.bytes;
    file = like.tensors[i].file;
    shards.back().tensors.push_back(std::move(tensor));
  }
  return shards;
}

/// Gives the tensors their places. Where one would not begin at a multiple of its element's size,
/// the larger elements go first.
void lay_out(Shard& shard, const Input& like) {
  const auto size_of = [](const PlannedTensor& t) { return checkpoints::bits_of(t.dtype) / 8; };
  std::int64_t end = 0;
  bool aligned = true;
  for (const auto& tensor : shard.tensors) {
    aligned &= end % std::max<std::int64_t>(1, size_of(tensor)) == 0;
    end += tensor.bytes;
  }
  if (!aligned) std::ranges::stable_sort(shard.tensors, std::ranges::greater(), size_of);
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  end = 0;
  for (auto& tensor : shard.tensors) {
    tensor.offset = end;
    end += tensor.bytes;
    const auto& source = like.tensors[tensor.index];
    append_value(
        header,
        source.name,
        {{"dtype", tensor.dtype}, {"shape", source.shape}, {"data_offsets", {tensor.offset, end}}});
  }
  shard.head = checkpoints::safetensors_head(header);
  for (auto& tensor : shard.tensors) tensor.offset += std::ssize(shard.head);
  shard.bytes = std::ssize(shard.head) + end;
}

/// "model" or "adapter_model", as transformers and PEFT look for them.
std::string output_stem(const Input& like) {
  const auto name = like.files.front().filename().string();
  return like.in_folder() && name.starts_with("adapter_model") ? "adapter_model" : "model";
}

/// Hidden ones get another name, as what a merge notes for itself in its folder is hidden.
bool keeps_names(const Input& like, std::int64_t shard_size) {
  return like.in_folder() && shard_size == 0 &&
         std::ranges::all_of(like.files, [](const auto& file) {
           return file.extension() == ".safetensors" && !file.filename().string().starts_with('.');
         });
}

void name_shards(std::vector<Shard>& shards, const Input& like, std::int64_t shard_size) {
  constexpr std::size_t digits = 5;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (keeps_names(like, shard_size))
      shards[i].name = like.files[like.tensors[shards[i].tensors[0].index].file].filename();
    else if (shards.size() == 1)
      shards[i].name = output_stem(like) + ".safetensors";
    else
      shards[i].name = formatted("{}-{}-of-{}.safetensors",
                                 output_stem(like),
                                 padded(static_cast<std::int64_t>(i) + 1, digits),
                                 padded(std::ssize(shards), digits));
  }
}

/// What the input's index says beside the size, such as total_parameters.
nlohmann::ordered_json metadata_of(const Input& like) {
  const auto& index = like.weights;
  if (!like.in_folder() || index.extension() != ".json") return nlohmann::ordered_json::object();
  const auto text = InputFile(index).text(table_json_limits.bytes);
  const auto json = parse_json(text, index.string(), table_json_limits);
  const auto found = json.find("metadata");
  return found != json.end() && found->is_object() ? nlohmann::ordered_json(*found)
                                                   : nlohmann::ordered_json::object();
}

std::string index_text(const Plan& plan, const Input& like) {
  std::int64_t total = 0;
  nlohmann::json places;  // by name, as transformers sorts them
  for (const auto& shard : plan.shards) {
    for (const auto& tensor : shard.tensors) {
      total += tensor.bytes;
      places[like.tensors[tensor.index].name] = shard.name;
    }
  }
  nlohmann::ordered_json index{{"metadata", metadata_of(like)}, {"weight_map", places}};
  index["metadata"]["total_size"] = total;
  return index.dump(2) + "\n";
}

}  // namespace

Plan plan_output(const Input& like, std::string_view dtype, std::int64_t shard_size) {
  Plan plan{.shards = shards_of(like, dtype, shard_size)};
  for (auto& shard : plan.shards) lay_out(shard, like);
  name_shards(plan.shards, like, shard_size);
  if (plan.shards.size() == 1 && plan.shards[0].name == output_stem(like) + ".safetensors")
    return plan;
  plan.index_name = output_stem(like) + ".safetensors.index.json";
  plan.index = index_text(plan, like);
  return plan;
}

}  // namespace dimred::merge
