#pragma once

#include <filesystem>
#include <string>

#include "imports/import.h"

namespace dimred::imports {

/// MindSpore's boost dictionary as JSON, for stage 2: its three parts boost, common and dim_reduce,
/// or the keys of dim_reduce alone. Throws std::invalid_argument naming the file and the key.
Import read_boost(const std::filesystem::path& file);

/// HCCL's rank_table.json: how to start as many ranks with torchrun; nothing of it is an option.
/// Throws std::invalid_argument for JSON of another shape.
std::string describe_rank_table(const std::filesystem::path& file);

enum class ForeignFormat { fastnn, boost, rank_table };
/// The format of a file by its content: JSON with server_list is a rank table, other JSON a boost
/// dictionary.
ForeignFormat format_of(const std::filesystem::path& file);

}  // namespace dimred::imports
